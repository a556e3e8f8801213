"""Several nodes on one ledger: who lives, and whose schedules are whose."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.model.clock import to_text
from rota.model.errors import StorageUnavailable
from rota.model.schedules import CatchUp, Schedule, ScheduleType, SkipReason
from rota.scheduler import SchedulerStatus, TriggerInfo, run_schedule
from rota.scheduler.syncing import is_whole, mend
from rota.scheduler.triggering import succeed
from rota.storage.port import Store, Transaction
from rota.testing.clock import ManualClock
from tests.contract.nodes import NewNode, Node, Pulse, agent, cron, every, state

Sql = Callable[..., list[tuple[Any, ...]]]

LONG = 365 * 24 * 60  # minutes


async def living(store: Store) -> list[str]:
    return [node.id for node in await store.read(lambda tx: tx.living_nodes())]


async def pass_time(clocks: list[ManualClock], nodes: list[Node], seconds: float) -> None:
    """On every clock at the same pace, whatever it shows."""
    for _ in range(int(seconds // 5)):
        for clock in clocks:
            clock.advance(5)
        for node in nodes:
            await node.tick()


# who lives


async def test_clocks_that_differ_make_nobody_look_dead(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    ahead = ManualClock(clock.now())
    ahead.advance(3_600)
    slow = await new_node(agent(every(1), room=1), name="slow")
    fast = await new_node(agent(every(1), room=1), name="fast", clock=ahead)
    slow.stage.stays = fast.stage.stays = True
    await slow.tick()
    await pass_time([clock, ahead], [slow, fast], 300)
    assert await living(store) == ["fast", "slow"]
    assert (len(slow.stage.came), fast.stage.came) == (1, [])


async def test_who_died_with_a_clock_ahead_is_dead_as_soon_as_any_other(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    ahead = ManualClock(clock.now())
    ahead.advance(86_400)
    dead = await new_node(agent(every(LONG)), name="dead", clock=ahead)
    dead.stage.stays = True
    await dead.tick()
    heir = await new_node(agent(every(LONG)), name="heir")
    await pass_time([clock], [heir], 25)
    assert await living(store) == ["dead", "heir"]
    await pass_time([clock], [heir], 5)
    assert await living(store) == ["heir"]
    record = await store.read(lambda tx: tx.get_trigger(dead.stage.came[0].id))
    assert record is not None
    assert record.outcome == "lost"


@pytest.mark.parametrize("how", ["killed", "stopped", "set right", "while the others slept"])
async def test_what_a_server_ahead_has_put_off_is_not_put_off_when_that_server_is_gone(
    store: Store, clock: ManualClock, new_node: NewNode, how: str
) -> None:
    start = clock.now()
    ahead = ManualClock(start)
    fleet = agent(cron("0 * * * *"), every(5))
    node = await new_node(fleet)
    fast = await new_node(fleet, name="fast", clock=ahead)
    ahead.advance(10 * 365 * 86_400)
    await pass_time([clock, ahead], [node, fast], 30)
    slots = [(await state(store, one)).slot or "" for one in ("clock", "poll")]
    assert min(slots) > clock.text(86_400)
    if how == "stopped":
        await fast.scheduler.stop()
    elif how == "set right":
        ahead.advance(-10 * 365 * 86_400)
        await fast.scheduler.set_agents([])  # so it does not look at them
        await fast.tick()
    elif how == "while the others slept":
        await store.transact(lambda tx: tx.end_node("fast", clock.text()))
        clock.advance(60)
    await pass_time([clock], [node], 40)
    assert (await state(store, "clock")).slot == to_text(start + timedelta(hours=1))
    assert clock.text() < ((await state(store)).slot or "") <= clock.text(300)


async def test_a_server_that_is_ahead_and_lives_keeps_its_rhythm(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    ahead = ManualClock(clock.now())
    ahead.advance(3_600)
    node = await new_node(agent(every(5)))
    fast = await new_node(agent(every(5)), name="fast", clock=ahead)
    await pass_time([clock, ahead], [fast, node], 600)
    assert (len(node.stage.came), len(fast.stage.came)) == (0, 2)


async def test_who_gives_signs_of_life_now_and_then_lives(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """Each silence is counted by itself."""
    hesitant = await new_node(agent(every(LONG)), name="hesitant")
    steady = await new_node(agent(every(LONG)), name="steady")
    for _ in range(6):
        await pass_time([clock], [steady], 20)
        await hesitant.tick()
    assert await living(store) == ["hesitant", "steady"]


async def test_who_waits_for_its_last_runs_lives(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    pulse = Pulse()
    leaving = await new_node(agent(every(1), room=1), sleep=pulse.sleep)
    leaving.stage.stays = True
    await leaving.tick()
    other = await new_node(agent(every(1), room=1), name="n2")
    stop = asyncio.create_task(leaving.scheduler.stop())
    for _ in range(12):
        clock.advance(5)
        await pulse.beat()
        await other.tick()
    assert other.stage.came == []
    leaving.stage.send_off()
    await stop
    assert await living(store) == ["n2"]
    assert (await state(store)).last_error is None
    record = await store.read(lambda tx: tx.get_trigger(leaving.stage.came[0].id))
    assert record is not None
    assert record.outcome == "succeeded"


# whose schedules are whose


async def schedules(store: Store) -> list[str]:
    found = await store.read(lambda tx: tx.schedule_states(None, None, 100, ""))
    return [f"{one.agent}/{one.name}" for one in found]


async def is_awake(store: Store, name: str = "poll", who: str = "bob") -> bool:
    return (await state(store, name, who)).next_run_at is not None


async def test_a_node_that_was_taken_for_dead_wakes_its_schedules_again(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    one = await new_node(agent(every(1)))
    cut_off = await new_node(agent(every(1), name="bob"), name="n2")
    await pass_time([clock], [one, cut_off], 60)
    await pass_time([clock], [one], 50)
    assert await living(store) == ["n1"]
    await one.scheduler.set_agents([agent(every(1))])
    assert not await is_awake(store)
    before = len(cut_off.stage.came)
    await pass_time([clock], [one, cut_off], 5)
    assert await is_awake(store)
    assert len(cut_off.stage.came) == before + 1
    await pass_time([clock], [one, cut_off], 600)
    assert len(cut_off.stage.came) == before + 11


@pytest.mark.parametrize(
    ("policy", "minutes", "slots", "said"),
    [
        (CatchUp.ONE, 70, ["10:00"], SkipReason.MISSED),
        (CatchUp.NONE, 70, [], SkipReason.MISSED),
        (CatchUp.ALL, 70, ["09:00", "09:30", "10:00"], None),
        (CatchUp.ONE, 12, ["09:00"], None),
        (CatchUp.NONE, 12, [], SkipReason.MISSED),
        (CatchUp.NONE, 2.5, ["09:00"], None),
    ],
)
async def test_who_comes_back_finds_the_slots_that_it_has_missed(  # noqa: PLR0917
    store: Store,
    new_node: NewNode,
    policy: CatchUp,
    minutes: float,
    slots: list[str],
    said: SkipReason | None,
) -> None:
    clock = ManualClock(datetime(2026, 5, 1, 8, 58, tzinfo=UTC))
    theirs = agent(cron("*/30 * * * *", catch_up=policy), name="bob")
    await (await new_node(theirs, clock=clock)).scheduler.stop()
    await new_node(agent(every(LONG)), name="n2", clock=clock)
    assert not await is_awake(store, "clock")
    clock.advance(minutes * 60)
    back = await new_node(theirs, name="n3", clock=clock)
    for _ in range(4):
        await back.tick()
    assert [slot[11:16] for slot in back.stage.slots()] == slots
    assert (await state(store, "clock", "bob")).last_skip_reason is said


async def test_who_comes_back_before_a_slot_waits_for_it(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    theirs = agent(cron("0 * * * *", jitter_percent=10), name="bob")
    await (await new_node(theirs)).scheduler.stop()
    await new_node(agent(every(LONG)), name="n2")
    clock.advance(600)
    await new_node(theirs, name="n3", rng=lambda: 0.5)
    after = await state(store, "clock", "bob")
    assert (after.slot, after.next_run_at) == (clock.text(3_000), clock.text(3_150))


async def test_a_definition_that_changed_while_it_rested_is_computed_anew(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    await (await new_node(agent(cron("0 * * * *"), name="bob"))).scheduler.stop()
    await new_node(agent(every(LONG)), name="n2")
    clock.advance(2 * 3_600)
    await new_node(agent(cron("30 * * * *"), name="bob"), name="n3")
    assert (await state(store, "clock", "bob")).slot == clock.text(1_800)


async def test_agents_rest_when_no_living_node_has_them(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    fleet = [agent(every(LONG)), agent(every(LONG), name="bob")]
    one, other = await new_node(*fleet), await new_node(*fleet, name="n2")
    await one.scheduler.set_agents(fleet[:1])
    assert await is_awake(store)
    await other.scheduler.set_agents(fleet[:1])
    assert not await is_awake(store)
    assert (await state(store, "poll", "bob")).slot is None
    assert await is_awake(store, who="ada")
    await other.scheduler.set_agents(fleet)
    assert await is_awake(store)


@pytest.mark.parametrize("killed", [False, True])
async def test_agents_that_only_a_server_had_that_has_ended_rest_and_lose_nothing(
    store: Store, clock: ManualClock, new_node: NewNode, killed: bool
) -> None:
    old = [agent(every(LONG), cron()), agent(every(LONG), name="bob")]
    one, gone = await new_node(agent(every(LONG))), await new_node(*old, name="n2")
    await pass_time([clock], [one, gone], 10)
    before = await state(store, "poll", "bob")
    assert await is_awake(store)
    if not killed:
        await gone.scheduler.stop()
    await pass_time([clock], [one], 40 if killed else 5)
    assert not await is_awake(store)
    assert await is_awake(store, who="ada")
    await new_node(*old, name="n3")
    assert await schedules(store) == ["ada/clock", "ada/poll", "bob/poll"]
    assert (await state(store, "poll", "bob")).next_run_at == before.next_run_at


async def test_a_schedule_is_dropped_when_no_living_node_has_it(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    hook = Schedule("ada", "hook", ScheduleType.WEBHOOK)
    new = [agent(every(1), cron(), hook)]
    one = await new_node(*new)
    yesterday = await new_node(agent(every(1)), name="n2")
    assert await schedules(store) == ["ada/clock", "ada/hook", "ada/poll"]
    await pass_time([clock], [one, yesterday], 600)
    assert len(one.stage.slots("clock")) == 1
    assert yesterday.stage.slots("clock") == []
    await yesterday.scheduler.set_agents(new)
    await one.scheduler.set_agents([agent(every(1))])
    assert await schedules(store) == ["ada/clock", "ada/hook", "ada/poll"]
    await yesterday.scheduler.set_agents([agent(every(1))])
    assert await schedules(store) == ["ada/poll"]


async def test_what_a_node_had_that_has_ended_keeps_nothing(
    store: Store, clock: ManualClock, new_node: NewNode, sql: Sql
) -> None:
    gone = await new_node(agent(every(5), cron()), agent(every(5), name="bob"))
    await gone.scheduler.stop()
    heir = await new_node(agent(every(5)), name="n2")
    assert await schedules(store) == ["ada/poll", "bob/poll"]
    assert not await is_awake(store)
    await heir.tick()
    assert sql("SELECT node FROM rosters") == [("n2",)]


async def test_a_node_that_has_just_come_may_have_anything(
    store: Store, clock: ManualClock, new_node: NewNode, sql: Sql
) -> None:
    one = await new_node(agent(every(5), cron()), agent(every(5), name="bob"))
    await new_node(agent(every(5)), name="n2")
    sql("DELETE FROM rosters WHERE node = 'n2'")
    await one.scheduler.set_agents([agent(every(5))])
    assert await schedules(store) == ["ada/clock", "ada/poll", "bob/poll"]
    assert await is_awake(store)


async def test_a_run_by_hand_drops_nothing_that_a_server_has(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    await new_node(agent(every(5), cron()))
    few = agent(every(5), room=1)
    await run_schedule(
        agent=few, schedule=few.schedules[0], store=store, on_trigger=succeed, clock=clock
    )
    assert await schedules(store) == ["ada/clock", "ada/poll"]


async def test_a_run_by_hand_says_what_it_has(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """Nobody has to fear for the rest while it goes on."""
    node = await new_node(agent(every(LONG), cron()))
    few = agent(every(LONG))

    async def reload(_info: TriggerInfo) -> None:
        await node.scheduler.set_agents([few])

    await run_schedule(
        agent=few, schedule=few.schedules[0], store=store, on_trigger=reload, clock=clock
    )
    assert await schedules(store) == ["ada/poll"]


async def test_who_comes_back_says_again_what_it_has(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    one = await new_node(agent(every(LONG), every(LONG, "old")))
    other = await new_node(agent(every(LONG), every(LONG, "theirs")), name="n2")
    await store.transact(lambda tx: tx.end_node("n2", clock.text()))
    await pass_time([clock], [one], 5)  # and tidies up
    await pass_time([clock], [other], 5)
    await one.scheduler.set_agents([agent(every(LONG))])
    assert await schedules(store) == ["ada/poll", "ada/theirs"]


class Faltering:
    """A store whose next transactions fail where it is said."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.troubles: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, body: Callable[[Transaction], Any]) -> Any:
        if self.troubles and self.troubles.pop(0):
            raise StorageUnavailable("the server restarts")
        return self._store.transact(body)


