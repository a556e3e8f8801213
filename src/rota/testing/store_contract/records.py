"""Projects and agents."""

from dataclasses import replace

from rota.model.agents import Agent, AgentLoad
from rota.model.status import Status
from rota.model.work import Project
from rota.storage.port import Store, Transaction
from rota.testing.store_contract.deeds import LATER, NOW, given, in_progress, item, moved, new_id


class ProjectsAndAgentsContract:
    async def test_a_project_comes_back_as_it_was_stored(self, store: Store) -> None:
        project = Project(new_id(), "Größe ✓", "https://example.org/1", NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        assert await store.read(lambda tx: tx.get_project(project.id)) == project

    async def test_update_project_changes_what_it_names(self, store: Store) -> None:
        project = Project(new_id(), "One", "https://example.org/1", NOW, NOW)

        def body(tx: Transaction) -> list[Project | None]:
            tx.insert_project(project)
            named = tx.update_project(project.id, {"name": "Other"}, LATER)
            return [named, tx.update_project(project.id, {"external_ref": None}, LATER)]

        named = replace(project, name="Other", updated_at=LATER)
        bare = replace(named, external_ref=None)
        assert await store.transact(body) == [named, bare]
        assert await store.read(lambda tx: tx.get_project(project.id)) == bare

    async def test_a_project_that_is_not_there(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_project("ghost")) is None
        changes = {"name": "Ghost"}
        assert await store.transact(lambda tx: tx.update_project("ghost", changes, NOW)) is None

    async def test_list_projects_goes_by_id_and_pages(self, store: Store) -> None:
        projects = [Project(new_id(), f"p{n}", None, NOW, NOW) for n in range(5)]

        def body(tx: Transaction) -> None:
            for project in reversed(projects):
                tx.insert_project(project)

        await store.transact(body)
        first = await store.read(lambda tx: tx.list_projects(None, 3))
        rest = await store.read(lambda tx: tx.list_projects(first[-1].id, 3))
        assert [*first, *rest] == projects

    async def test_put_agent_makes_and_changes(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_agent("ada")) is None
        await store.transact(lambda tx: tx.put_agent(Agent("ada", 3, False, NOW, NOW)))
        assert await store.read(lambda tx: tx.get_agent("ada")) == Agent("ada", 3, False, NOW, NOW)
        await store.transact(lambda tx: tx.put_agent(Agent("ada", 5, True, NOW, LATER)))
        assert await store.read(lambda tx: tx.get_agent("ada")) == Agent("ada", 5, True, NOW, LATER)

    async def test_agent_loads_shows_who_is_configured_or_at_work(self, store: Store) -> None:
        await store.transact(lambda tx: tx.put_agent(Agent("zoe", 2, False, NOW, NOW)))
        busy, named, _ = await given(store, item(), item(), item())
        await in_progress(store, busy, "ada")
        await moved(store, named, Status.DISPATCHED, agent="bob")
        assert await store.read(lambda tx: tx.agent_loads()) == [
            AgentLoad(Agent("ada"), 1, 0),
            AgentLoad(Agent("bob"), 0, 1),
            AgentLoad(Agent("zoe", 2, False, NOW, NOW), 0, 0),
        ]

    async def test_busy_slots_are_those_of_items_in_progress(self, store: Store) -> None:
        first, second, _ = await given(store, item(), item(), item())
        await in_progress(store, first, "ada", 0)
        await in_progress(store, second, "ada", 4)
        assert await store.read(lambda tx: tx.busy_slots("ada")) == {0, 4}
        assert await store.read(lambda tx: tx.busy_slots("bob")) == set()
