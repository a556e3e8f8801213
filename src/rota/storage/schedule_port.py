"""What may be asked of a database about nodes, schedules and triggers."""

from typing import Protocol


class ScheduleVerbs(Protocol):
    """Part of `Transaction`."""
