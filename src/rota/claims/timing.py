"""The waiting times of the claim protocol, and the clocks it uses."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random, SystemRandom

from rota.model.clock import elapsed

HOURS = 3600.0


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds. `settle` is the longest time that a write stays invisible to readers of the
    tracker. If it is too short, two fleets may both believe that they hold an issue."""

    settle: float = 10.0
    settle_jitter: float = 2.0
    poll: float = 60.0  # how often the supervisor looks
    grace: float = 300.0  # a suspicion that stays unanswered for so long ends a claim
    margin: float = 20.0  # time to kill an agent's processes
    quiet: float = 4 * HOURS  # a claim of another fleet that is silent for so long is suspected

    def slower(self) -> "Times":
        """For when the tracker was seen to be slower than `settle` allows."""
        return replace(self, settle=self.settle * 2)

    @property
    def trust_in_a_poll(self) -> float:
        """How long the work may go on after a clean look: ending our claim takes at least `grace`
        from a suspicion that this look did not show."""
        return self.grace - self.settle - self.margin


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock, the sleep and the random numbers of the protocol; tests inject their own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    elapsed: Callable[[], float] = elapsed
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    random: Random = field(default_factory=SystemRandom)
