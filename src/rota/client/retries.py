"""When to send a request again, and how long to wait before.

A request may be repeated when that does no harm: reads, requests with an Idempotency-Key, and verbs
of a claim's holder, which the server recognises by their token. The result of any other write
without an answer is *unknown*, not failed, and is left to the caller.
"""

import random
from dataclasses import dataclass

from rota.client.errors import PASSING, ConnectionFailed
from rota.model.errors import RotaError

LONGEST_RETRY_AFTER = 30.0


@dataclass(frozen=True, slots=True)
class Retries:
    attempts: int = 4  # in all
    base_seconds: float = 0.1
    cap_seconds: float = 2.0

    def pause(self, attempt: int, error: RotaError | None = None) -> float:
        """Seconds before attempt number `attempt + 1`, at least as many as the server asks for."""
        ceiling = min(self.cap_seconds, self.base_seconds * 2 ** min(attempt, 30))
        return random.uniform(ceiling / 2, ceiling) + _asked_for(error)

    def again(self, attempt: int, error: RotaError, repeatable: bool) -> bool:
        if attempt >= self.attempts or not isinstance(error, PASSING):
            return False
        if error.details.get("code") == "too_many_failures":
            return False  # a wrong token does not become right while a person waits
        never_sent = isinstance(error, ConnectionFailed) and not error.sent
        return repeatable or never_sent


NO_RETRIES = Retries(attempts=1)


def _asked_for(error: RotaError | None) -> float:
    """`Retry-After` in seconds. Its other form, a date, is ignored because clocks may differ."""
    try:
        asked = float((error.details if error else {}).get("retry_after", 0))
    except (TypeError, ValueError):
        return 0.0
    return max(0.0, min(asked, LONGEST_RETRY_AFTER))
