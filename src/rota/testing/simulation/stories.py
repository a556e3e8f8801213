"""One story from beginning to end: its setting, its players and how it ended."""

from dataclasses import dataclass, field, replace
from itertools import cycle
from random import Random

from rota.claims.comments import Believed, Entry
from rota.claims.labels import LabelSet
from rota.claims.log import ClaimLog
from rota.claims.port import Account
from rota.claims.protocol import CommentClaims
from rota.claims.sweep import Sweep
from rota.claims.timing import Times
from rota.testing.simulation.chance import Chance, Seeded
from rota.testing.simulation.players import Agent, Outsider, Person, SimulatedLedger, Sweeper
from rota.testing.simulation.referee import Referee, Role
from rota.testing.simulation.repository import OWNER, Repository
from rota.testing.simulation.time import Fates, VirtualTime, at_once
from rota.testing.simulation.tracker import AllSeeing, Faults, SimulatedTracker

TIMES = Times(quiet=600.0)
# Every claim is suspected all the time, and silence ends it quickly.
HASTY = Times(poll=20.0, grace=100.0, margin=10.0, quiet=30.0)
OUTSIDER = Account(666, "mallory")

# Every fault that the protocol is meant to survive.
BAD_DAY = Faults(
    lag=TIMES.settle,
    slowest=3.0,
    hide=0.5,
    read_error=0.03,
    write_error=0.02,
    lost_before=0.02,
    lost_after=0.04,
    late=0.02,
    twice=0.05,
)
BAD_LUCK = Fates(death=0.004, freeze=0.006)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the players use; a test can replace a part by one that lacks a guard."""

    log: type[ClaimLog] = ClaimLog
    claims: type[CommentClaims] = CommentClaims
    sweep: type[Sweep] = Sweep


@dataclass(frozen=True, slots=True)
class Setting:
    fleets: int = 2
    agents: int = 2  # of each fleet
    issues: int = 1
    people: int = 0
    outsiders: int = 0
    sweepers: int = 1  # of each fleet
    relabels: bool = True  # people change lifecycle labels by hand
    seconds: float = 900.0
    finishes: float = 0.25  # chance that an agent's completed work is finished
    skew: int = 1  # timestamps are wrong by up to so many seconds
    times: Times = TIMES
    other_times: Times | None = None  # for every second fleet
    faults: Faults = BAD_DAY
    fates: Fates = BAD_LUCK
    parts: Parts = field(default_factory=Parts)

    @property
    def both_times(self) -> tuple[Times, Times]:
        return self.times, self.other_times or self.times


@dataclass(slots=True)
class Fleet:
    name: str
    account: Account
    ledger: SimulatedLedger
    times: Times


@dataclass(slots=True)
class World:
    """Everything in a story: its repository, its fleets, its referee, and the players."""

    setting: Setting
    chance: Chance
    random: Random = field(default_factory=lambda: Random(0))
    labels: LabelSet = field(default_factory=LabelSet)
    time: VirtualTime = field(init=False)
    repository: Repository = field(init=False)
    referee: Referee = field(init=False)
    fleets: list[Fleet] = field(init=False)
    trackers: list[SimulatedTracker] = field(default_factory=list)
    _truth: ClaimLog = field(init=False)

    def __post_init__(self) -> None:
        setting = self.setting
        self.time = VirtualTime(self.chance, setting.fates)
        self.repository = Repository(self.time, self._skew)
        for number in range(1, setting.issues + 1):
            self.repository.open_issue(number, "bug", self.labels.ready)
        self.fleets = [
            Fleet(f"f{at}", Account(100 + at, f"bot{at}"), SimulatedLedger(self.time), times)
            for at, times in zip(range(setting.fleets), cycle(setting.both_times), strict=False)
        ]
        judge = _pristine(setting.parts.log)
        self._truth = self._log(judge, AllSeeing(self.repository, OWNER))
        self.referee = Referee(self.repository, self.labels, self.truth, setting.times.grace)

    def _skew(self) -> int:
        width = self.setting.skew
        return self.chance.pick(2 * width + 1) - width if width else 0

    def truth(self, number: int) -> list[Entry]:
        log: list[Entry] = at_once(self._truth.read(number))
        return log

    @property
    def numbers(self) -> list[int]:
        return list(self.repository.history)

    # players

    def _tracker(self, name: str, account: Account) -> SimulatedTracker:
        tracker = SimulatedTracker(self.repository, account, name, self.setting.faults)
        self.trackers.append(tracker)
        return tracker

    def _log(self, kind: type[ClaimLog], tracker: SimulatedTracker) -> ClaimLog:
        fleets = frozenset(fleet.account.id for fleet in self.fleets)
        believed = Believed(fleets, frozenset({OWNER.id}))
        return kind(tracker, believed, self.setting.times, self.time.pace(self.random))

    def claims(self, name: str, account: Account, role: Role) -> CommentClaims:
        self.referee.roles[name] = role
        log = self._log(self.setting.parts.log, self._tracker(name, account))
        return self.setting.parts.claims(log, self.labels)

    def agent(self, fleet: Fleet, name: str) -> Agent:
        claims = self.claims(name, fleet.account, Role.AGENT)
        claims.log.times = fleet.times
        agent = Agent(name, fleet.name, claims, fleet.ledger, self.referee, self.time)
        agent.finishes = self.setting.finishes
        return agent

    def sweep(self, fleet: Fleet, name: str) -> Sweep:
        claims = self.claims(name, fleet.account, Role.SWEEP)
        claims.log.times = fleet.times
        return self.setting.parts.sweep(claims, self.labels, fleet.name, fleet.ledger.live, name)

    def person(self, name: str) -> Person:
        claims = self.claims(name, OWNER, Role.PERSON)
        claims.log.times = max(self.setting.both_times, key=lambda times: times.grace)
        tracker = self.trackers[-1]
        relabels = self.setting.relabels
        return Person(name, tracker, claims, self.labels, self.referee, self.time, relabels)

    def outsider(self, name: str) -> Outsider:
        claims = self.claims(name, OUTSIDER, Role.OUTSIDER)
        return Outsider(name, self.trackers[-1], claims, self.time)

    def populate(self) -> None:
        until, setting = self.setting.seconds, self.setting
        for fleet in self.fleets:
            for at in range(setting.agents):
                agent = self.agent(fleet, f"{fleet.name}a{at}")
                self.time.spawn(agent.name, agent.live(self.numbers, until), mortal=True)
            for at in range(setting.sweepers):
                sweeper = Sweeper(self.sweep(fleet, f"{fleet.name}s{at}"), self.time)
                self.time.spawn(f"{fleet.name}s{at}", sweeper.live(until), mortal=True)
        for at in range(setting.people):
            self.time.spawn(f"p{at}", self.person(f"p{at}").live(self.numbers, until))
        for at in range(setting.outsiders):
            self.time.spawn(f"o{at}", self.outsider(f"o{at}").live(self.numbers, until))

    # the end

    def rest(self, rounds: int = 4) -> None:
        """Only sweeps act, without faults; after that nothing may be stuck."""
        self.time.run()
        self.time.fates = Fates()
        quiet = max(times.quiet for times in self.setting.both_times)
        self.time.now += max(quiet, max(_leases(self.fleets)) - self.time.now)
        for number in range(rounds):
            for fleet in self.fleets:
                self._sweep_once(fleet, f"{fleet.name}r{number}")
            self.time.run()
            self.time.now += max(times.grace for times in self.setting.both_times)
        self.referee.check_rest()

    def _sweep_once(self, fleet: Fleet, name: str) -> None:
        sweep = self.sweep(fleet, name)
        self.trackers[-1].faults = self.setting.faults.calmed()
        # Labels alone must be enough to find what is stuck, unless a person removed them.
        by_hand = fleet.ledger if self.setting.people and self.setting.relabels else None
        sweeper = Sweeper(sweep, self.time, by_hand)
        self.time.spawn(name, sweeper.live(self.time.now + 0.1))


def _leases(fleets: list[Fleet]) -> list[float]:
    return [0.0, *(until for fleet in fleets for until in fleet.ledger.leases.values())]


def _pristine(kind: type[ClaimLog]) -> type[ClaimLog]:
    """The part without a test's changes to it."""
    return next(one for one in kind.__mro__ if one.__module__.startswith("rota.claims."))


def tell(seed: int, setting: Setting | None = None) -> World:
    """Run one story; raises `Violation`."""
    chance = Seeded(seed)
    world = World(setting or some_setting(chance), chance, Random(seed))
    try:
        world.populate()
        world.rest()
    finally:
        world.time.close()
    return world


def some_setting(chance: Chance) -> Setting:
    """Settings of all kinds, so that every fault occurs with and without every other."""
    faults = BAD_DAY if chance.odds(0.6) else BAD_DAY.calmed()
    return Setting(
        fleets=(1, 2, 2, 3)[chance.pick(4)],
        agents=1 + chance.pick(2),
        issues=1 + chance.pick(2),
        people=chance.pick(2),
        outsiders=int(chance.odds(0.3)),
        sweepers=(1, 1, 2)[chance.pick(3)],
        seconds=(300.0, 600.0, 900.0)[chance.pick(3)],
        times=(TIMES, HASTY)[chance.pick(2)],
        other_times=(None, TIMES, HASTY)[chance.pick(3)],
        faults=replace(faults, slowest=(0.3, 3.0, 15.0)[chance.pick(3)]),
        fates=BAD_LUCK if chance.odds(0.6) else Fates(),
    )
