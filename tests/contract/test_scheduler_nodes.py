"""Several nodes on one ledger: who lives, and whose schedules are whose."""

from rota.storage.port import Store
from rota.testing.clock import ManualClock
from tests.contract.nodes import NewNode, Node, agent, every

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
