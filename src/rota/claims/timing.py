"""How long the claim protocol waits, and by which clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random, SystemRandom

HOURS = 3600.0


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds. `settle` is the longest a write stays invisible to readers of the tracker; if it
    is set too short two fleets may both believe they hold an issue, so it is generous."""

    settle: float = 10.0
    settle_jitter: float = 2.0
    poll: float = 60.0  # the supervisor looks this often
    grace: float = 300.0  # a suspicion unanswered for so long ends a claim
    margin: float = 20.0  # for killing an agent's processes
    quiet: float = 4 * HOURS  # a foreign claim silent for so long is suspected

    def slower(self) -> "Times":
        """After the tracker was seen to be later than `settle` allows."""
        return replace(self, settle=self.settle * 2)

    @property
    def trust_in_a_poll(self) -> float:
        """How long after a clean look the work may go on unseen: whoever would end our claim
        needs `grace` from a suspicion that this look did not show."""
        return self.grace - self.settle - self.margin


def _awake() -> float:
    """Runs on while the machine sleeps: a laptop that was closed has lost its claim."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Pace:
    """Time and chance, as the protocol uses them; a test injects its own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    elapsed: Callable[[], float] = _awake
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    random: Random = field(default_factory=SystemRandom)
