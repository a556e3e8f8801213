"""The labels of a tracked issue: they show people what the claim log says."""

from collections.abc import Iterable
from dataclasses import dataclass

# Name, colour and meaning, in the order of an issue's life.
LIFECYCLE_LABELS: list[tuple[str, str, str]] = [
    ("agent:implement", "0e8a16", "Eligible for autonomous pickup"),
    ("agent:in-flight", "fbca04", "An agent is actively working it"),
    ("agent:pr-open", "1d76db", "A PR exists for this issue"),
    ("agent:done", "6f42c1", "Closed and shipped"),
]

DO_NOT_PICKUP = "do-not-pickup"
NEEDS_SCOPE = "needs:human-scope"
MANAGED = "agent:managed"


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The label names of a fleet; the defaults are those of `label-state`.

    Lifecycle labels exclude each other. Where a person left several, the one latest in the issue's
    life counts: done, pr-open, in-flight, failed, ready.
    """

    ready: str = "agent:implement"
    in_flight: str = "agent:in-flight"
    pr_open: str = "agent:pr-open"
    done: str = "agent:done"
    failed: str = "agent:failed"
    managed: str = MANAGED
    hold: str = DO_NOT_PICKUP
    excluded: tuple[str, ...] = (NEEDS_SCOPE,)  # labels that keep agents away, as `hold` does

    @property
    def lifecycle(self) -> tuple[str, ...]:
        """By precedence, highest first."""
        return (self.done, self.pr_open, self.in_flight, self.failed, self.ready)

    def holds(self, labels: Iterable[str]) -> list[str]:
        """The labels among these that keep agents away, whatever else the issue carries."""
        keep_away = {self.hold.lower(), *(name.lower() for name in self.excluded)}
        return [label for label in labels if label.lower() in keep_away]
