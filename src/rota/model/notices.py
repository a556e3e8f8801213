"""What people want to hear of, and what waits to be told to them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Happening(StrEnum):
    BLOCKED = "blocked"
    FAILED = "failed"
    IN_REVIEW = "in_review"
    STALE = "stale"  # a lease lapsed, or work was quiet for too long
    BUDGET = "budget"  # of the day, used up
    BREAKER_OPEN = "breaker_open"
    USAGE_LIMIT = "usage_limit"
    SIGNAL_FIRED = "signal_fired"


@dataclass(frozen=True, slots=True)
class WaitingNotice:
    """One that is told later, together with the others of its bundle."""

    id: str
    channel: str
    bundle: str
    event_seq: int
    content: dict[str, Any]
    created_at: str
    due_at: str
