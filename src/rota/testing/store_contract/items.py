"""Items: stored, moved, edited, listed."""

from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import ClaimRequest
from rota.model.errors import NoFreeSlot, StorageError
from rota.model.status import Status
from rota.model.work import ItemFilter, NewItem, Project, WorkItem
from rota.storage.port import Edit, Store
from rota.testing.store_contract.deeds import (
    BEFORE,
    LATER,
    NOW,
    SOON,
    completed,
    events,
    found,
    given,
    in_progress,
    item,
    listed,
    moved,
    new_id,
    one,
    taken,
)


class ItemsContract:
    async def test_an_item_comes_back_as_it_was_stored(self, store: Store) -> None:
        project = Project(new_id(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        full = NewItem(
            type="Übersetzung",
            description="Zeile 1\nZeile 2 \U0001f600 'quoted' \"twice\" \\ %s :name @item",
            body="body\ttab \x01 control",
            payload={"n": [1, 2.5, None, True, {"ключ": "\x00 NUL and \u2028"}], "": ""},
            priority=1,
            project_id=project.id,
            assigned_agent="ada",
            created_by="me",
            labels=("b", "a", "ä"),
            max_attempts=7,
            available_at=LATER,
            source="github:owner/repo",
            source_ref="42",
        )
        entry = (new_id(), full)
        await given(store, entry)
        row = await found(store, entry[0])
        for name, value in full._asdict().items():
            if name != "blocked_by":
                assert getattr(row, name) == value, name
        assert (row.status, row.pinned, row.deferred) == (Status.QUEUED, True, True)
        assert (row.created_at, row.updated_at, row.version, row.epoch) == (NOW, NOW, 1, 0)
        assert (row.attempts, row.open_blockers, row.dependents) == (0, 0, 0)
        assert (row.completed_at, row.outcome, row.slot, row.claim_token) == (None,) * 4

    async def test_an_item_needs_only_a_type_and_a_description(self, store: Store) -> None:
        row = await found(store, await one(store))
        assert (row.priority, row.max_attempts, row.labels, row.payload) == (3, 3, (), None)
        assert (row.pinned, row.deferred, row.assigned_agent) == (False, False, None)

    @pytest.mark.parametrize("payload", [0, False, "", [], {}, "text", 10**30, 1e-300])
    async def test_a_payload_is_any_json(self, store: Store, payload: Any) -> None:
        row = await found(store, await one(store, payload=payload))
        assert row.payload == payload
        assert type(row.payload) is type(payload)

    async def test_items_of_one_batch_are_stored_together_or_not_at_all(self, store: Store) -> None:
        with pytest.raises(StorageError):
            await given(store, item(), item(project_id="nowhere"), item())
        assert await store.read(lambda tx: tx.list_items(ItemFilter())) == []

    async def test_insert_items_writes_an_event_for_each(self, store: Store) -> None:
        mine, theirs = item(assigned_agent="ada"), item(created_by="them")
        await store.transact(lambda tx: tx.insert_items([mine, theirs], "me", NOW))
        assert (await found(store, mine[0])).created_by == "me"
        assert (await found(store, theirs[0])).created_by == "them"
        rows = await events(store, 0, 10)
        assert [(row.type, row.work_item_id, row.agent) for row in rows] == [
            ("work.submitted", mine[0], "ada"),
            ("work.submitted", theirs[0], None),
        ]
        assert {(e.actor, e.from_status, e.to_status, e.epoch, e.occurred_at) for e in rows} == {
            ("me", None, "queued", 0, NOW)
        }

    async def test_get_items_keeps_the_order_asked_for(self, store: Store) -> None:
        ids = await given(store, item(), item(), item())
        asked = [ids[2], "ghost", ids[0]]
        rows = await store.read(lambda tx: tx.get_items(asked))
        assert [row.id for row in rows] == [ids[2], ids[0]]

    async def test_get_item_of_nothing(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_item("ghost")) is None

    async def test_list_items_goes_by_priority_then_age(self, store: Store) -> None:
        low, first, second, high = await given(
            store, item(priority=5), item(), item(), item(priority=1)
        )
        rows = await store.read(lambda tx: tx.list_items(ItemFilter()))
        assert [row.id for row in rows] == [high, first, second, low]
        rows = await store.read(lambda tx: tx.list_items(ItemFilter(by_age=True)))
        assert [row.id for row in rows] == [low, first, second, high]

    @pytest.mark.parametrize("by_age", [False, True])
    async def test_list_items_goes_on_after_a_place(self, store: Store, by_age: bool) -> None:
        await given(store, *(item(priority=1 + n % 5) for n in range(23)))
        everything = await store.read(
            lambda tx: tx.list_items(ItemFilter(by_age=by_age, limit=100))
        )
        pages: list[WorkItem] = []
        while True:
            after = (pages[-1].priority, pages[-1].id) if pages else None
            asked = ItemFilter(by_age=by_age, after=after, limit=5)
            page = await listed(store, asked)
            pages += page
            if not page:
                break
        assert pages == everything
        assert len(pages) == 23

    async def test_list_items_filters(self, store: Store) -> None:
        project = Project(new_id(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        a, b, c, d = await given(
            store,
            item("Fix the 100% bug", project_id=project.id, labels=("red", "blue")),
            item("other", body="a BUG inside", type="bug"),
            item("Ärger", labels=("red",), assigned_agent="ada"),
            item("under_score"),
        )
        await moved(store, d, Status.CANCELLED, now=LATER)
        cases: list[tuple[ItemFilter, set[str]]] = [
            (ItemFilter(), {a, b, c, d}),
            (ItemFilter(statuses=(Status.QUEUED,)), {a, b, c}),
            (ItemFilter(statuses=(Status.CANCELLED, Status.FAILED)), {d}),
            (ItemFilter(agent="ada"), {c}),
            (ItemFilter(project_id=project.id), {a}),
            (ItemFilter(type="bug"), {b}),
            (ItemFilter(label="red"), {a, c}),
            (ItemFilter(label="red", agent="ada"), {c}),
            (ItemFilter(text="bug"), {a, b}),
            (ItemFilter(text="0% B"), {a}),
            (ItemFilter(text="r_s"), {d}),
            (ItemFilter(text="Ärger"), {c}),
            (ItemFilter(text="\\"), set()),
            (ItemFilter(completed_after=NOW), {d}),
            (ItemFilter(completed_after=LATER), set()),
            (ItemFilter(updated_after=NOW), {d}),
            (ItemFilter(created_after=BEFORE, by_age=True), {a, b, c, d}),
            (ItemFilter(created_after=NOW, by_age=True), set()),
            (ItemFilter(agent="nobody"), set()),
            (ItemFilter(id_prefix=c, by_age=True), {c}),
            (ItemFilter(id_prefix=c[:-1], type="bug", by_age=True), set()),
            (ItemFilter(id_prefix="f", by_age=True), set()),
        ]
        for asked, expected in cases:
            assert {row.id for row in await listed(store, asked)} == expected, asked

    async def test_count_by_status_names_every_status(self, store: Store) -> None:
        first, _ = await given(store, item(), item())
        await completed(store, first)
        counts = await store.read(lambda tx: tx.count_by_status())
        assert set(counts) == set(Status)
        assert {status: n for status, n in counts.items() if n} == {
            Status.QUEUED: 1,
            Status.COMPLETED: 1,
        }

    async def test_queued_before_counts_what_may_be_claimed_first(self, store: Store) -> None:
        await given(
            store, item(priority=1), item(), item(available_at=LATER), item(assigned_agent="ada")
        )
        last = await found(store, await one(store))
        await one(store, priority=1)
        assert await store.read(lambda tx: tx.queued_before(last)) == 3

    async def test_ahead_in_line_counts_what_such_a_claim_would_take_first(
        self, store: Store
    ) -> None:
        await given(
            store,
            item(type="bug", labels=("red", "new")),
            item(type="bug", priority=5),
            item(priority=1),
            item(type="bug", priority=1, assigned_agent="bob"),
            item(type="bug", assigned_agent="ada"),
        )
        sent = await one(store, type="bug", priority=5)
        await moved(store, sent, Status.DISPATCHED, agent="ada")
        last = await found(store, await one(store, type="bug", priority=4))

        async def ahead(**wanted: Any) -> int:
            asked = ClaimRequest("ada", **wanted)
            return await store.read(lambda tx: tx.ahead_in_line(last, asked))

        assert await ahead() == 4, "the plain one, too"
        assert await ahead(types=("bug",)) == 3
        assert await ahead(types=("bug", "chore")) == await ahead()
        assert await ahead(types=("bug",), labels=("red", "new")) == 1
        assert await ahead(labels=("blue",)) == await ahead(project_id="p-1") == 0

    async def test_move_changes_what_it_names_and_keeps_the_rest(self, store: Store) -> None:
        item_id = await one(store)
        before = await found(store, item_id)
        row = await moved(
            store,
            item_id,
            Status.IN_PROGRESS,
            now=SOON,
            agent="ada",
            slot=2,
            new_epoch=True,
            notes="on it",
            artifact_url="https://example.org",
        )
        assert row == await found(store, item_id)
        assert row == replace(
            before,
            status=Status.IN_PROGRESS,
            came_from=Status.QUEUED,
            reason="test",
            updated_at=SOON,
            assigned_agent="ada",
            slot=2,
            epoch=1,
            attempts=1,
            notes="on it",
            artifact_url="https://example.org",
            version=2,
        )
        row = await moved(
            store, item_id, Status.FAILED, sources=(Status.IN_PROGRESS,), now=LATER, reason="why"
        )
        assert row is not None
        assert (row.notes, row.artifact_url) == ("on it", "https://example.org")
        assert (row.completed_at, row.outcome, row.reason) == (LATER, "failed", "why")
        assert (row.slot, row.assigned_agent, row.epoch, row.attempts) == (None, "ada", 1, 1)

    async def test_move_can_drop_the_agent_reset_attempts_and_defer(self, store: Store) -> None:
        item_id = await one(store)
        await in_progress(store, item_id)
        row = await moved(
            store,
            item_id,
            Status.QUEUED,
            sources=(Status.IN_PROGRESS,),
            drop_agent=True,
            reset_attempts=True,
            available_at=LATER,
        )
        assert row is not None
        assert (row.assigned_agent, row.attempts, row.epoch) == (None, 0, 1)
        assert (row.available_at, row.deferred) == (LATER, True)

    async def test_move_keeps_an_agent_that_a_person_named(self, store: Store) -> None:
        item_id = await one(store, assigned_agent="ada")
        await moved(store, item_id, Status.DISPATCHED)
        row = await moved(
            store, item_id, Status.QUEUED, sources=(Status.DISPATCHED,), drop_agent=True
        )
        assert row is not None
        assert (row.assigned_agent, row.pinned) == ("ada", True)

    async def test_move_to_another_agent_is_no_longer_the_person_s_choice(
        self, store: Store
    ) -> None:
        item_id = await one(store, assigned_agent="ada")
        row = await moved(store, item_id, Status.DISPATCHED, agent="bob")
        assert row is not None
        assert (row.assigned_agent, row.pinned) == ("bob", False)

    async def test_move_is_refused_from_another_status(self, store: Store) -> None:
        item_id = await one(store)
        before = await found(store, item_id)
        sources = (Status.DISPATCHED, Status.IN_PROGRESS, Status.BLOCKED)
        assert await moved(store, item_id, Status.QUEUED, sources=sources) is None
        assert await found(store, item_id) == before

    async def test_move_is_refused_at_another_version(self, store: Store) -> None:
        item_id = await one(store)
        assert await moved(store, item_id, Status.CANCELLED, version=2) is None
        assert await moved(store, item_id, Status.CANCELLED, version=1) is not None

    async def test_move_is_refused_without_the_live_token(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store, tokens=["right"])
        before = await found(store, claimed.item.id)
        away: dict[str, Any] = {"sources": (Status.IN_PROGRESS,)}
        for token in (None, "", "wrong", "RIGHT"):
            refused = await moved(store, claimed.item.id, Status.COMPLETED, token=token, **away)
            assert refused is None
        assert await found(store, claimed.item.id) == before
        assert await moved(store, claimed.item.id, Status.COMPLETED, token="right", **away)

    async def test_move_is_refused_with_a_token_where_there_is_no_claim(self, store: Store) -> None:
        item_id = await one(store)
        await in_progress(store, item_id)
        away: dict[str, Any] = {"sources": (Status.IN_PROGRESS,)}
        assert await moved(store, item_id, Status.COMPLETED, token="old", **away) is None
        assert await moved(store, item_id, Status.COMPLETED, **away) is not None

    async def test_move_by_force_leaves_the_claim_out_of_it(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        row = await moved(
            store, claimed.item.id, Status.QUEUED, sources=(Status.IN_PROGRESS,), force=True
        )
        assert row is not None
        assert row.claim_token is None

    async def test_move_of_nothing(self, store: Store) -> None:
        assert await moved(store, "ghost", Status.CANCELLED) is None

    async def test_two_items_of_one_agent_cannot_share_a_slot(self, store: Store) -> None:
        first, second = await given(store, item(), item())
        await in_progress(store, first, "ada", 0)
        with pytest.raises(NoFreeSlot):
            await in_progress(store, second, "ada", 0)
        assert (await found(store, second)).status is Status.QUEUED
        await in_progress(store, second, "ada", 1)

    async def test_edit_changes_only_what_it_names(self, store: Store) -> None:
        item_id = await one(store, body="old")
        before = await found(store, item_id)
        edit = Edit(item_id, LATER, {"description": "new", "body": None, "priority": 1})
        row = await store.transact(lambda tx: tx.edit(edit))
        assert row == replace(
            before, description="new", body=None, priority=1, updated_at=LATER, version=2
        )
        assert row == await found(store, item_id)

    async def test_edit_is_refused_at_another_version_and_of_nothing(self, store: Store) -> None:
        item_id = await one(store)
        late = Edit(item_id, NOW, {"body": "x"}, version=2)
        ghost = Edit("ghost", NOW, {"body": "x"})
        assert await store.transact(lambda tx: tx.edit(late)) is None
        assert await store.transact(lambda tx: tx.edit(ghost)) is None
        assert (await found(store, item_id)).body is None

    @pytest.mark.parametrize("name", ["status", "epoch", "claim_token", "id", "x = 1; --"])
    async def test_edit_takes_only_describing_fields(self, store: Store, name: str) -> None:
        item_id = await one(store)
        with pytest.raises(ValueError, match="not editable"):
            await store.transact(lambda tx: tx.edit(Edit(item_id, NOW, {name: "x"})))

    async def test_set_labels_replaces_them(self, store: Store) -> None:
        item_id = await one(store, labels=("a", "b"))
        await store.transact(lambda tx: tx.set_labels(item_id, ["b", "c"]))
        assert (await found(store, item_id)).labels == ("b", "c")
        for label, there in {"a": 0, "b": 1, "c": 1}.items():
            assert len(await listed(store, ItemFilter(label=label))) == there
        await store.transact(lambda tx: tx.set_labels(item_id, []))
        assert (await found(store, item_id)).labels == ()

    async def test_promote_due_frees_what_is_due(self, store: Store) -> None:
        due, not_due, _ = await given(
            store, item(available_at=SOON), item(available_at=LATER), item()
        )
        assert await store.read(lambda tx: tx.next_due()) == SOON
        assert await store.transact(lambda tx: tx.promote_due(NOW)) == 0
        assert await store.transact(lambda tx: tx.promote_due(SOON)) == 1
        assert (await found(store, due)).deferred is False
        assert (await found(store, not_due)).deferred is True
        assert await store.read(lambda tx: tx.next_due()) == LATER
        await store.transact(lambda tx: tx.promote_due(LATER))
        assert await store.read(lambda tx: tx.next_due()) is None
