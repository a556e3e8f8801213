"""What people may be notified of, and notices that wait to be sent."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NOTIFICATION = "notification"  # the kind of letters to a channel, which is their subject


class Happening(StrEnum):
    BLOCKED = "blocked"
    FAILED = "failed"
    IN_REVIEW = "in_review"
    STALE = "stale"  # a lease lapsed, or an item was not updated for too long
    BUDGET = "budget"  # the budget of the day is used up
    BREAKER_OPEN = "breaker_open"
    USAGE_LIMIT = "usage_limit"
    SIGNAL_FIRED = "signal_fired"


@dataclass(frozen=True, slots=True)
class WaitingNotice:
    """A notice that is sent later, together with the others of its bundle."""

    id: str
    channel: str
    bundle: str
    event_seq: int
    content: dict[str, Any]
    created_at: str
    due_at: str
