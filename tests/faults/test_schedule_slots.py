"""Two nodes on PostgreSQL, killed again and again: every slot is run exactly once."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from rota.model.clock import to_text
from rota.scheduler import next_cron_trigger
from tests.faults.processes import Process, processes
from tests.faults.schedule_node import SCHEDULES, START, FileClock, agents

STEP = timedelta(minutes=1)
PACE_SECONDS = 0.02  # of real time for a minute of the simulated
CATCH_UP_SECONDS = 180.0
Slot = tuple[str, str]  # agent/schedule, and the slot's time


@dataclass
class Story:
    """A fleet on a simulated clock."""

    url: str
    home: Path
    start: Callable[..., Process]
    seed: int
    policy: str = "all"
    bug: str = ""
    kills: int = 0
    nodes: dict[str, Process | None] = field(default_factory=lambda: {"one": None, "two": None})

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.clock = FileClock(self.home / "clock")
        self.log = self.home / "runs"
        self.now = START
        self.clock.set(START)
        self.log.touch()

    def begin(self, place: str) -> None:
        self.nodes[place] = self.start(
            "-m", "tests.faults.schedule_node",
            self.url, place, str(self.clock.path), str(self.log), self.policy, self.bug,
        )  # fmt: skip

    def live(self, hours: float, kills: int) -> None:
        """Time goes on, whoever is there to see it; nodes die and come back."""
        for place in self.nodes:
            self.begin(place)
        for node in self.nodes.values():
            assert node is not None
            assert node.hear() == "ready"
        steps = int(hours * 60)
        deaths = Counter(self.dice.choices(range(9, steps - 9, 10), k=kills))  # over due slots
        back: dict[int, list[str]] = {}
        for step in range(steps):
            self.tick(pause=self.dice.uniform(0, 0.04) if deaths[step] else PACE_SECONDS)
            for place in back.pop(step, []):
                self.begin(place)
            for _ in range(deaths[step]):
                place = self.dice.choice(list(self.nodes))
                if (node := self.nodes[place]) is not None:
                    node.kill()
                    self.nodes[place] = None
                    self.kills += 1
                    back.setdefault(step + self.dice.randint(1, 40), []).append(place)
        for place, node in self.nodes.items():
            if node is None:
                self.begin(place)

    def tick(self, step: timedelta = STEP, pause: float = PACE_SECONDS) -> None:
        self.now += step
        self.clock.set(self.now)
        time.sleep(pause)

    def catch_up(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while not until() and time.monotonic() < deadline:
            self.tick(timedelta(seconds=1), 2 * PACE_SECONDS)

    def recorded(self) -> dict[Slot, str | None]:
        """By slot: how its trigger ended."""
        with psycopg.connect(self.url) as server:
            rows = server.execute(
                "SELECT agent || '/' || schedule, slot, outcome FROM triggers"
            ).fetchall()
        return {(name, slot): outcome for name, slot, outcome in rows}

    def executed(self) -> Counter[Slot]:
        # The nodes go on writing: of the last line there may be half.
        lines = self.log.read_text().rpartition("\n")[0].splitlines()
        return Counter((name, slot) for name, _, slot in (line.partition(" ") for line in lines))


def slots(begin: datetime, end: datetime) -> Iterator[Slot]:
    """What had to be run, reckoned without any scheduler."""
    for agent in agents("all"):
        for one in agent.schedules:
            moment = begin
            while (moment := next_cron_trigger(one.cron or "", moment, one.timezone)) <= end:
                yield f"{agent.name}/{one.name}", to_text(moment)


@dataclass(frozen=True)
class Verdict:
    expected: int
    missed: set[Slot]
    unforeseen: set[Slot]
    twice: set[Slot]
    unrecorded: set[Slot]  # run, but not in the ledger
    unrun: set[Slot]  # the ledger says that they succeeded, and nobody ran them
    lost: int  # their node was killed over them; nobody ran them again

    @property
    def clean(self) -> bool:
        return not (self.missed or self.unforeseen or self.twice or self.unrecorded or self.unrun)


def judge(story: Story, end: datetime) -> Verdict:
    expected = set(slots(START, end))
    recorded = {slot: how for slot, how in story.recorded().items() if slot[1] <= to_text(end)}
    executed = {slot: n for slot, n in story.executed().items() if slot[1] <= to_text(end)}
    return Verdict(
        len(expected),
        expected - recorded.keys(),
        recorded.keys() - expected,
        {slot for slot, count in executed.items() if count > 1},
        executed.keys() - recorded.keys(),
        {slot for slot, how in recorded.items() if how == "succeeded"} - executed.keys(),
        sum(how == "lost" for how in recorded.values()),
    )


def told(story: Story, hours: float, kills: int) -> Verdict:
    story.live(hours, kills)
    end = story.now
    expected = set(slots(START, end))

    def done() -> bool:
        recorded = story.recorded()
        return expected <= recorded.keys() and None not in (recorded[slot] for slot in expected)

    story.catch_up(done)
    return judge(story, end)


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    with processes() as starter:
        yield starter


Figure = Callable[[str], None]


def report(figure: Figure, story: Story, verdict: Verdict, hours: float) -> None:
    figure(
        f"2 nodes × {SCHEDULES} schedules × {hours:g} simulated hours × {story.kills} kills -9:"
        f" {verdict.expected} slots, {len(verdict.missed)} missed, {len(verdict.twice)} run twice;"
        f" {verdict.lost} were being run by a node that was killed"
    )


@pytest.mark.early
def test_every_slot_is_run_exactly_once(
    postgres_url: str, tmp_path: Path, start: Callable[..., Process], figure: Figure
) -> None:
    story = Story(postgres_url, tmp_path, start, seed=1)
    verdict = told(story, hours=10, kills=14)
    report(figure, story, verdict, 10)
    assert verdict.clean, verdict
    assert verdict.expected > 4_000
    assert story.kills >= 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_every_slot_is_run_exactly_once_over_fifty_restarts(
    postgres_url: str, tmp_path: Path, start: Callable[..., Process], figure: Figure, seed: int
) -> None:
    story = Story(postgres_url, tmp_path, start, seed=seed)
    verdict = told(story, hours=72, kills=70)
    report(figure, story, verdict, 72)
    assert verdict.clean, verdict
    assert story.kills >= 50


# The same judge on fleets that are broken on purpose.


def test_without_its_guards_a_slot_is_run_twice(
    postgres_url: str, tmp_path: Path, start: Callable[..., Process]
) -> None:
    story = Story(postgres_url, tmp_path, start, seed=1, bug="guards")
    verdict = told(story, hours=1, kills=0)
    deadline = time.monotonic() + 60
    while not verdict.twice and time.monotonic() < deadline:  # until both look at one moment
        for _ in range(10):
            story.tick()
        verdict = judge(story, story.now)
    assert verdict.twice
    assert not verdict.clean


def test_with_another_policy_slots_are_missed(
    postgres_url: str,
    tmp_path: Path,
    start: Callable[..., Process],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.faults.test_schedule_slots.CATCH_UP_SECONDS", 2.0)
    story = Story(postgres_url, tmp_path, start, seed=1, policy="none")
    verdict = told(story, hours=2, kills=6)
    assert verdict.missed
    assert not verdict.twice
