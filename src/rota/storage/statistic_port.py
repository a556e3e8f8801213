"""What may be asked of a database about the past: counts and times within a stretch of it.

Each of these reads one index from the stretch's beginning to its end, or stops at a limit; none
reads what lies elsewhere. The end is not part of a stretch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.runs import Spent
from rota.model.statistics import Bucket
from rota.model.status import Status
from rota.model.vitals import PostFigures, RunFigures


@dataclass(frozen=True, slots=True)
class Ended:
    """An item that has ended."""

    id: str
    created_at: str
    completed_at: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """An item came into a status."""

    item_id: str
    status: Status
    at: str


class StatisticVerbs(Protocol):
    """Part of `Transaction`."""

    def count_open(self) -> dict[Status, int]:
        """Items that have not ended, by the status they are in now."""

    def count_created(self, within: Bucket) -> int:
        """Items, by the time that their ids tell."""

    def count_ended(self, status: Status, within: Bucket) -> int: ...
    def last_ended(self, status: Status, within: Bucket, limit: int) -> list[Ended]:
        """The last ones, the latest first."""

    def arrivals(self, items: Sequence[str]) -> list[Arrival]:
        """Every status that these items came into: item by item, in the order it happened."""

    def failure_reasons(
        self, within: Bucket, limit: int
    ) -> list[tuple[str | None, str | None, int]]:
        """Of the items that failed last, so many at most: their reasons, what was noted where the
        reason is none but that it failed, and how often each."""

    def runs_by_agent(self, since: str) -> list[RunFigures]:
        """Of runs that began since then."""

    def count_open_runs(self) -> dict[str, int]:
        """How many runs of each agent have not ended."""

    def earliest_schedule(self) -> str | None:
        """When the first of all schedules wakes, or should have."""

    def post_figures(self) -> list[PostFigures]:
        """Of each kind that waits or was given up."""

    def spent_by_status(self, within: Bucket) -> dict[str, Spent]:
        """By runs that began then."""
