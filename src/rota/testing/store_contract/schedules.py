"""The contract of `rota.storage.schedule_port`, as tests over any store."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.clock import IdFactory, SystemClock
from rota.model.schedules import (
    ScheduleState,
    ScheduleStatus,
    ScheduleType,
    SkipReason,
    Trigger,
    TriggerKind,
)
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import (
    HEAD,
    RESTS,
    Advance,
    DueSchedule,
    Listed,
    Node,
    Standing,
    TriggerEnd,
    TriggerRecord,
    Wakings,
)
from rota.testing.clock import ManualClock

OpenStore = Callable[[], Awaitable[Store]]

_ids = IdFactory(SystemClock())
_clock = ManualClock()
BEFORE, NOW, SOON, LATER = (_clock.text(seconds) for seconds in (-60, 0, 60, 3600))
DEFINITION = "interval 1"
ME = Node("n1", "here", 7, NOW, NOW)
OTHER = Node("n2", "there", 8, NOW, NOW)


def standing(name: str = "poll", agent: str = "ada", **values: Any) -> Standing:
    return Standing(
        **{
            "agent": agent,
            "name": name,
            "type": ScheduleType.INTERVAL,
            "definition": DEFINITION,
            "configured": True,
            "enabled": True,
            "next_at": NOW,
            "slot": NOW,
            **values,
        }
    )


def trigger(name: str = "poll", agent: str = "ada", **values: Any) -> Trigger:
    made = _ids.new()
    return Trigger(
        **{
            "id": made,
            "agent": agent,
            "schedule": name,
            "slot": made,
            "kind": TriggerKind.SCHEDULE,
            "node": "n1",
            "triggered_at": NOW,
            **values,
        }
    )


async def stored(store: Store, *rows: Standing) -> None:
    await store.transact(lambda tx: tx.put_schedules(rows))


async def inserted(store: Store, *triggers: Trigger) -> set[str]:
    return await store.transact(lambda tx: tx.insert_triggers(triggers))


async def state(store: Store, name: str = "poll", alive_since: str = "") -> ScheduleState:
    found = await store.read(lambda tx: tx.schedule_state("ada", name, alive_since))
    assert found is not None
    return found


async def record(store: Store, one: Trigger) -> TriggerRecord:
    found = await store.read(lambda tx: tx.get_trigger(one.id))
    assert found is not None
    return found


class NodesContract:
    async def test_put_node_and_see_node(self, store: Store) -> None:
        await store.transact(lambda tx: tx.put_node(ME))
        assert await store.transact(lambda tx: tx.see_node("n1", SOON))
        assert not await store.transact(lambda tx: tx.see_node("n9", SOON))
        living = await store.read(lambda tx: tx.living_nodes())
        assert living == [replace(ME, seen_at=SOON)]

    async def test_some_nodes_are_told_whether_they_live_or_not(self, store: Store) -> None:
        await store.transact(lambda tx: tx.put_node(ME))
        await store.transact(lambda tx: tx.put_node(OTHER))
        await store.transact(lambda tx: tx.end_node("n1", SOON))
        found = await store.read(lambda tx: tx.some_nodes(["n1", "n9", "n1"]))
        assert found == [replace(ME, ended_at=SOON)]

    async def test_nodes_since_are_those_that_were_seen_also_if_they_ended(
        self, store: Store
    ) -> None:
        for node in (replace(ME, seen_at=SOON), OTHER):
            await store.transact(lambda tx, node=node: tx.put_node(node))  # type: ignore[misc]
        await store.transact(lambda tx: tx.end_node("n1", LATER))
        found = await store.read(lambda tx: tx.nodes_since(SOON))
        assert found == [replace(ME, seen_at=SOON, ended_at=LATER)]

    async def test_end_node_ends_once_and_loses_what_was_open(self, store: Store) -> None:
        mine, other = trigger(), trigger(node="n2")
        await store.transact(lambda tx: tx.put_node(ME))
        await store.transact(lambda tx: tx.put_node(OTHER))
        await inserted(store, mine, other)
        assert await store.transact(lambda tx: tx.end_node("n1", SOON))
        assert not await store.transact(lambda tx: tx.end_node("n1", LATER))
        assert not await store.transact(lambda tx: tx.see_node("n1", LATER))
        lost = await record(store, mine)
        assert (lost.outcome, lost.ended_at) == ("lost", SOON)
        assert (await record(store, other)).ended_at is None

    async def test_put_node_brings_back_who_was_taken_for_dead(self, store: Store) -> None:
        await store.transact(lambda tx: tx.put_node(ME))
        await store.transact(lambda tx: tx.end_node("n1", SOON))
        await store.transact(lambda tx: tx.put_node(replace(ME, seen_at=LATER)))
        assert await store.read(lambda tx: tx.living_nodes()) == [replace(ME, seen_at=LATER)]

    async def test_last_sight_is_of_any_node_until_it_is_pruned(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.last_sight()) is None
        await store.transact(lambda tx: tx.put_node(replace(ME, seen_at=LATER)))
        await store.transact(lambda tx: tx.put_node(OTHER))
        await store.transact(lambda tx: tx.end_node("n1", NOW))
        assert await store.read(lambda tx: tx.last_sight()) == LATER
        await store.transact(lambda tx: tx.prune_triggers(SOON, SOON))
        assert await store.read(lambda tx: tx.last_sight()) == NOW

    async def test_end_dead_nodes_that_were_silent(self, store: Store) -> None:
        quiet = trigger(node="n2")
        for node in (ME, OTHER):
            await store.transact(lambda tx, node=node: tx.put_node(node))  # type: ignore[misc]
        await inserted(store, quiet, trigger("mine"), trigger("waits", node=""))
        earlier = replace(OTHER, seen_at=BEFORE)
        ended = await store.transact(lambda tx: tx.end_dead_nodes(ME, [earlier], SOON))
        assert ended == [], "who was seen again meanwhile lives"
        ended = await store.transact(lambda tx: tx.end_dead_nodes(ME, [OTHER, ME], SOON))
        assert ended == [quiet]
        assert [one.id for one in await store.read(lambda tx: tx.living_nodes())] == ["n1"]

    async def test_end_dead_nodes_of_the_same_place(self, store: Store) -> None:
        left = trigger(node="n0")
        await store.transact(lambda tx: tx.put_node(replace(ME, id="n0")))
        await store.transact(lambda tx: tx.put_node(OTHER))
        await store.transact(lambda tx: tx.put_node(ME))
        await inserted(store, left, trigger("there", node="n2"))
        assert await store.transact(lambda tx: tx.end_dead_nodes(ME, [], SOON)) == [left]
        lost = await record(store, left)
        assert (lost.outcome, lost.error) == ("lost", "the process that ran it died")
        assert await store.transact(lambda tx: tx.end_dead_nodes(ME, [], LATER)) == []
        (gone,) = await store.read(lambda tx: tx.some_nodes(["n0"]))
        assert gone.ended_at == SOON, "it ended once"

    async def test_rosters_are_those_of_the_other_living_nodes(self, store: Store) -> None:
        third = replace(OTHER, id="n3", place="far")

        async def others() -> list[Listed | None]:
            return await store.read(lambda tx: tx.other_rosters("n1"))

        for node in (ME, OTHER, third):
            await store.transact(lambda tx, node=node: tx.put_node(node))  # type: ignore[misc]
        assert await others() == [None, None]
        await store.transact(lambda tx: tx.put_roster("n1", {"ada": ["poll"]}))
        await store.transact(lambda tx: tx.put_roster("n2", {"ada": ["poll"], "bob": []}))
        await store.transact(lambda tx: tx.put_roster("n2", {"bob": ["é", "x"]}))
        await store.transact(lambda tx: tx.end_node("n3", SOON))
        assert await others() == [{"bob": ["é", "x"]}]
        await store.transact(lambda tx: tx.end_node("n2", SOON))
        assert await others() == []
        await store.transact(lambda tx: tx.prune_triggers(BEFORE, SOON))
        await store.transact(lambda tx: tx.put_node(OTHER))
        assert await others() == [None], "what an ended node had is forgotten"

    async def test_rosters_that_count_are_those_of_nodes_seen_lately(self, store: Store) -> None:
        async def living(since: str) -> list[Listed | None]:
            return await store.read(lambda tx: tx.living_rosters(since))

        assert await living(BEFORE) == []
        for node in (ME, OTHER):
            await store.transact(lambda tx, node=node: tx.put_node(node))  # type: ignore[misc]
        await store.transact(lambda tx: tx.put_roster("n1", {"ada": ["poll"]}))
        await store.transact(lambda tx: tx.see_node("n1", SOON))
        assert sorted(await living(BEFORE), key=str) == [None, {"ada": ["poll"]}]
        assert await living(SOON) == [{"ada": ["poll"]}]
        assert await living(LATER) == []
        await store.transact(lambda tx: tx.end_node("n1", SOON))
        assert await living(SOON) == []

    async def test_a_trigger_of_a_node_that_nobody_knows_is_lost_too(self, store: Store) -> None:
        left = trigger(node="never-entered")
        await store.transact(lambda tx: tx.put_node(ME))
        await inserted(store, left)
        assert await store.transact(lambda tx: tx.end_dead_nodes(ME, [], SOON)) == [left]


class SchedulesTableContract:
    async def test_put_schedules_stores_and_replaces(self, store: Store) -> None:
        first, second = (
            standing("a"),
            standing("b", type=ScheduleType.CHAT, next_at=None, slot=None),
        )
        await stored(store, first, second)

        async def standings(*agents: str) -> list[Standing]:
            found = await store.read(lambda tx: tx.standings(agents))
            return sorted(found, key=lambda row: row.name)

        assert await standings("ada", "bob") == [first, second]
        changed = replace(first, definition="interval 2", enabled=False, next_at=None, slot=None)
        await stored(store, changed)
        assert await standings("ada") == [changed, second]
        assert await standings("bob") == []
        assert await standings() == []

    async def test_put_schedules_keeps_what_was_run_and_skipped(self, store: Store) -> None:
        await stored(store, standing())
        step = Advance("ada", "poll", NOW, SOON, SOON, ran=True, skip=SkipReason.MISSED)
        await store.transact(lambda tx: tx.advance_schedules([step], NOW))
        await stored(store, standing(slot=LATER, next_at=LATER))
        kept = await state(store)
        assert (kept.trigger_count, kept.skip_count, kept.last_run_at) == (1, 1, NOW)
        assert (kept.slot, kept.next_run_at) == (LATER, LATER)

    async def test_drop_schedules_ends_what_was_asked_of_them(self, store: Store) -> None:
        await stored(store, standing("a"), standing("b"), standing("a", "bob"))
        gone, kept = trigger("a", node=""), trigger("b", node="")
        begun, expired = trigger("a"), trigger("a", node="", triggered_at=BEFORE)
        await inserted(store, gone, kept, begun, expired)
        await store.transact(lambda tx: tx.prune_triggers(NOW, BEFORE))
        assert await store.transact(lambda tx: tx.drop_schedules([("ada", "a")], SOON)) == 1
        assert await store.transact(lambda tx: tx.drop_schedules([("ada", "a")], SOON)) == 0
        assert (await record(store, gone)).outcome == "dropped"
        assert (await record(store, kept)).outcome is None
        assert (await record(store, begun)).outcome is None
        assert (await record(store, expired)).outcome == "expired"

    async def test_schedule_states_by_agent_and_name(self, store: Store) -> None:
        rows = [standing(name, agent) for agent in ("bob", "ada") for name in ("b", "a", "c")]
        await stored(store, *rows)

        async def listed(agent: str | None, after: tuple[str, str] | None, limit: int) -> list[str]:
            found = await store.read(lambda tx: tx.schedule_states(agent, after, limit, ""))
            return [f"{one.agent}/{one.name}" for one in found]

        assert await listed(None, None, 4) == ["ada/a", "ada/b", "ada/c", "bob/a"]
        assert await listed(None, ("ada", "c"), 9) == ["bob/a", "bob/b", "bob/c"]
        assert await listed("bob", None, 2) == ["bob/a", "bob/b"]
        assert await listed("bob", ("bob", "b"), 2) == ["bob/c"]
        assert await listed("eve", None, 2) == []

    async def test_rest_schedules_keeps_the_slots_of_agents_that_nobody_knows(
        self, store: Store
    ) -> None:
        hook = standing("hook", "bob", type=ScheduleType.WEBHOOK, next_at=None, slot=None)
        await stored(store, standing(), standing(agent="bob"), hook)
        assert await store.transact(lambda tx: tx.rest_schedules(["ada"])) == 1
        assert await store.transact(lambda tx: tx.rest_schedules(["ada"])) == 0
        rows = await store.read(lambda tx: tx.standings(["ada", "bob"]))
        found = {(row.agent, row.name): (row.slot, row.next_at) for row in rows}
        assert found == {
            ("ada", "poll"): (NOW, NOW),
            ("bob", "poll"): (NOW, RESTS),
            ("bob", "hook"): (None, None),
        }
        shown = await store.read(lambda tx: tx.schedule_states("bob", None, 9, ""))
        assert [(one.slot, one.next_run_at) for one in shown] == [(None, None)] * 2
        due = await store.transact(lambda tx: tx.due_schedules(LATER, HEAD, 9))
        assert [row.agent for row in due] == ["ada"]

    async def test_a_state_counts_what_runs_on_living_nodes(self, store: Store) -> None:
        await stored(store, standing())
        await store.transact(lambda tx: tx.put_node(ME))
        await store.transact(lambda tx: tx.put_node(OTHER))
        await store.transact(lambda tx: tx.end_node("n2", NOW))
        await inserted(store, trigger(), trigger(node=""), trigger(node="gone"), trigger(node="n2"))
        assert (await state(store)).running == 1
        assert (await state(store)).status is ScheduleStatus.RUNNING
        assert (await state(store, alive_since=SOON)).running == 0, "not seen since then"

    async def test_disable_schedule_and_enable_schedule(self, store: Store) -> None:
        await stored(store, standing(), standing(agent="bob"))
        assert await store.transact(lambda tx: tx.disable_schedule("ada", "poll"))
        off = await state(store)
        assert (off.status, off.next_run_at, off.slot) == (ScheduleStatus.DISABLED, None, None)
        assert await store.transact(lambda tx: tx.enable_schedule("ada", "poll", SOON, LATER))
        on = await state(store)
        assert (on.enabled, on.slot, on.next_run_at) == (True, SOON, LATER)
        for verb in (
            lambda tx: tx.disable_schedule("ada", "none"),
            lambda tx: tx.enable_schedule("ada", "none", None, None),
        ):
            assert not await store.transact(verb)
        (row,) = await store.read(lambda tx: tx.standings(["ada"]))
        assert row.configured, "what the file says is not the operator's to change"
        assert await store.read(lambda tx: tx.standings(["bob"])) == [standing(agent="bob")]

    async def test_restore_schedule_before_anything_ran_here(self, store: Store) -> None:
        taken = ScheduleState(
            "ada", "poll", ScheduleType.INTERVAL, "imported", False, None, None, BEFORE, BEFORE,
            "no disk", None, None, 0, 0, 0,
        )  # fmt: skip
        for _ in range(2):
            assert await store.transact(lambda tx: tx.restore_schedule(taken))
            assert await state(store) == taken
        await stored(store, standing())
        step = Advance("ada", "poll", NOW, SOON, SOON, ran=True)
        await store.transact(lambda tx: tx.advance_schedules([step], NOW))
        assert not await store.transact(lambda tx: tx.restore_schedule(taken))
        assert (await state(store)).last_run_at == NOW

    async def test_change_schedule_changes_only_what_is_allowed(self, store: Store) -> None:
        await stored(store, standing())
        changes = {"last_error": "x", "next_at": LATER, "slot": SOON}
        assert await store.transact(lambda tx: tx.change_schedule("ada", "poll", changes))
        changed = await state(store)
        assert (changed.last_error, changed.next_run_at, changed.slot) == ("x", LATER, SOON)
        assert not await store.transact(lambda tx: tx.change_schedule("ada", "none", changes))
        with pytest.raises(ValueError, match="trigger_count"):
            await store.transact(lambda tx: tx.change_schedule("ada", "poll", {"trigger_count": 9}))


class ClockContract:
    async def test_due_schedules_are_those_whose_time_has_come_the_longest_due_first(
        self, store: Store
    ) -> None:
        await stored(
            store,
            standing("now"),
            standing("before", next_at=BEFORE),
            standing("soon", next_at=SOON),
            standing("off", enabled=False, next_at=None, slot=None),
        )
        due = await store.transact(lambda tx: tx.due_schedules(NOW, HEAD, 9))
        assert due == [
            DueSchedule("ada", "before", "interval 1", NOW, BEFORE),
            DueSchedule("ada", "now", "interval 1", NOW, NOW),
        ]
        assert await store.read(lambda tx: tx.is_due(NOW, HEAD))
        assert not await store.read(lambda tx: tx.is_due("2000", HEAD))
        assert await store.read(lambda tx: tx.next_wake(NOW)) == SOON
        assert await store.read(lambda tx: tx.next_wake(SOON)) is None

    async def test_due_schedules_behind_a_place_in_the_line(self, store: Store) -> None:
        rows = [standing(f"s{n}", agent) for n in range(3) for agent in ("a", "b")]
        await stored(store, *rows)
        place, seen = HEAD, []
        while page := await store.transact(
            lambda tx, place=place: tx.due_schedules(NOW, place, 2)  # type: ignore[misc]
        ):
            seen += [(one.agent, one.name) for one in page]
            place = (page[-1].next_at, page[-1].agent, page[-1].name)
        assert seen == [(agent, f"s{n}") for agent in ("a", "b") for n in range(3)]
        assert not await store.read(lambda tx: tx.is_due(NOW, place))

    async def test_ahead_of_a_time_stand_the_schedules_of_some_agents(self, store: Store) -> None:
        await stored(
            store, standing(), standing("soon", next_at=SOON), standing("x", "bob", next_at=SOON)
        )
        ahead = await store.transact(lambda tx: tx.ahead_of(NOW, ["ada"]))
        assert ahead == [DueSchedule("ada", "soon", "interval 1", NOW, SOON)]

    async def test_insert_triggers_keeps_one_of_a_slot(self, store: Store) -> None:
        first, twin, other = trigger(slot=NOW), trigger(slot=NOW), trigger("b", slot=NOW)
        assert await inserted(store, first) == {first.id}
        assert await inserted(store, twin, other) == {other.id}
        assert await store.read(lambda tx: tx.get_trigger(twin.id)) is None
        assert await inserted(store) == set()

    async def test_a_trigger_comes_back_as_it_was_stored(self, store: Store) -> None:
        said = trigger(kind=TriggerKind.CHAT, message="Grüße\n\U0001f600 \\ \" '")
        await inserted(store, said)
        assert await record(store, said) == TriggerRecord(said, None, None, None)

    async def test_advance_schedules_moves_on_and_counts(self, store: Store) -> None:
        await stored(store, standing("a"), standing("b"))
        steps = [
            Advance("ada", "a", NOW, SOON, LATER, ran=True),
            Advance("ada", "b", NOW, SOON, SOON, skip=SkipReason.AT_CAPACITY),
        ]
        assert await store.transact(lambda tx: tx.advance_schedules(steps, NOW)) == 2
        ran, skipped = await state(store, "a"), await state(store, "b")
        assert (ran.slot, ran.next_run_at, ran.last_run_at, ran.trigger_count) == (
            SOON, LATER, NOW, 1,
        )  # fmt: skip
        assert (ran.skip_count, ran.last_skip_reason, ran.last_skip_at) == (0, None, None)
        assert (skipped.slot, skipped.trigger_count, skipped.last_run_at) == (SOON, 0, None)
        assert (skipped.skip_count, skipped.last_skip_reason, skipped.last_skip_at) == (
            1, SkipReason.AT_CAPACITY, NOW,
        )  # fmt: skip

    async def test_advance_schedules_only_from_the_slot_that_is_expected(
        self, store: Store
    ) -> None:
        await stored(store, standing("a"), standing("off", enabled=False, next_at=None, slot=None))
        stale = Advance("ada", "a", BEFORE, SOON, SOON, ran=True)
        off = Advance("ada", "off", NOW, SOON, SOON, ran=True)
        assert await store.transact(lambda tx: tx.advance_schedules([stale, off], NOW)) == 0
        assert (await state(store, "a")).slot == NOW
        assert (await state(store, "off")).next_run_at is None

    async def test_open_triggers_are_counted_by_schedule(self, store: Store) -> None:
        ended = trigger("a")
        await inserted(
            store, trigger("a"), trigger("a"), trigger("b"), trigger("a", node=""), ended,
            trigger("a", "bob"), trigger("a", "eve"),
        )  # fmt: skip
        end = TriggerEnd(ended.id, "ada", "a", "succeeded")
        await store.transact(lambda tx: tx.end_triggers([end], SOON))

        def counted(tx: Transaction) -> dict[tuple[str, str], int]:
            tx.lock_agents({"ada", "bob"})
            return tx.open_triggers({"ada", "bob"})

        assert await store.transact(counted) == {
            ("ada", "a"): 2, ("ada", "b"): 1, ("bob", "a"): 1,
        }  # fmt: skip

    async def test_of_two_that_count_and_open_at_once_one_sees_the_other(
        self, store: Store, another_store: OpenStore
    ) -> None:
        async def take_if_free(where: Store) -> bool:
            def body(tx: Transaction) -> bool:
                tx.lock_agents({"ada"})
                return not tx.open_triggers({"ada"}) and bool(tx.insert_triggers([trigger()]))

            return await where.transact(body)

        stores = [store, *[await another_store() for _ in range(3)]]
        for _ in range(5):
            took = await asyncio.gather(*(take_if_free(one) for one in stores))
            assert took.count(True) == 1
            (open_,) = await store.transact(lambda tx: [*tx.open_triggers({"ada"}).items()])
            assert open_ == (("ada", "poll"), 1)
            await store.transact(lambda tx: tx.end_dead_nodes(ME, [], SOON))


class AskedContract:
    async def test_waiting_triggers_are_those_that_nobody_took_up(self, store: Store) -> None:
        await stored(store, *(standing(name) for name in ("poll", "b", "c")))
        await stored(store, standing(agent="bob"))
        taken_up, expired = trigger(), trigger(node="", triggered_at=BEFORE)
        await inserted(store, taken_up, expired)
        await store.transact(lambda tx: tx.prune_triggers(NOW, NOW))
        assert not await store.read(lambda tx: tx.is_waiting())
        waiting = [trigger(node="", message=str(n)) for n in range(3)]
        others = [trigger(name, node="") for name in ("b", "c")]
        await inserted(store, *waiting, *others, trigger(agent="bob", node=""))

        async def found(limit: int, after: str = "") -> list[Trigger]:
            return await store.transact(lambda tx: tx.waiting_triggers(["ada"], limit, after))

        assert await found(2) == [waiting[0], others[0]]
        assert await found(2, others[0].id) == [others[1]]
        assert await store.transact(lambda tx: tx.waiting_triggers(["eve"], 2)) == []
        assert await store.read(lambda tx: tx.is_waiting())
        assert await store.read(lambda tx: tx.count_waiting("ada", "poll")) == 3
        assert await store.read(lambda tx: tx.count_waiting("ada", "other")) == 0

    async def test_take_up_gives_a_trigger_to_one_node(self, store: Store) -> None:
        await stored(store, standing(), standing(agent="bob"))
        asked = trigger(node="")
        await inserted(store, asked)
        mine, late = replace(asked, node="n1"), replace(asked, node="n2")
        assert await store.transact(lambda tx: tx.take_up(mine, SOON, None))
        assert not await store.transact(lambda tx: tx.take_up(late, SOON, None))
        taken = (await record(store, asked)).trigger
        assert (taken.node, taken.triggered_at) == ("n1", SOON)
        noted = await state(store)
        assert (noted.trigger_count, noted.last_run_at, noted.next_run_at) == (1, SOON, NOW)
        assert not await store.read(lambda tx: tx.is_waiting())
        (bobs,) = await store.read(lambda tx: tx.schedule_states("bob", None, 9, ""))
        assert (bobs.trigger_count, bobs.last_run_at) == (0, None)

    async def test_what_has_expired_is_not_taken_up(self, store: Store) -> None:
        await stored(store, standing())
        asked = trigger(node="", triggered_at=BEFORE)
        await inserted(store, asked)
        await store.transact(lambda tx: tx.prune_triggers(NOW, NOW))
        mine = replace(asked, node="n1")
        assert not await store.transact(lambda tx: tx.take_up(mine, SOON, None))
        left = await record(store, asked)
        assert (left.outcome, left.trigger.node) == ("expired", "")
        assert (await state(store)).trigger_count == 0

    async def test_take_up_pushes_out_an_interval_but_wakes_nothing_that_sleeps(
        self, store: Store
    ) -> None:
        await stored(store, standing(), standing("off", enabled=False, next_at=None, slot=None))
        for name, expected in (("poll", SOON), ("off", None)):
            asked = trigger(name, node="")
            await inserted(store, asked)
            mine = replace(asked, node="n1")
            await store.transact(
                lambda tx, mine=mine: tx.take_up(mine, NOW, (DEFINITION, SOON))  # type: ignore[misc]
            )
            noted = await state(store, name)
            assert (noted.slot, noted.next_run_at) == (expected, expected)

    async def test_take_up_moves_no_time_of_a_schedule_that_is_another_by_now(
        self, store: Store
    ) -> None:
        await stored(store, standing())
        asked = trigger(node="")
        await inserted(store, asked)
        mine = replace(asked, node="n1")
        assert await store.transact(lambda tx: tx.take_up(mine, NOW, ("cron UTC 0 9 * * *", SOON)))
        noted = await state(store)
        assert (noted.slot, noted.next_run_at, noted.trigger_count) == (NOW, NOW, 1)


class EndsContract:
    async def test_end_triggers_ends_once_and_tells_the_schedule(self, store: Store) -> None:
        await stored(store, standing())
        one = trigger()
        await inserted(store, one)
        end = TriggerEnd(one.id, "ada", "poll", "failed", "no disk", slot=SOON, next_at=LATER)
        assert await store.transact(lambda tx: tx.end_triggers([end], SOON)) == {one.id}
        assert await record(store, one) == TriggerRecord(one, SOON, "failed", "no disk")
        told = await state(store)
        assert (told.last_completed_at, told.last_error) == (SOON, "no disk")
        assert (told.slot, told.next_run_at) == (SOON, LATER)
        again = replace(end, outcome="succeeded", error=None, slot=None, next_at=None)
        assert await store.transact(lambda tx: tx.end_triggers([again], LATER)) == set()
        assert await state(store) == told
        assert await store.transact(lambda tx: tx.end_triggers([], LATER)) == set()

    async def test_a_skip_is_counted_and_leaves_the_last_error_unless_it_is_one(
        self, store: Store
    ) -> None:
        await stored(store, standing())
        seen = []
        for skip, error in (
            (None, "broken"), (SkipReason.NO_WORK, None), (SkipReason.SOURCE_ERROR, "no answer"),
            (SkipReason.BUDGET_EXHAUSTED, "spent"), (None, None),
        ):  # fmt: skip
            one = trigger()
            await inserted(store, one)
            end = TriggerEnd(one.id, "ada", "poll", "x", error, skip)
            await store.transact(lambda tx, end=end: tx.end_triggers([end], SOON))  # type: ignore[misc]
            told = await state(store)
            seen.append((told.last_error, told.last_skip_reason, told.skip_count))
        assert seen == [
            ("broken", None, 0), ("broken", "no_work", 1), ("no answer", "source_error", 2),
            ("no answer", "budget_exhausted", 3), (None, "budget_exhausted", 3),
        ]  # fmt: skip

    async def test_an_end_wakes_nothing_that_was_disabled_meanwhile(self, store: Store) -> None:
        await stored(store, standing())
        one = trigger()
        await inserted(store, one)
        await store.transact(lambda tx: tx.disable_schedule("ada", "poll"))
        end = TriggerEnd(one.id, "ada", "poll", "succeeded", slot=SOON, next_at=SOON)
        await store.transact(lambda tx: tx.end_triggers([end], SOON))
        assert (await state(store)).next_run_at is None

    async def test_an_end_moves_no_time_of_a_schedule_that_is_another_by_now(
        self, store: Store
    ) -> None:
        await stored(store, standing())
        one = trigger()
        await inserted(store, one)
        end = TriggerEnd(
            one.id, "ada", "poll", "failed", "no disk", slot=SOON, next_at=SOON,
            definition="cron UTC 0 9 * * *",
        )  # fmt: skip
        await store.transact(lambda tx: tx.end_triggers([end], SOON))
        told = await state(store)
        assert (told.slot, told.next_run_at) == (NOW, NOW)
        assert (told.last_completed_at, told.last_error) == (SOON, "no disk")

    async def test_an_end_wakes_nothing_that_rests(self, store: Store) -> None:
        await stored(store, standing(), standing("b", slot=BEFORE))
        one = trigger()
        await inserted(store, one)
        waits = Advance("ada", "b", BEFORE, BEFORE, LATER, skip=SkipReason.AT_CAPACITY)
        await store.transact(lambda tx: tx.advance_schedules([waits], NOW))
        await store.transact(lambda tx: tx.rest_schedules([]))
        end = TriggerEnd(
            one.id, "ada", "poll", "succeeded", slot=SOON, next_at=SOON, definition=DEFINITION
        )
        await store.transact(lambda tx: tx.end_triggers([end], SOON))
        await store.transact(lambda tx: tx.free_waiting({"ada"}, SOON))
        kept = await store.read(lambda tx: tx.standings(["ada"]))
        assert sorted((row.name, row.slot, row.next_at) for row in kept) == [
            ("b", BEFORE, RESTS), ("poll", SOON, RESTS),
        ]  # fmt: skip

    async def test_many_ends_are_told_to_their_own_schedules(self, store: Store) -> None:
        names = [f"s{n}" for n in range(60)]
        await stored(store, *(standing(name) for name in names))
        open_ = [trigger(name) for name in names]
        await inserted(store, *open_)
        ends = [TriggerEnd(t.id, "ada", t.schedule, "failed", f"of {t.schedule}") for t in open_]
        ended = await store.transact(lambda tx: tx.end_triggers(ends, SOON))
        assert ended == {one.id for one in open_}
        assert [(await state(store, name)).last_error for name in names] == [
            f"of {name}" for name in names
        ]

    async def test_free_waiting_lets_the_longest_due_of_each_agent_be_looked_at(
        self, store: Store
    ) -> None:
        rows = [
            standing("b", slot=BEFORE), standing("a"), standing("other", slot=LATER),
            standing("c", "bob"), standing("x", "eve"),
        ]  # fmt: skip
        await stored(store, *rows)
        waits = [
            Advance(row.agent, row.name, row.slot or "", row.slot or "", LATER,
                    skip=SkipReason.AT_CAPACITY)
            for row in rows
        ]  # fmt: skip
        await store.transact(lambda tx: tx.advance_schedules(waits, NOW))
        await store.transact(lambda tx: tx.free_waiting({"ada", "bob"}, NOW))
        due = await store.transact(lambda tx: tx.due_schedules(NOW, HEAD, 9))
        assert [(one.agent, one.name) for one in due] == [("ada", "b"), ("bob", "c")]
        for _ in range(2):  # then the next; the third is not due before its slot
            await store.transact(lambda tx: tx.free_waiting({"ada"}, NOW))
            due = await store.transact(lambda tx: tx.due_schedules(NOW, HEAD, 9))
            assert [one.name for one in due if one.agent == "ada"] == ["a", "b"]

    async def test_free_waiting_leaves_alone_what_waits_for_its_time(self, store: Store) -> None:
        await stored(store, standing("soon", slot=SOON, next_at=SOON))
        await stored(store, standing("jittered", next_at=SOON))
        await store.transact(lambda tx: tx.free_waiting({"ada"}, NOW))
        assert not await store.read(lambda tx: tx.is_due(NOW, HEAD))

    async def test_prune_triggers_forgets_what_ended_long_ago(self, store: Store) -> None:
        await stored(store, standing())
        old, open_, young = (
            trigger(triggered_at=BEFORE),
            trigger(triggered_at=BEFORE),
            trigger(triggered_at=SOON),
        )
        asked = trigger(node="", triggered_at=BEFORE)
        await inserted(store, old, open_, young, asked)
        ends = [TriggerEnd(one.id, "ada", "poll", "succeeded") for one in (old, young)]
        await store.transact(lambda tx: tx.end_triggers(ends, SOON))
        assert await store.transact(lambda tx: tx.prune_triggers(NOW, SOON)) == 1
        assert (await record(store, asked)).outcome == "expired"
        assert await store.read(lambda tx: tx.get_trigger(old.id)) is None
        assert await record(store, open_) == TriggerRecord(open_, None, None, None)
        assert (await record(store, young)).outcome == "succeeded"

    async def test_wakings_gathers_what_ended_alike_within_ten_minutes(self, store: Store) -> None:
        at = [_clock.text(seconds) for seconds in (-61, 0, 599, 600)]
        ran = [trigger(triggered_at=one) for one in at]
        failed, other = trigger(triggered_at=at[1]), trigger("push", triggered_at=at[1])
        open_, asked = trigger(triggered_at=at[3]), trigger(node="", triggered_at=at[3])
        unseen = trigger(agent="bob", triggered_at=at[1])
        await inserted(store, *ran, failed, other, open_, asked, unseen)
        ends = [TriggerEnd(one.id, "ada", one.schedule, "succeeded") for one in (*ran, other)]
        ends.append(TriggerEnd(failed.id, "ada", "poll", "failed"))
        await store.transact(lambda tx: tx.end_triggers(ends, LATER))
        names = [("ada", "poll"), ("ada", "push")]
        found = await store.read(lambda tx: tx.wakings(names, BEFORE))
        assert sorted(found, key=lambda one: (one.first_at, one.schedule, one.outcome)) == [
            Wakings("ada", "poll", "failed", 1, at[1], at[1]),
            Wakings("ada", "poll", "succeeded", 2, at[1], at[2]),
            Wakings("ada", "push", "succeeded", 1, at[1], at[1]),
            Wakings("ada", "poll", "running", 1, at[3], at[3]),
            Wakings("ada", "poll", "succeeded", 1, at[3], at[3]),
            Wakings("ada", "poll", "waiting", 1, at[3], at[3]),
        ]
        assert [one.first_at for one in found] == sorted(one.first_at for one in found)
        assert await store.read(lambda tx: tx.wakings([], BEFORE)) == []


class SchedulesContract(
    NodesContract, SchedulesTableContract, ClockContract, AskedContract, EndsContract
):
    """Everything about nodes, schedules and triggers."""
