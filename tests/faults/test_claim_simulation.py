"""The claim protocol against everything a tracker, a machine and people can do to it.

Each story is made of one seed and tells itself again from it:
`rota.testing.simulation.stories.tell(seed)`.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rota.claims.comments import Entry
from rota.claims.labels import LabelSet
from rota.claims.log import ClaimLog
from rota.claims.plain import LabelClaims
from rota.claims.protocol import Claimant, Grant
from rota.claims.strict import RefLog
from rota.claims.timing import Times
from rota.model.errors import IssueNotFound, TrackerError
from rota.testing.simulation.chance import Chance, Mishaps, Path, Seeded, paths
from rota.testing.simulation.players import Agent
from rota.testing.simulation.referee import Violation
from rota.testing.simulation.stories import (
    BAD_DAY,
    BAD_LUCK,
    HASTY,
    TIMES,
    Parts,
    Setting,
    World,
    some_setting,
    tell,
)
from rota.testing.simulation.time import Fates
from rota.testing.simulation.tracker import Faults, SimulatedTracker

COMMENTS = Parts()
STRICT = Parts(log=RefLog)
MODES = pytest.mark.parametrize("parts", [COMMENTS, STRICT], ids=["comments", "strict"])

Figure = Callable[[str], None]


@dataclass
class Tally:
    stories: int = 0
    grants: int = 0
    finishes: int = 0
    writes: int = 0
    deaths: int = 0

    def add(self, world: World) -> None:
        self.stories += 1
        self.grants += world.referee.grants
        self.finishes += world.referee.finishes
        self.writes += len(world.repository.journal)
        self.deaths += len(world.time.dead)

    def __str__(self) -> str:
        return (
            f"{self.stories} stories, {self.grants} grants, {self.finishes} accepted ends,"
            f" {self.deaths} deaths, {self.writes} writes: 0 violations"
        )


# stories by seed


def tell_many(seeds: Iterable[int], parts: Parts) -> Tally:
    tally = Tally()
    for seed in seeds:
        setting = replace(some_setting(Seeded(seed)), parts=parts)
        try:
            tally.add(tell(seed, setting))
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}", pytrace=False)
    return tally


@pytest.mark.early
@pytest.mark.parametrize(
    ("parts", "seeds"), [(COMMENTS, range(800)), (STRICT, range(250))], ids=["comments", "strict"]
)
def test_no_story_breaks_the_protocol(parts: Parts, seeds: range, figure: Figure) -> None:
    tally = tell_many(seeds, parts)
    assert tally.grants > len(seeds)
    assert tally.deaths > len(seeds) / 10
    figure(str(tally))


@pytest.mark.long
@MODES
def test_no_story_out_of_many_breaks_the_protocol(parts: Parts, figure: Figure) -> None:
    figure(str(tell_many(range(1000, 7_000), parts)))


def test_the_same_seed_tells_the_same_story() -> None:
    setting = replace(some_setting(Seeded(3)), people=1, outsiders=1)
    first, second = tell(3, setting), tell(3, setting)
    assert first.repository.journal == second.repository.journal
    assert first.repository.journal


class Hasty(ClaimLog):
    __slots__ = ()

    async def settle(self) -> None:
        return


class Deaf(ClaimLog):
    """Does not hear that somebody is alive."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        return [one for one in await ClaimLog.read(self, number) if str(one.kind) != "alive"]


def tell_all(**changes: Any) -> None:
    for seed in range(400):
        tell(seed, replace(some_setting(Seeded(seed)), **changes))


@pytest.mark.parametrize("log", [Hasty, Deaf])
def test_stories_find_a_guard_that_is_missing(log: type[ClaimLog]) -> None:
    with pytest.raises(Violation):
        tell_all(parts=Parts(log=log))


def test_stories_find_a_tracker_that_is_slower_than_we_believe() -> None:
    slow = replace(BAD_DAY, lag=5 * TIMES.settle)
    with pytest.raises(Violation):
        tell_all(faults=slow)


# one thing goes wrong, wherever it can


def short_story(chance: Chance, parts: Parts, times: Times, finishes: float) -> World:
    """Two fleets of one agent and one sweep each, on one issue, for two attempts or three."""
    faults = replace(BAD_DAY, slowest=0.5, replica=0.01)
    setting = Setting(
        agents=1,
        seconds=150,
        finishes=finishes,
        skew=0,
        times=times,
        faults=faults,
        fates=BAD_LUCK,
        parts=parts,
    )
    world = World(setting, chance, random.Random(1))
    try:
        world.populate()
        world.rest()
    finally:
        world.time.close()
    return world


@pytest.mark.parametrize(
    ("parts", "times", "finishes"),
    [(COMMENTS, TIMES, 1.0), (COMMENTS, HASTY, 0.0), (STRICT, HASTY, 1.0)],
    ids=["comments", "suspicious", "strict"],
)
def test_whatever_single_thing_goes_wrong_nothing_breaks(
    parts: Parts, times: Times, finishes: float, figure: Figure
) -> None:
    """A death, a freeze, a lost answer, a doubled post, a hidden entry: at every point."""
    tally, number = Tally(), 0
    while True:
        number += 1
        chance = Mishaps(number)
        tally.add(short_story(chance, parts, times, finishes))
        if chance.passed < number:
            break
    assert number > 300
    figure(f"{number - 1} points: {tally}")


def pairs(seed: int, many: int, parts: Parts) -> Tally:
    chance = random.Random(seed)
    tally = Tally()
    for _ in range(many):
        times, finishes = chance.choice([TIMES, HASTY]), chance.choice([0.0, 1.0])
        mishaps = Mishaps(*chance.sample(range(1, 500), 2))
        tally.add(short_story(mishaps, parts, times, finishes))
    return tally


