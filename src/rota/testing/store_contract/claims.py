"""Claims: taken, kept, finished, lapsed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.agents import Agent
from rota.model.claims import Claim, NothingClaimed
from rota.model.status import OUTCOME_OF, Status
from rota.model.work import Project
from rota.storage.port import Edit, Finish, Store, Take, Transaction
from rota.testing.store_contract.deeds import (
    LATER,
    NOW,
    SOON,
    OpenStore,
    found,
    given,
    in_progress,
    item,
    live_claim,
    moved,
    new_id,
    one,
    taken,
    wanted,
)


class ClaimsContract:
    async def test_take_starts_an_item_with_a_claim(self, store: Store) -> None:
        item_id = await one(store)
        before = await found(store, item_id)
        (claimed,) = await taken(store, tokens=["t1"])
        assert claimed.item == await found(store, item_id)
        assert claimed.item == replace(
            before,
            status=Status.IN_PROGRESS,
            came_from=Status.QUEUED,
            reason="claimed",
            assigned_agent="ada",
            slot=0,
            epoch=1,
            attempts=1,
            claim_token="t1",
            lease_expires_at=SOON,
            version=2,
        )
        assert claimed.claim == Claim(item_id, 1, "t1", "ada", 0, NOW, 60, SOON)
        assert await store.read(lambda tx: tx.live_claim(item_id)) == claimed.claim

    async def test_take_writes_the_log_and_two_events(self, store: Store) -> None:
        item_id = await one(store)
        take = wanted()
        await store.transact(lambda tx: tx.take([take], NOW))
        (logged,) = await store.read(lambda tx: tx.dispatches_of(item_id))
        assert (logged.id, logged.agent, logged.dispatched_at) == (take.dispatch_ids[0], "ada", NOW)
        assert logged.completed_at is None
        submitted, *events = await store.read(lambda tx: tx.events_of(item_id, 10))
        assert submitted.type == "work.submitted"
        assert [(e.type, e.from_status, e.to_status, e.epoch) for e in events] == [
            ("work.dispatched", "queued", "dispatched", 1),
            ("work.started", "dispatched", "in_progress", 1),
        ]
        assert {(e.actor, e.agent, e.reason, e.occurred_at) for e in events} == {
            ("ada", "ada", "claimed", NOW)
        }

    async def test_take_of_a_dispatched_item_uses_its_dispatch(self, store: Store) -> None:
        item_id = await one(store)
        await moved(store, item_id, Status.DISPATCHED, agent="ada")
        await store.transact(lambda tx: tx.log_dispatch("d0", item_id, "ada", NOW))
        (claimed,) = await taken(store)
        assert claimed.item.came_from is Status.DISPATCHED
        assert [d.id for d in await store.read(lambda tx: tx.dispatches_of(item_id))] == ["d0"]
        events = await store.read(lambda tx: tx.events_of(item_id, 10))
        assert [event.type for event in events] == ["work.submitted", "work.started"]

    async def test_take_prefers_dispatched_then_priority_then_age(self, store: Store) -> None:
        old, urgent, mine, dispatched, young = await given(
            store,
            item(),
            item(priority=1),
            item(priority=2, assigned_agent="ada"),
            item(priority=5),
            item(),
        )
        await moved(store, dispatched, Status.DISPATCHED, agent="ada")
        took = await taken(store, tokens=["a", "b", "c", "d", "e"], slots=9)
        order = [claimed.item.id for claimed in took]
        assert order == [dispatched, urgent, mine, old, young]
        assert [claimed.item.slot for claimed in took] == [0, 1, 2, 3, 4]
        assert [claimed.claim.token for claimed in took] == ["a", "b", "c", "d", "e"]

    async def test_take_leaves_what_may_not_be_taken(self, store: Store) -> None:
        held, blocked, _, _, _, blocker = await given(
            store,
            item(),
            item(),
            item(available_at=LATER),
            item(assigned_agent="bob"),
            item(),
            item(priority=1),
        )
        await store.transact(lambda tx: tx.edit(Edit(held, NOW, {"hold_reason": "wait"})))
        await store.transact(lambda tx: tx.add_blockers(blocked, [blocker]))
        took = await taken(store, tokens=list("abcdefgh"), slots=9)
        assert len(took) == 2
        assert took[0].item.id == blocker

    async def test_take_leaves_a_dispatched_item_that_is_held(self, store: Store) -> None:
        item_id = await one(store)
        await moved(store, item_id, Status.DISPATCHED, agent="ada")
        await store.transact(lambda tx: tx.edit(Edit(item_id, NOW, {"hold_reason": "wait"})))
        assert await taken(store) == []

    async def test_take_fills_free_slots_and_no_more(self, store: Store) -> None:
        await given(store, *(item() for _ in range(6)))
        first = await taken(store, tokens=["a", "b"], slots=3)
        assert [claimed.item.slot for claimed in first] == [0, 1]
        await moved(
            store, first[0].item.id, Status.QUEUED, sources=(Status.IN_PROGRESS,), force=True,
            drop_agent=True,
        )  # fmt: skip
        rest = await taken(store, tokens=["c", "d", "e", "f"], slots=3)
        assert [claimed.item.slot for claimed in rest] == [0, 2]
        assert await taken(store, tokens=["g"], slots=3) == []

    async def test_take_filters_by_type_label_and_project(self, store: Store) -> None:
        project = Project(new_id(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        a, b, c, d = await given(
            store,
            item(type="a", labels=("x", "y")),
            item(type="b", labels=("x",)),
            item(type="c", project_id=project.id),
            item(type="a", priority=1, assigned_agent="ada"),
        )
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"types": ("a",)}, [d, a]),
            ({"types": ("b", "a")}, [d, a, b]),
            ({"types": ("zzz",)}, []),
            ({"labels": ("x",)}, [a, b]),
            ({"labels": ("x", "y")}, [a]),
            ({"labels": ("x",), "types": ("b", "c")}, [b]),
            ({"project_id": project.id}, [c]),
            ({"project_id": project.id, "types": ("a",)}, []),
            ({"project_id": project.id, "types": ("a", "c"), "labels": ("x",)}, []),
            ({}, [d, a, b, c]),
        ]
        for number, (filters, expected) in enumerate(cases):
            take = wanted(tokens=[f"{number}-{n}" for n in range(5)], **filters)

            def body(tx: Transaction, take: Take = take) -> None:
                tx.put_agent(Agent("ada", 9, updated_at=NOW))
                (result,) = tx.take([take], NOW)
                raise _Seen([claimed.item.id for claimed in result.items])

            with pytest.raises(_Seen) as undone:
                await store.transact(body)
            assert undone.value.ids == expected, filters

    async def test_take_says_why_it_gave_nothing(self, store: Store) -> None:
        await given(store, item(assigned_agent="bob"), item())
        await store.transact(lambda tx: tx.put_agent(Agent("zoe", paused=True, updated_at=NOW)))
        await taken(store, "ada")
        asked = [wanted("ada"), wanted("bob", ["b"]), wanted("cem"), wanted("zoe")]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        assert [(answer.reason, len(answer.items)) for answer in answers] == [
            (NothingClaimed.NO_FREE_SLOT, 0),
            (None, 1),
            (NothingClaimed.NOTHING_READY, 0),
            (NothingClaimed.AGENT_PAUSED, 0),
        ]

    async def test_a_slot_that_stays_empty_is_not_called_taken(self, store: Store) -> None:
        """Two requests at once for one slot: the answer depends on whether there is work."""
        asked = [wanted("ada", ["a"]), wanted("ada", ["b"])]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        assert [one.reason for one in answers] == [NothingClaimed.NOTHING_READY] * 2
        await given(store, item())
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        assert [one.reason for one in answers] == [None, NothingClaimed.NO_FREE_SLOT]

    async def test_take_serves_many_agents_in_their_order(self, store: Store) -> None:
        first, mine, second, dispatched, third = await given(
            store, item(), item(assigned_agent="bob"), item(), item(priority=5), item(type="rare")
        )
        await moved(store, dispatched, Status.DISPATCHED, agent="cem")
        await store.transact(lambda tx: tx.put_agent(Agent("dan", 5, updated_at=NOW)))
        asked = [
            wanted("ada", ["a"]),
            wanted("bob", ["b"]),
            wanted("cem", ["c"]),
            wanted("ada", ["a2"]),
            wanted("eve", ["e"], types=("rare",)),
            wanted("dan", ["d1", "d2", "d3"]),
        ]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        got = [[claimed.item.id for claimed in answer.items] for answer in answers]
        # Requests with the same filters are served together; those with other filters come after.
        assert got[:4] == [[first], [mine], [dispatched], []]
        assert {*got[4], *got[5]} == {second, third}
        assert answers[3].reason is NothingClaimed.NO_FREE_SLOT
        for answer in answers:
            for claimed in answer.items:
                assert claimed.item == await found(store, claimed.item.id)
                assert claimed.claim == await live_claim(store, claimed.item.id)

    async def test_take_for_one_agent_twice_fills_its_slots_once(self, store: Store) -> None:
        await given(store, *(item() for _ in range(5)))
        await store.transact(lambda tx: tx.put_agent(Agent("ada", 3, updated_at=NOW)))
        asked = [wanted(tokens=["a", "b"]), wanted(tokens=["c", "d"]), wanted(tokens=["e"])]
        answers = await store.transact(lambda tx: tx.take(asked, NOW))
        slots = [[claimed.item.slot for claimed in answer.items] for answer in answers]
        assert slots == [[0, 1], [2], []]

    async def test_many_takers_never_get_the_same_item(
        self, store: Store, another_store: OpenStore
    ) -> None:
        other = await another_store()
        await given(store, *(item(labels=("red",)) for _ in range(40)))
        stores, labels = [store, other], [(), ("red",), ("red",)]
        rounds = await asyncio.gather(
            *(
                taken(
                    stores[n % 2],
                    agent=f"a{n}",
                    tokens=[f"{n}-{k}" for k in range(4)],
                    slots=4,
                    labels=labels[n % 3],
                )
                for n in range(12)
            )
        )
        ids = [claimed.item.id for round_ in rounds for claimed in round_]
        assert len(ids) == len(set(ids))
        while missing := 40 - len(ids):
            # A skipped row is not a taken one: another request gets the rest.
            more = await taken(store, agent=f"z{missing}", tokens=[f"z{missing}"], labels=("red",))
            assert more
            ids += [claimed.item.id for claimed in more]
        assert len(set(ids)) == 40

    async def test_lease_puts_a_claim_on_a_started_item(self, store: Store) -> None:
        item_id = await one(store)
        started = await in_progress(store, item_id)
        claim = Claim(item_id, started.epoch, "t", "ada", 0, NOW, 60, SOON)
        row = await store.transact(lambda tx: tx.lease(claim))
        assert row is not None
        assert row.claim_token == "t"
        assert await store.read(lambda tx: tx.live_claim(item_id)) == claim

    async def test_lease_of_an_item_that_is_not_started_leaves_no_claim(self, store: Store) -> None:
        item_id = await one(store)
        claim = Claim(item_id, 1, "t", "ada", 0, NOW, 60, SOON)
        assert await store.transact(lambda tx: tx.lease(claim)) is None
        assert await store.read(lambda tx: tx.find_claim(item_id, "t")) is None

    async def test_extend_claim_pushes_the_expiry_out(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        item_id = claimed.item.id
        extended = await store.transact(
            lambda tx: tx.extend_claim(item_id, "t1", SOON, LATER, "half")
        )
        assert extended == claimed.claim._replace(
            heartbeat_at=SOON, expires_at=LATER, progress="half"
        )
        kept = await store.transact(lambda tx: tx.extend_claim(item_id, "t1", LATER, LATER, None))
        assert kept is not None
        assert kept.progress == "half"

    async def test_extend_claim_only_by_the_token_of_a_live_claim(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        item_id = claimed.item.id

        def extend(token: str) -> Callable[[Transaction], Claim | None]:
            return lambda tx: tx.extend_claim(item_id, token, SOON, LATER, None)

        assert await store.transact(extend("other")) is None
        await moved(store, item_id, Status.QUEUED, sources=(Status.IN_PROGRESS,), force=True)
        assert await store.transact(extend("t1")) is None

    async def test_a_claim_ends_with_the_move_of_its_item_and_stays_known(
        self, store: Store
    ) -> None:
        await one(store)
        (first,) = await taken(store, tokens=["t1"])
        item_id = first.item.id
        assert (await store.read(lambda tx: tx.find_claim(item_id, "t1"))) == first.claim
        row = await moved(
            store, item_id, Status.QUEUED, sources=(Status.IN_PROGRESS,), token="t1",
            drop_agent=True,
        )  # fmt: skip
        assert row is not None
        assert (row.claim_token, row.lease_expires_at) == (None, None)
        assert await store.read(lambda tx: tx.live_claim(item_id)) is None
        (second,) = await taken(store, agent="bob", tokens=["t2"])
        assert second.claim.epoch == 2
        ended = await store.read(lambda tx: tx.find_claim(item_id, "t1"))
        assert ended is not None
        assert (ended.live, ended.epoch, ended.agent) == (False, 1, "ada")
        assert await store.read(lambda tx: tx.live_claim(item_id)) == second.claim
        assert await store.read(lambda tx: tx.find_claim(item_id, "other")) is None

    async def test_a_claim_is_known_of_its_own_item_alone(self, store: Store) -> None:
        first, second = await given(store, item(), item())
        mine, other = await taken(store, slots=2, tokens=["t1", "t2"])
        assert (mine.item.id, other.item.id) == (first, second)
        assert await store.read(lambda tx: tx.find_claim(first, "t1")) == mine.claim
        assert await store.read(lambda tx: tx.find_claim(second, "t1")) is None
        assert await store.read(lambda tx: tx.claim_at(first, 1)) == mine.claim
        assert await store.read(lambda tx: tx.claim_at(second, 1)) == other.claim
        assert await store.read(lambda tx: tx.claim_at(second, 2)) is None

    async def test_finish_completes_those_whose_token_is_live(self, store: Store) -> None:
        await given(store, *(item() for _ in range(3)))
        took = await taken(store, tokens=["a", "b", "c"], slots=3)
        ids = [claimed.item.id for claimed in took]
        entries = [
            Finish(ids[0], "a", "well done", "me"),
            Finish(ids[1], "wrong", None, "me"),
            Finish("ghost", "x", None, "me"),
            Finish(ids[2], "c", None, "me"),
        ]
        done = await store.transact(lambda tx: tx.finish(entries, SOON))
        assert {row.id for row in done} == {ids[0], ids[2]}
        first = await found(store, ids[0])
        assert first == replace(
            took[0].item,
            status=Status.COMPLETED,
            came_from=Status.IN_PROGRESS,
            reason="complete",
            updated_at=SOON,
            completed_at=SOON,
            outcome=OUTCOME_OF[Status.COMPLETED],
            notes="well done",
            slot=None,
            claim_token=None,
            lease_expires_at=None,
            version=3,
        )
        assert first in done
        assert await found(store, ids[1]) == took[1].item
        assert await store.read(lambda tx: tx.live_claim(ids[0])) is None
        (log,) = await store.read(lambda tx: tx.dispatches_of(ids[0]))
        assert (log.completed_at, log.outcome) == (SOON, "success")
        event = (await store.read(lambda tx: tx.events_of(ids[0], 1)))[0]
        assert (event.type, event.from_status, event.to_status, event.epoch, event.actor) == (
            "work.completed", "in_progress", "completed", 1, "me",
        )  # fmt: skip
        assert event.data == {"outcome": "success", "notes": "well done"}

    async def test_finish_closes_only_what_is_open_in_the_log_of_its_item(
        self, store: Store
    ) -> None:
        await given(store, item(), item())
        mine, other = await taken(store, tokens=["a", "b"], slots=2)
        item_id = mine.item.id

        def give_back(tx: Transaction) -> None:
            tx.close_dispatch(item_id, NOW, "released")
            tx.log_dispatch(new_id(), item_id, "ada", NOW)

        await store.transact(give_back)
        await store.transact(lambda tx: tx.finish([Finish(item_id, "a", None, "me")], SOON))
        log = await store.read(lambda tx: tx.dispatches_of(item_id))
        assert [(one.completed_at, one.outcome) for one in log] == [
            (NOW, "released"),
            (SOON, "success"),
        ]
        (open_,) = await store.read(lambda tx: tx.dispatches_of(other.item.id))
        assert (open_.completed_at, open_.outcome) == (None, None)

    async def test_finish_of_one_item_named_twice_is_one_completion(self, store: Store) -> None:
        await one(store)
        (claimed,) = await taken(store)
        entry = Finish(claimed.item.id, "t1", None, None)
        done = await store.transact(lambda tx: tx.finish([entry, entry], NOW))
        assert len(done) == 1
        events = await store.read(lambda tx: tx.events_of(claimed.item.id, 10))
        assert [event.type for event in events].count("work.completed") == 1

    async def test_lapsed_items_are_those_past_their_lease(self, store: Store) -> None:
        await given(store, *(item() for _ in range(3)))
        for agent, expires_at in {"late": SOON, "later": LATER}.items():
            await taken(store, agent, tokens=[agent], expires_at=expires_at)
        (ended,) = await taken(store, "ended", tokens=["ended"], expires_at=SOON)
        await moved(
            store, ended.item.id, Status.COMPLETED, sources=(Status.IN_PROGRESS,), token="ended"
        )

        async def lapsed(now: str, limit: int = 10) -> list[str | None]:
            rows = await store.transact(lambda tx: tx.lapsed_items(now, limit))
            return [row.assigned_agent for row in rows]

        assert await store.read(lambda tx: tx.next_expiry()) == SOON
        assert await lapsed(NOW) == []
        assert await lapsed(SOON) == ["late"]
        assert await lapsed(LATER) == ["late", "later"]
        assert await lapsed(LATER, 1) == ["late"]

    async def test_next_expiry_of_nothing(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.next_expiry()) is None

    async def test_quiet_items_work_without_a_lease_and_say_nothing(self, store: Store) -> None:
        quiet, loud, claimed, _ = await given(store, *(item(priority=n) for n in (2, 3, 1, 4)))
        await taken(store, agent="c", tokens=["t"])
        await in_progress(store, quiet, "a")
        await in_progress(store, loud, "b")
        await store.transact(lambda tx: tx.edit(Edit(loud, LATER, {"notes": "still here"})))
        rows = await store.transact(lambda tx: tx.quiet_items(SOON, 10))
        assert [row.id for row in rows] == [quiet]
        assert (await found(store, claimed)).status is Status.IN_PROGRESS
        assert await store.transact(lambda tx: tx.quiet_items(NOW, 10)) == []


class _Seen(Exception):
    """Carries what a body saw out of a transaction that is rolled back."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