async def test_who_comes_back_while_the_database_falters_says_it_when_it_can(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    faltering = Faltering(store)
    one = await new_node(agent(every(LONG), every(LONG, "old")))
    other = await new_node(agent(every(LONG), every(LONG, "theirs")), name="n2", store=faltering)
    await store.transact(lambda tx: tx.end_node("n2", clock.text()))
    await pass_time([clock], [one], 5)  # and tidies up
    faltering.troubles = [False, True]  # it is seen again, and cannot say what it has
    with pytest.raises(StorageUnavailable):
        await other.tick()
    await other.tick()
    await one.scheduler.set_agents([agent(every(LONG))])
    assert await schedules(store) == ["ada/poll", "ada/theirs"]


async def test_who_leaves_while_the_database_is_away_ends_and_is_missed_by_the_others(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    faltering = Faltering(store)
    one = await new_node(agent(every(LONG)))
    other = await new_node(agent(every(LONG)), name="n2", store=faltering)
    faltering.troubles = [True]
    await other.scheduler.stop()
    assert other.scheduler.get_status() is SchedulerStatus.STOPPED
    assert faltering.troubles == []
    assert [node.id for node in await store.read(lambda tx: tx.living_nodes())] == ["n1", "n2"]
    await pass_time([clock], [one], 40)
    assert [node.id for node in await store.read(lambda tx: tx.living_nodes())] == ["n1"]


async def test_what_only_a_newer_file_has_is_left_alone_by_a_clock_put_back(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    older = await new_node(agent(every(LONG)))
    await new_node(agent(every(LONG), cron("0 * * * *")), name="n2")
    await older.tick()
    before = await state(store, "clock")
    clock.advance(-7200)
    await older.tick()
    assert await state(store, "clock") == before


# what was lost all the same


async def test_a_schedule_that_somebody_took_out_comes_back_while_a_node_has_it(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    node = await new_node(agent(every(LONG), cron("0 0 1 1 *")))
    await node.tick()
    await store.transact(lambda tx: tx.drop_schedules([("ada", "clock")], clock.text()))
    await store.transact(lambda tx: tx.rest_schedules([]))
    await pass_time([clock], [node], 25)
    assert await schedules(store) == ["ada/poll"]
    await pass_time([clock], [node], 5)
    assert await schedules(store) == ["ada/clock", "ada/poll"]
    assert await is_awake(store, "clock", "ada")
    assert await is_awake(store, "poll", "ada")
    assert len(node.stage.came) == 1


async def test_what_comes_back_and_is_due_runs_before_what_belongs_to_others(
    store: Store, clock: ManualClock, new_node: NewNode, sql: Sql
) -> None:
    node = await new_node(agent(every(75 / 60)))
    await new_node(agent(every(80 / 60), name="bob"), name="n2")
    await node.tick()
    sql("UPDATE schedules SET next_at = :at, slot = :at WHERE agent = 'bob'", at=clock.text(80))
    await pass_time([clock], [node], 10)
    await node.scheduler.set_agents([agent(every(75 / 60))])  # looks every 30 seconds from here
    await pass_time([clock], [node], 60)
    await store.transact(lambda tx: tx.rest_schedules(["bob"]))
    await pass_time([clock], [node], 25)
    assert len(node.stage.came) == 1
    await pass_time([clock], [node], 5)
    assert len(node.stage.came) == 2


async def test_a_large_fleet_is_looked_over_by_and_by(
    store: Store, clock: ManualClock, new_node: NewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.scheduler.keeping.PAGE", 2)
    fleet = [agent(cron("0 0 1 1 *"), name=name) for name in ("ada", "bob", "cyd")]
    node = await new_node(*fleet)
    names = [(one.name, "clock") for one in fleet]
    await store.transact(lambda tx: tx.drop_schedules(names, clock.text()))
    for there in (1, 2, 3):
        await pass_time([clock], [node], 30)
        assert len(await schedules(store)) == there
    await store.transact(lambda tx: tx.drop_schedules(names, clock.text()))
    await store.transact(lambda tx: tx.end_node("n1", clock.text()))
    await pass_time([clock], [node], 5)
    assert len(await schedules(store)) == 3, "who was taken for dead looks at all at once"


async def test_a_new_file_is_looked_over_from_its_beginning(
    store: Store, clock: ManualClock, new_node: NewNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not what is left of the old one, in which others were, too."""
    monkeypatch.setattr("rota.scheduler.keeping.PAGE", 2)
    fleet = [agent(cron("0 0 1 1 *"), name=name) for name in ("ada", "bob", "cyd")]
    node = await new_node(*fleet)
    await pass_time([clock], [node], 30)
    await node.scheduler.set_agents(fleet[:1])
    resting = await state(store, "clock", "bob")
    await pass_time([clock], [node], 30)
    assert await state(store, "clock", "bob") == resting


async def test_what_wakes_by_no_clock_is_not_taken_for_lost(
    store: Store, new_node: NewNode
) -> None:
    hook = Schedule("ada", "hook", ScheduleType.WEBHOOK)
    node = await new_node(agent(hook, every(LONG)))
    assert await store.read(lambda tx: is_whole(tx, node.scheduler.roster))


async def test_who_looks_over_its_schedules_changes_nothing_that_stands(
    store: Store, clock: ManualClock, new_node: NewNode
) -> None:
    """The file that was read last holds, also against a node with an older one that comes back."""
    former = agent(every(5), cron(), every(9, "off"), every(9, "lost"))
    yesterday = await new_node(former, name="n2")
    await store.transact(lambda tx: tx.disable_schedule("ada", "off"))
    today = await new_node(agent(every(7), cron("0 * * * *"), every(8, "off")))
    before = [await state(store, name) for name in ("poll", "clock", "off")]
    await store.transact(lambda tx: tx.drop_schedules([("ada", "lost")], clock.text()))
    await store.transact(lambda tx: tx.end_node("n2", clock.text()))
    yesterday.stage.stays = today.stage.stays = True
    await pass_time([clock], [yesterday], 60)
    after = [await state(store, name) for name in ("poll", "clock", "off")]
    assert [one.definition for one in after] == [one.definition for one in before]
    assert not after[2].enabled
    assert "ada/lost" in await schedules(store)


class Held:
    """A store that does not mend before the test lets it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reached, self.free = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, body: Any) -> Any:
        is_held = getattr(body, "func", None) is mend
        return self._transact_later(body) if is_held else self._store.transact(body)

    async def _transact_later(self, body: Any) -> Any:
        self.reached.set()
        await self.free.wait()
        return await self._store.transact(body)


@pytest.mark.parametrize("taken_for_dead", [False, True])
async def test_what_a_new_file_has_dropped_is_not_brought_back_by_the_old(
    store: Store, clock: ManualClock, new_node: NewNode, taken_for_dead: bool
) -> None:
    held = Held(store)
    node = await new_node(agent(every(LONG), cron()), store=held)
    await store.transact(lambda tx: tx.drop_schedules([("ada", "clock")], clock.text()))
    if taken_for_dead:
        await store.transact(lambda tx: tx.end_node("n1", clock.text()))
    clock.advance(30)
    look = asyncio.create_task(node.tick())
    await held.reached.wait()
    reload = asyncio.create_task(node.scheduler.set_agents([agent(every(LONG))]))
    await asyncio.wait([reload], timeout=0.1)  # it has to wait; if not, it would be done by now
    held.free.set()
    await asyncio.gather(look, reload)
    assert await schedules(store) == ["ada/poll"]
