"""The labels of a tracked issue: they show people what the claim log says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
    # The sets of agents, by name, where not all agents of a repository have the same.
    of_agents: tuple[tuple[str, "LabelSet"], ...] = ()

    @property
    def lifecycle(self) -> tuple[str, ...]:
        """By precedence, highest first."""
        return (self.done, self.pr_open, self.in_flight, self.failed, self.ready)

    @property
    def sets(self) -> tuple["LabelSet", ...]:
        """All sets of the repository, this one first."""
        return (replace(self, of_agents=()), *(one for _, one in self.of_agents))

    @property
    def all_ready(self) -> tuple[str, ...]:
        return _once(one.ready for one in self.sets)

    @property
    def all_lifecycle(self) -> tuple[str, ...]:
        return _once(name for one in self.sets for name in one.lifecycle)

    def has_stage(self, carried: Iterable[str]) -> bool:
        """Whether one of these is a lifecycle label."""
        stages = {name.lower() for name in self.all_lifecycle}
        return any(label.lower() in stages for label in carried)

    def of(
        self, carried: Iterable[str], *, holder: str | None = None, last: str | None = None
    ) -> "LabelSet":
        """The set by which an issue with these labels is worked: that of the agent that holds it.
        If none does, a ready label says whom it is for, and without one it is still for the agent
        that had it last. Claimants without a set of their own use the one that the labels are
        from."""
        if not self.of_agents:
            return self
        labels = {label.lower() for label in carried}
        return (
            self._of_agent(holder, labels)
            or _carried(self.sets, labels, "ready")
            or self._of_agent(last, labels)
            or _carried(self.sets, labels, "in_flight", "pr_open", "failed", "done")
            or self.sets[0]
        )

    def _of_agent(self, name: str | None, labels: set[str]) -> "LabelSet | None":
        """An agent may have several, by its schedules."""
        own = [one for agent, one in self.of_agents if agent == name]
        return _carried(own, labels, "in_flight", "ready") or next(iter(own), None)

    def holds(self, labels: Iterable[str]) -> list[str]:
        """The labels among these that keep agents away, whatever else the issue carries."""
        keep_away = {self.hold.lower(), *(name.lower() for name in self.excluded)}
        return [label for label in labels if label.lower() in keep_away]


def _once(names: Iterable[str]) -> tuple[str, ...]:
    """Names that differ in case are the same label."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.lower(), name)
    return tuple(found.values())


def _carried(sets: Sequence[LabelSet], labels: set[str], *stages: str) -> LabelSet | None:
    for stage in stages:
        for one in sets:
            if getattr(one, stage).lower() in labels:
                return one
    return None