@MODES
def test_whatever_two_things_go_wrong_nothing_breaks(parts: Parts, figure: Figure) -> None:
    figure(str(pairs(1, 150, parts)))


@pytest.mark.long
@MODES
def test_whatever_two_things_of_many_go_wrong_nothing_breaks(parts: Parts, figure: Figure) -> None:
    figure(str(pairs(2, 6_000, parts)))


# all interleavings of two claimants, as far as they differ early


def race(path: Path, setting: Setting) -> World:
    world = World(setting, path)
    for fleet in world.fleets:
        agent = world.agent(fleet, f"{fleet.name}a0")
        world.time.spawn(agent.name, agent.attempt(1))
    world.time.run(until=60)
    world.time.close()
    return world


def walk(depth: int, parts: Parts, faults: Faults) -> int:
    """How many different ways there were; in each of them exactly one was granted it."""
    times = replace(TIMES, settle_jitter=0.0)
    setting = Setting(
        agents=1, sweepers=0, skew=0, times=times, faults=faults, fates=Fates(), parts=parts
    )
    ways = 0
    for path in paths(depth):
        world = race(path, setting)
        assert world.referee.grants == 1, world.repository.journal
        ways += 1
    return ways


ATOMIC = Faults(lag=TIMES.settle)  # only the order of calls differs
HIDING = Faults(lag=TIMES.settle, hide=0.5)
SLOW = Faults(lag=TIMES.settle, slowest=4.0)


@pytest.mark.parametrize(
    ("parts", "depth", "faults"),
    [(COMMENTS, 11, ATOMIC), (COMMENTS, 9, HIDING), (COMMENTS, 9, SLOW), (STRICT, 9, HIDING)],
    ids=["orders", "hidden", "slow", "strict"],
)
def test_in_every_interleaving_of_two_claimants_exactly_one_wins(
    parts: Parts, depth: int, faults: Faults, figure: Figure
) -> None:
    figure(f"{walk(depth, parts, faults)} ways: one winner in each")


@pytest.mark.long
@pytest.mark.parametrize(
    ("parts", "depth", "faults"),
    [(COMMENTS, 22, ATOMIC), (COMMENTS, 15, HIDING), (COMMENTS, 15, SLOW), (STRICT, 15, HIDING)],
    ids=["orders", "hidden", "slow", "strict"],
)
def test_in_every_deeper_interleaving_exactly_one_wins(
    parts: Parts, depth: int, faults: Faults, figure: Figure
) -> None:
    figure(f"{walk(depth, parts, faults)} ways: one winner in each")


def test_the_walk_finds_the_interleaving_that_needs_the_wait() -> None:
    with pytest.raises((Violation, AssertionError)):
        walk(12, Parts(log=Hasty), HIDING)


def test_a_walk_goes_every_way_once() -> None:
    ways = [(path.pick(2), path.pick(3) if path.pick(2) else 9) for path in paths(3)]
    assert sorted(ways) == sorted([(first, last) for first in (0, 1) for last in (9, 0, 1, 2)])


# labels alone, under one ledger


class LabelAgent(Agent):
    """Labels keep no log that the referee could read the end from."""

    __slots__ = ()

    async def _finish(self, grant: Grant) -> bool:
        return await self.claims.finish(grant, "https://tracker.example/o/r/pulls/9")


async def tidy(world: World, claims: LabelClaims, until: float) -> None:
    """What the ledger does in this mode: gives back what runs without a lease have held."""
    ledger = world.fleets[0].ledger
    while world.time.now < until:
        await world.time.sleep(world.chance.between(30.0, 240.0))
        for number, firing in list(ledger.firings.items()):
            if await ledger.live([firing]):
                continue
            dead = Grant(number, 0, Claimant("f0", "tidy", firing, firing))
            try:
                await claims.release(dead, "stale-swept")
            except (TrackerError, IssueNotFound):
                continue
            if ledger.firings.get(number) == firing:
                del ledger.firings[number]


def label_story(seed: int) -> World:
    chance = Seeded(seed)
    setting = Setting(fleets=1, issues=2, sweepers=0, fates=BAD_LUCK, faults=BAD_DAY)
    world = World(setting, chance, random.Random(seed))
    fleet, labels = world.fleets[0], LabelSet()

    def claims(name: str, faults: Faults) -> LabelClaims:
        tracker = SimulatedTracker(world.repository, fleet.account, name, faults)
        return LabelClaims(tracker, labels, setting.times, world.time.pace(world.random))

    for name in ("a", "b", "c"):
        agent = LabelAgent(
            name,
            "f0",
            claims(name, BAD_DAY),
            fleet.ledger,
            world.referee,
            world.time,  # type: ignore[arg-type]
        )
        world.time.spawn(name, agent.live([1, 2], 900.0), mortal=True)
    world.time.spawn("tidy", tidy(world, claims("tidy", BAD_DAY), 900.0))
    world.time.run()
    world.time.fates = Fates()
    world.time.now += 1000.0
    world.time.spawn("rest", tidy(world, claims("rest", Faults()), world.time.now + 1.0))
    world.time.run()
    return world


def test_with_labels_alone_one_ledger_keeps_agents_apart(figure: Figure) -> None:
    tally = Tally()
    for seed in range(150):
        world = label_story(seed)
        tally.add(world)
        for number in (1, 2):
            assert LabelSet().in_flight not in world.repository.issue(number).labels, seed
    assert tally.grants > 150
    figure(str(tally))
