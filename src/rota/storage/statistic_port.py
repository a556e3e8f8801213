"""What may be asked of a database about the past: counts and times within a period.

Each verb reads an index from the beginning of the period to its end, or stops at a limit; none
reads anything outside. The end is not part of a period.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.runs import Spent
from rota.model.statistics import Bucket
from rota.model.status import Status
from rota.model.vitals import PostFigures


@dataclass(frozen=True, slots=True)
class Ended:
    """An item that has ended."""

    id: str
    created_at: str
    completed_at: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """An item entered a status."""

    item_id: str
    status: Status
    at: str


class StatisticVerbs(Protocol):
    """Part of `Transaction`."""

    def count_open(self) -> dict[Status, int]:
        """Items that have not ended, by the status they are in now."""

    def count_created(self, within: Bucket) -> int:
        """Items created then, by the time in their ids."""

    def count_ended(self, status: Status, within: Bucket) -> int: ...
    def last_ended(self, status: Status, within: Bucket, limit: int) -> list[Ended]:
        """The items that ended last, latest first."""

    def arrivals(self, items: Sequence[str]) -> list[Arrival]:
        """Every status that these items entered: item by item, in order of time."""

    def failure_reasons(
        self, within: Bucket, limit: int
    ) -> list[tuple[str | None, str | None, int]]:
        """Of the items that failed last, at most `limit`: each reason, the notes where the reason
        says only that the item failed, and how often both occurred."""

    def count_open_runs(self) -> dict[str, int]:
        """The number of open runs by agent."""

    def earliest_schedule(self) -> str | None:
        """When the first of all schedules wakes, or should have woken."""

    def post_figures(self) -> list[PostFigures]:
        """For each kind of outbox entry that waits or was given up."""

    def spent_by_status(self, within: Bucket) -> dict[str, Spent]:
        """Of runs that started then."""
