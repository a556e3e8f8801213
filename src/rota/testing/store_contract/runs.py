"""The contract of `rota.storage.run_port`: runs, limits of agents, the outbox."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.agents import Slot
from rota.model.claims import Claim
from rota.model.clock import IdFactory, SystemClock
from rota.model.errors import StorageError
from rota.model.events import EventType, NewEvent
from rota.model.runs import (
    AgentLimits,
    OutboxEntry,
    Run,
    RunEnd,
    RunFilter,
    RunStatus,
    Spent,
    Tally,
    Usage,
)
from rota.model.schedules import TriggerKind
from rota.model.status import OUTCOME_OF, Status
from rota.model.work import NewItem, WorkItem
from rota.storage.port import Move, Store, Transaction
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock

OpenStore = Callable[[], Awaitable[Store]]

_ids = IdFactory(SystemClock())
_clock = ManualClock()
BEFORE, NOW, SOON, LATER = _clock.text(-3600), _clock.text(), _clock.text(60), _clock.text(3600)
DONE = RunEnd(RunStatus.SUCCEEDED, "merged")
HERE = "here:/state"


def run(agent: str = "ada", **facts: Any) -> Run:
    usual: dict[str, Any] = {
        "id": _ids.new(),
        "agent": agent,
        "schedule": None,
        "trigger": TriggerKind.SCHEDULE,
        "trigger_id": None,
        "node": "node-1",
        "work_item_id": None,
        "epoch": None,
        "item_title": None,
        "attempt": None,
        "started_at": NOW,
    }
    return Run(**{**usual, **facts})


async def begun(store: Store, agent: str = "ada", **facts: Any) -> Run:
    made = run(agent, **facts)
    await store.transact(lambda tx: tx.insert_run(made))
    return made


async def ended(
    store: Store, one: Run, end: RunEnd = DONE, now: str = SOON, seconds: float = 60.0
) -> Run | None:
    return await store.transact(lambda tx: tx.end_run(one.id, end, now, seconds))


async def found(store: Store, **wanted: Any) -> list[str]:
    runs = await store.read(lambda tx: tx.list_runs(RunFilter(**wanted), 100))
    return [one.id for one in runs]


async def in_progress(store: Store) -> WorkItem:
    item_id = _ids.new()

    def body(tx: Transaction) -> WorkItem:
        tx.insert_items([(item_id, NewItem("chore", "Say hello"))], None, NOW)
        move = Move(
            item_id, (Status.QUEUED,), Status.IN_PROGRESS, NOW, "test", agent="ada", slot=0,
            new_epoch=True,
        )  # fmt: skip
        started = tx.move(move)
        assert started is not None
        tx.lease(Claim(item_id, started.epoch, f"t-{item_id}", "ada", 0, NOW, 60, SOON))
        return started

    return await store.transact(body)


async def completed(store: Store, item: WorkItem) -> None:
    move = Move(
        item.id, (Status.IN_PROGRESS,), Status.COMPLETED, NOW, "test", force=True,
        outcome=OUTCOME_OF[Status.COMPLETED],
    )  # fmt: skip
    assert await store.transact(lambda tx: tx.move(move)) is not None


class RunsContract:
    async def test_a_run_comes_back_as_it_was_stored(self, store: Store) -> None:
        made = await begun(
            store, schedule="nightly", trigger=TriggerKind.WEBHOOK, trigger_id="t-1",
            work_item_id="w-1", epoch=3, item_title="Größe ✓ 'x", attempt=2,
        )  # fmt: skip
        assert await store.read(lambda tx: tx.get_run(made.id)) == made
        assert await store.read(lambda tx: tx.get_run("none")) is None

    async def test_end_run_keeps_how_it_ended(self, store: Store) -> None:
        made = await begun(store)
        end = RunEnd(
            RunStatus.FAILED, "it does not build", ("https://e.org/1", "b'\"x"), "exit code 2", 2,
            "session-1", Usage(1000, 20, 0.125, 3), hook_errors=("notify: no answer",),
        )  # fmt: skip
        assert await ended(store, made, end, SOON, 59.5) == replace(
            made, ended_at=SOON, status=RunStatus.FAILED, summary="it does not build",
            artifacts=("https://e.org/1", "b'\"x"), error="exit code 2", exit_code=2,
            session_id="session-1", input_tokens=1000, output_tokens=20, cost_usd=0.125, turns=3,
            seconds=59.5, hook_errors=("notify: no answer",),
        )  # fmt: skip

    async def test_end_run_ends_it_once(self, store: Store) -> None:
        made = await begun(store)
        first = await ended(store, made)
        again = RunEnd(RunStatus.FAILED, "no, it failed")
        assert await ended(store, made, again, LATER) is None
        assert await store.read(lambda tx: tx.get_run(made.id)) == first
        assert await ended(store, run()) is None

    async def test_of_many_ends_at_once_one_counts(
        self, store: Store, another_store: OpenStore
    ) -> None:
        made = await begun(store)
        stores = [store, await another_store()]
        ends = [RunEnd(RunStatus.SUCCEEDED, f"number {n}") for n in range(8)]
        answers = await asyncio.gather(
            *(ended(stores[n % 2], made, end) for n, end in enumerate(ends))
        )
        [accepted] = [one for one in answers if one is not None]
        assert await store.read(lambda tx: tx.get_run(made.id)) == accepted

    async def test_a_run_has_its_id_for_itself(self, store: Store) -> None:
        made = await begun(store)
        with pytest.raises(StorageError):
            await store.transact(lambda tx: tx.insert_run(made))

    async def test_list_runs_shows_the_newest_first(self, store: Store) -> None:
        runs = [await begun(store) for _ in range(4)]
        newest = [one.id for one in reversed(runs)]
        assert await found(store) == newest
        assert await found(store, before=newest[1]) == newest[2:]
        page = await store.read(lambda tx: tx.list_runs(RunFilter(before=newest[0]), 2))
        assert [one.id for one in page] == newest[1:3]

    async def test_list_runs_chooses_by_all_that_is_wanted(self, store: Store) -> None:
        nightly = await begun(store, schedule="nightly", work_item_id="w-1")
        other = await begun(store, "bob", schedule="nightly")
        failed = await begun(store)
        await ended(store, failed, RunEnd(RunStatus.FAILED))
        assert await found(store, agent="ada") == [failed.id, nightly.id]
        assert await found(store, schedule="nightly") == [other.id, nightly.id]
        assert await found(store, schedule="nightly", agent="bob") == [other.id]
        assert await found(store, work_item_id="w-1") == [nightly.id]
        assert await found(store, statuses=(RunStatus.FAILED,)) == [failed.id]
        both = (RunStatus.FAILED, RunStatus.RUNNING)
        assert await found(store, statuses=both, agent="ada") == [failed.id, nightly.id]

    async def test_request_cancel_is_for_runs_that_go_on(self, store: Store) -> None:
        mine, other = await begun(store), await begun(store, node="node-2")
        over, _unasked = await begun(store), await begun(store)
        await ended(store, over)
        for one, accepted in ((mine, True), (other, True), (over, False), (run(), False)):
            asked = await store.transact(lambda tx, one=one: tx.request_cancel(one.id))  # type: ignore[misc]
            assert asked is accepted
        assert await store.read(lambda tx: tx.runs_to_cancel("node-1")) == [mine.id]
        shown = await store.read(lambda tx: tx.get_run(mine.id))
        assert shown is not None
        assert shown.cancel_requested
        await ended(store, mine, RunEnd(RunStatus.CANCELLED))
        assert await store.read(lambda tx: tx.runs_to_cancel("node-1")) == []


class DeadRunsContract:
    async def _dead(self, store: Store) -> set[str]:
        """As node-0 sees them, just started here; a run begun before NOW began long ago."""
        runs = await store.read(lambda tx: tx.dead_runs(NOW, HERE, "node-0"))
        return {one.id for one in runs}

    async def _node(self, store: Store, name: str, **facts: Any) -> Run:
        node = Node(
            name, **{"place": "there:/", "pid": 1, "started_at": NOW, "seen_at": NOW, **facts}
        )
        await store.transact(lambda tx: tx.put_node(node))
        return await begun(store, node=name)

    async def test_dead_runs_are_those_of_dead_nodes(self, store: Store) -> None:
        await self._node(store, "alive")
        await self._node(store, "node-0", place=HERE)
        # A node whose clock is behind looks unseen, too: only its presence tells the two apart.
        await self._node(store, "unseen", seen_at=BEFORE)
        gone = await self._node(store, "gone")
        await store.transact(lambda tx: tx.end_node("gone", NOW))
        earlier = await self._node(store, "earlier", place=HERE)
        await ended(store, await begun(store, node="gone"))
        assert await self._dead(store) == {gone.id, earlier.id}

    async def test_a_workers_run_lives_as_long_as_its_claim(self, store: Store) -> None:
        item = await in_progress(store)
        facts: dict[str, Any] = {
            "trigger": TriggerKind.WORKER, "node": "worker:box", "work_item_id": item.id,
            "started_at": BEFORE,
        }  # fmt: skip
        living = await begun(store, epoch=item.epoch, **facts)
        former = await begun(store, epoch=item.epoch - 1, **facts)
        fresh = await begun(store, epoch=item.epoch - 1, **{**facts, "started_at": SOON})
        assert await self._dead(store) == {former.id}
        await completed(store, item)
        assert await self._dead(store) == {former.id, living.id}
        assert fresh.id not in await self._dead(store), "it may just have begun"

    async def test_lost_at_work_are_those_whose_item_is_still_held_by_their_claim(
        self, store: Store
    ) -> None:
        async def lost_at_work() -> list[str]:
            return [one.id for one in await store.read(lambda tx: tx.lost_at_work())]

        item = await in_progress(store)
        facts: dict[str, Any] = {"work_item_id": item.id, "epoch": item.epoch}
        alive, over, lost = [await begun(store, **facts) for _ in range(3)]
        former = await begun(store, work_item_id=item.id, epoch=item.epoch - 1)
        await ended(store, over, RunEnd(RunStatus.FAILED))
        for one in (lost, former):
            await ended(store, one, RunEnd(RunStatus.LOST))
        assert await lost_at_work() == [lost.id]
        await ended(store, alive, RunEnd(RunStatus.LOST))
        await completed(store, item)
        assert await lost_at_work() == []


class SessionsAndSpendingContract:
    async def test_last_session_of_an_item_is_of_its_agents_latest_run_with_one(
        self, store: Store
    ) -> None:
        async def session(agent: str, item: str | None, schedule: str | None = None) -> str | None:
            return await store.read(lambda tx: tx.last_session(agent, schedule, item))

        for name, facts in (
            ("old", {"work_item_id": "w-1"}),
            ("new", {"work_item_id": "w-1"}),
            (None, {"work_item_id": "w-1"}),
            ("elsewhere", {"work_item_id": "w-2"}),
            ("nightly", {"schedule": "nightly"}),
            ("of an item", {"schedule": "nightly", "work_item_id": "w-3"}),
        ):
            await ended(
                store, await begun(store, **facts), RunEnd(RunStatus.SUCCEEDED, session_id=name)
            )
        assert await session("ada", "w-1") == "new"
        assert await session("bob", "w-1") is None
        assert await session("ada", None, "nightly") == "nightly"
        assert await session("bob", None, "nightly") is None
        assert await session("ada", None, "weekly") is None

    async def test_spent_counts_what_began_since_then(self, store: Store) -> None:
        usage = Usage(100, 20, 0.25)
        for agent, start, end in (
            ("ada", NOW, RunEnd(RunStatus.SUCCEEDED, usage=usage)),
            ("ada", SOON, RunEnd(RunStatus.FAILED, usage=Usage(1, 1))),
            ("ada", BEFORE, RunEnd(RunStatus.SUCCEEDED, usage=usage)),
            ("bob", NOW, RunEnd(RunStatus.SUCCEEDED, usage=usage)),
        ):
            await ended(store, await begun(store, agent, started_at=start), end, LATER, 30.0)
        await begun(store)
        assert await store.read(lambda tx: tx.spent(NOW, "ada")) == Spent(3, 60.0, 122, 0.25)
        assert await store.read(lambda tx: tx.spent(NOW)) == Spent(4, 90.0, 242, 0.5)
        assert await store.read(lambda tx: tx.spent(LATER)) == Spent()

    async def test_tallies_are_by_agent_and_status(self, store: Store) -> None:
        for agent, start, end in (
            ("ada", NOW, RunEnd(RunStatus.SUCCEEDED, usage=Usage(100, 20, 0.25))),
            ("ada", SOON, RunEnd(RunStatus.SUCCEEDED, usage=Usage(1, 1))),
            ("ada", SOON, RunEnd(RunStatus.FAILED, usage=Usage(1, 1))),
            ("ada", BEFORE, RunEnd(RunStatus.FAILED, usage=Usage(9, 9, 9.0))),
            ("bob", NOW, RunEnd(RunStatus.SUCCEEDED, usage=Usage(1, 2, 0.5))),
        ):
            await ended(store, await begun(store, agent, started_at=start), end, LATER, 30.0)
        await begun(store)
        assert await store.read(lambda tx: tx.tallies(NOW)) == [
            Tally("ada", RunStatus.FAILED, 1, 30.0, 2, None),
            Tally("ada", RunStatus.RUNNING, 1, 0.0, 0, None),
            Tally("ada", RunStatus.SUCCEEDED, 2, 60.0, 122, 0.25),
            Tally("bob", RunStatus.SUCCEEDED, 1, 30.0, 3, 0.5),
        ]
        assert await store.read(lambda tx: tx.tallies(LATER)) == []

    async def test_open_runs_are_those_that_have_not_ended(self, store: Store) -> None:
        first, over, last = await begun(store), await begun(store), await begun(store, "bob")
        await ended(store, over)
        assert await store.read(lambda tx: tx.open_runs(9)) == [last, first]
        assert await store.read(lambda tx: tx.open_runs(1)) == [last]

    async def test_last_runs_are_the_latest_of_each_agent(self, store: Store) -> None:
        new = await begun(store, started_at=SOON)
        await begun(store, started_at=NOW)
        await begun(store, "eve")
        bobs = await begun(store, "bob", started_at=BEFORE)
        found = await store.read(lambda tx: tx.last_runs(["ada", "bob", "nobody"]))
        assert {one.agent: one for one in found} == {"ada": new, "bob": bobs}

    async def test_last_scheduled_runs_are_the_latest_of_each_schedule(self, store: Store) -> None:
        await begun(store, schedule="poll", started_at=BEFORE)
        poll = await begun(store, schedule="poll", started_at=NOW)
        await begun(store, schedule="nightly", started_at=BEFORE)
        await begun(store, schedule=None, started_at=SOON)
        await begun(store, "bob", schedule="nightly", started_at=SOON)
        wanted = [("ada", "poll", BEFORE), ("ada", "nightly", NOW), ("bob", "poll", BEFORE)]
        assert await store.read(lambda tx: tx.last_scheduled_runs(wanted)) == [poll]

    async def test_slots_in_use_say_what_they_are_used_for(self, store: Store) -> None:
        other = await in_progress(store)
        await completed(store, other)
        item = await in_progress(store)
        now = await store.read(lambda tx: tx.slots_in_use(["ada", "bob"]))
        assert now == [Slot("ada", 0, item.id, "Say hello", NOW)]
        events = [
            NewEvent(EventType.STARTED, BEFORE, work_item_id=item.id),
            NewEvent(EventType.RESUMED, SOON, work_item_id=item.id),
            NewEvent(EventType.NOTED, LATER, work_item_id=item.id),
            NewEvent(EventType.STARTED, LATER, work_item_id=other.id),
        ]
        await store.transact(lambda tx: tx.append(events))
        [slot] = await store.read(lambda tx: tx.slots_in_use(["ada"]))
        assert slot.since == SOON
        assert await store.read(lambda tx: tx.slots_in_use(["bob"])) == []
        await completed(store, item)
        assert await store.read(lambda tx: tx.slots_in_use(["ada"])) == []

    async def test_limits_are_as_they_were_put_last(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_limits("ada")) is None
        first = AgentLimits("ada", 3, SOON, LATER, "exit code 2")
        for limits in (first, AgentLimits("bob", 1), AgentLimits("ada")):
            await store.transact(lambda tx, limits=limits: tx.put_limits(limits, NOW))  # type: ignore[misc]
            assert await store.read(lambda tx, limits=limits: tx.get_limits(limits.agent)) == limits  # type: ignore[misc]
        listed = await store.read(lambda tx: tx.list_limits())
        assert listed == [AgentLimits("ada"), AgentLimits("bob", 1)]

    async def test_of_many_who_lock_limits_and_put_them_each_builds_on_the_one_before(
        self, store: Store, another_store: OpenStore
    ) -> None:
        stores = [store, await another_store()]

        def count(tx: Transaction) -> None:
            before = tx.lock_limits("ada") or AgentLimits("ada")
            tx.put_limits(replace(before, failures=before.failures + 1), NOW)

        await asyncio.gather(*(stores[n % 2].transact(count) for n in range(40)))
        assert await store.read(lambda tx: tx.get_limits("ada")) == AgentLimits("ada", 40)


def letter(entry_id: str, **facts: Any) -> OutboxEntry:
    usual: dict[str, Any] = {
        "kind": "report", "agent": "ada", "subject": f"w-{entry_id}",
        "payload": {"text": "Größe ✓", "list": [1, None]}, "created_at": NOW,
    }  # fmt: skip
    return OutboxEntry(entry_id, **{**usual, **facts})


async def posted(store: Store, *entries: OutboxEntry) -> None:
    def body(tx: Transaction) -> None:
        for entry in entries:
            tx.post(entry)

    await store.transact(body)


async def taken(store: Store, now: str = NOW, until: str = SOON, limit: int = 10) -> list[str]:
    entries = await store.transact(lambda tx: tx.take_post(now, until, limit))
    return [one.id for one in entries]


async def waiting(store: Store, *, buried: bool = False, kind: str = "") -> list[OutboxEntry]:
    return await store.read(lambda tx: tx.list_post(buried=buried, limit=10, kind=kind))


class OutboxContract:
    async def test_a_letter_comes_back_as_it_was_posted(self, store: Store) -> None:
        await posted(store, letter("1"))
        [found] = await waiting(store)
        assert found == letter("1", next_attempt_at=NOW)

    async def test_post_does_nothing_when_the_id_is_there(self, store: Store) -> None:
        await posted(store, letter("1"))
        await store.transact(lambda tx: tx.delivered("1", NOW))
        await posted(store, letter("1", subject="another"))
        assert await waiting(store) == []
        assert await taken(store, LATER, LATER) == []

    async def test_take_post_takes_what_is_due_for_a_while(self, store: Store) -> None:
        await posted(store, letter("1"), letter("2", next_attempt_at=LATER), letter("3"))
        first = await store.transact(lambda tx: tx.take_post(NOW, SOON, 10))
        assert [(one.id, one.attempts, one.next_attempt_at) for one in first] == [
            ("1", 1, SOON), ("3", 1, SOON),
        ]  # fmt: skip
        assert await taken(store) == []
        assert await taken(store, SOON, LATER) == ["1", "3"], "whoever had them has died"
        assert len(await taken(store, LATER, LATER, 1)) == 1

    async def test_of_many_takers_each_letter_goes_to_one(
        self, store: Store, another_store: OpenStore
    ) -> None:
        await posted(store, *(letter(f"{n:02}") for n in range(20)))
        stores = [store, await another_store()]
        answers = await asyncio.gather(
            *(taken(stores[n % 2], limit=5) for n in range(8)), taken(stores[0], limit=20)
        )
        got = [one for answer in answers for one in answer]
        assert len(got) == len(set(got))
        rest = await taken(store, limit=20)
        assert sorted(got + rest) == [f"{n:02}" for n in range(20)]

    async def test_take_letter_takes_the_one_unless_somebody_has_it(self, store: Store) -> None:
        async def take(entry_id: str) -> OutboxEntry | None:
            return await store.transact(lambda tx: tx.take_letter(entry_id, NOW, SOON))

        await posted(store, letter("1"), letter("2"))
        first = await take("1")
        assert first == letter("1", attempts=1, next_attempt_at=SOON)
        assert await take("1") is None
        assert await take("none") is None
        assert await taken(store) == ["2"]
        await posted(store, letter("3"), letter("4"))
        await store.transact(lambda tx: tx.delivered("3", NOW))
        await store.transact(lambda tx: tx.bury("4", NOW, "no"))
        assert (await take("3"), await take("4")) == (None, None), "there is nothing to deliver"

    async def test_next_post_is_the_earliest_that_waits(self, store: Store) -> None:
        async def following() -> str | None:
            return await store.read(lambda tx: tx.next_post())

        assert await following() is None
        await posted(store, letter("1", next_attempt_at=LATER), letter("2", next_attempt_at=SOON))
        assert await following() == SOON
        await store.transact(lambda tx: tx.delivered("2", NOW))
        assert await following() == LATER
        await store.transact(lambda tx: tx.bury("1", NOW, "no"))
        assert await following() is None

    async def test_postpone_keeps_the_error_and_waits(self, store: Store) -> None:
        await posted(store, letter("1"))
        await taken(store)
        await store.transact(lambda tx: tx.postpone("1", LATER, "no answer"))
        [found] = await waiting(store)
        assert (found.next_attempt_at, found.error, found.attempts) == (LATER, "no answer", 1)
        assert await taken(store, SOON) == []

    async def test_what_is_left_is_due_for_others_and_was_no_attempt(self, store: Store) -> None:
        await posted(store, letter("1"), letter("2", next_attempt_at=LATER))
        await taken(store)
        await store.transact(lambda tx: tx.leave_letter("1", NOW, "no token"))
        [found, _] = await waiting(store)
        assert (found.next_attempt_at, found.error, found.attempts) == (NOW, "no token", 0)
        assert await store.read(lambda tx: tx.next_post(left_alone=["1"])) == LATER
        none = await store.transact(lambda tx: tx.take_post(SOON, LATER, 10, left_alone=["1"]))
        assert none == []
        [late] = await store.transact(
            lambda tx: tx.take_post(SOON, LATER, 10, left_over=NOW, left_alone=["1"])
        )
        assert (late.id, late.attempts) == ("1", 1)

    async def test_delivered_is_final(self, store: Store) -> None:
        await posted(store, letter("1"))
        await store.transact(lambda tx: tx.delivered("1", NOW))
        await store.transact(lambda tx: tx.postpone("1", NOW, "late word"))
        await store.transact(lambda tx: tx.bury("1", NOW, "late word"))
        assert not await store.transact(lambda tx: tx.revive("1", NOW))
        assert await waiting(store) == []
        assert await waiting(store, buried=True) == []
        assert await taken(store, LATER) == []

    async def test_a_buried_letter_is_seen_and_can_be_revived(self, store: Store) -> None:
        await posted(store, letter("1"), letter("2"))
        await taken(store)
        await store.transact(lambda tx: tx.bury("1", NOW, "given up"))
        await store.transact(lambda tx: tx.postpone("1", LATER, "late word"))
        [buried] = await waiting(store, buried=True)
        assert (buried.id, buried.failed_at, buried.error) == ("1", NOW, "given up")
        assert [one.id for one in await waiting(store)] == ["2"]
        await store.transact(lambda tx: tx.delivered("1", NOW))
        assert await taken(store, SOON, LATER) == ["2"], (
            "who was given up is not delivered by a late word"
        )
        assert await store.transact(lambda tx: tx.revive("1", SOON))
        assert not await store.transact(lambda tx: tx.revive("1", SOON))
        assert not await store.transact(lambda tx: tx.revive("2", SOON))
        [revived] = await store.transact(lambda tx: tx.take_post(SOON, LATER, 10))
        assert (revived.id, revived.attempts, revived.failed_at) == ("1", 1, None)

    @pytest.mark.parametrize("buried", [False, True])
    async def test_letters_are_listed_by_their_kind(self, store: Store, buried: bool) -> None:
        await posted(store, letter("1"), replace(letter("2"), kind="notify"))
        if buried:
            await store.transact(lambda tx: tx.bury("1", NOW, "no"))
            await store.transact(lambda tx: tx.bury("2", NOW, "no"))
        for kind, ids in {"": ["1", "2"], "notify": ["2"], "x": []}.items():
            assert [one.id for one in await waiting(store, buried=buried, kind=kind)] == ids

    async def test_pending_subjects_are_those_with_a_letter_that_waits(self, store: Store) -> None:
        await posted(store, *(letter(str(n)) for n in range(1, 4)), letter("4", subject="w-1"))
        await store.transact(lambda tx: tx.delivered("2", NOW))
        await store.transact(lambda tx: tx.bury("3", NOW, "no"))
        wanted = ["w-1", "w-2", "w-3", "w-9"]
        assert await store.read(lambda tx: tx.pending_subjects(wanted)) == {"w-1"}
        assert await store.read(lambda tx: tx.pending_subjects([])) == set()

    async def test_forget_post_forgets_what_was_delivered_before(self, store: Store) -> None:
        await posted(store, *(letter(str(n)) for n in range(1, 5)))
        await store.transact(lambda tx: tx.delivered("1", BEFORE))
        await store.transact(lambda tx: tx.delivered("2", SOON))
        await store.transact(lambda tx: tx.bury("3", BEFORE, "no"))
        assert await store.transact(lambda tx: tx.forget_post(NOW)) == 1
        assert [one.id for one in await waiting(store, buried=True)] == ["3"]
        assert [one.id for one in await waiting(store)] == ["4"]
        await posted(store, letter("2"))
        assert [one.id for one in await waiting(store)] == ["4"], "this one is remembered"


class RunVerbsContract(RunsContract, DeadRunsContract, SessionsAndSpendingContract, OutboxContract):
    pass
