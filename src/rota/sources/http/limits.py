"""Rate limits of a tracker, the waits it asks for, and our own backoff.

GitHub has two kinds of limits. The primary one is counted in `X-RateLimit-*`. The secondary one
sends `Retry-After`, or only says that it exists. We obey a wait that is asked for; if it is longer
than `RetryOptions.max_delay`, it is reported instead of slept.
"""

import logging
import random
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from rota.sources.http.answers import Answer

log = logging.getLogger("rota.sources")

# GitHub's advice for a secondary limit that names no time.
SECONDARY_WAIT = 60.0
# Waits end on whole seconds of the tracker's clock.
BUFFER = 1.0

_NUMBER = re.compile(r"\s*(\d{1,15})")
_LAST_MOMENT = 253_402_300_799  # the end of the year 9999, the last datetime


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Times in seconds. `max_retries` come after the first try."""

    max_retries: int = 3
    base_delay: float = 1.0
    max_delay: float = 30.0
    jitter_factor: float = 0.1


@dataclass(frozen=True, slots=True)
class RateLimitWarningOptions:
    threshold: int = 100  # warn when fewer requests than this are left


@dataclass(frozen=True, slots=True)
class RateLimitInfo:
    limit: int
    remaining: int
    reset: int  # seconds since 1970
    resource: str = "core"

    @property
    def resets_at(self) -> datetime:
        return datetime.fromtimestamp(self.reset, UTC)


def extract_rate_limit_info(headers: Mapping[str, str]) -> RateLimitInfo | None:
    """None unless limit, remaining and reset are all present."""
    told = {name.lower(): value for name, value in headers.items()}
    limit, remaining, reset = (
        _number(told.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset")
    )
    if limit is None or remaining is None or reset is None or reset > _LAST_MOMENT:
        return None
    return RateLimitInfo(limit, remaining, reset, told.get("x-ratelimit-resource") or "core")


def is_rate_limit_response(status: int, headers: Mapping[str, str]) -> bool:
    """Whether the primary limit is used up. For the secondary limit see `is_limited`."""
    told = {name.lower(): value for name, value in headers.items()}
    used_up = _number(told.get("x-ratelimit-remaining")) == 0
    return status == 429 or (status == 403 and used_up)


def is_limited(answer: Answer) -> bool:
    """A limit of either kind: the request was certainly not carried out."""
    if is_rate_limit_response(answer.status, answer.headers):
        return True
    return answer.status == 403 and ("retry-after" in answer.headers or _secondary(answer))


def wait_asked(answer: Answer, now: datetime) -> float | None:
    """Seconds until we may ask again, if the answer says so."""
    if (seconds := _retry_after(answer.headers.get("retry-after"), now)) is not None:
        return seconds
    if not is_limited(answer):
        return None
    info = extract_rate_limit_info(answer.headers)
    if info is not None and info.remaining == 0:
        return max(0.0, (info.resets_at - now).total_seconds())
    return SECONDARY_WAIT if _secondary(answer) else None


def calculate_backoff_delay(
    attempt: int,
    options: RetryOptions = RetryOptions(),  # noqa: B008 - frozen
    rate_limit_reset: float | None = None,
    *,
    rng: random.Random | None = None,
) -> float:
    """Seconds to wait after try number `attempt` (from 0) failed.

    Until the limit is reset (in `rate_limit_reset` seconds) and a little longer; otherwise the wait
    doubles each time. The cap applies last: jitter does not lift a wait over `max_delay`.
    """
    if rate_limit_reset:
        return min(rate_limit_reset + BUFFER, options.max_delay)
    chance = (rng or random).random()
    delay = options.base_delay * 2.0 ** min(attempt, 60)
    return min(delay * (1 + options.jitter_factor * chance), options.max_delay)


class LimitWatch:
    """Warns when few requests are left: once, until enough are left again."""

    def __init__(
        self,
        options: RateLimitWarningOptions,
        on_warning: Callable[[RateLimitInfo], None] | None,
    ) -> None:
        self._threshold = options.threshold
        self._on_warning = on_warning
        self._low: set[str] = set()

    def see(self, info: RateLimitInfo | None) -> None:
        if info is None:
            return
        if info.remaining >= self._threshold:
            self._low.discard(info.resource)
        elif info.resource not in self._low:
            self._low.add(info.resource)
            self._warn(info)

    def _warn(self, info: RateLimitInfo) -> None:
        if self._on_warning is None:
            return
        try:
            self._on_warning(info)
        except Exception:  # the current answer may confirm a comment: it must not be lost
            log.exception("the callback for rate limit warnings failed")


def _number(text: str | None) -> int | None:
    found = _NUMBER.match(text or "")
    return int(found[1]) if found else None


def _retry_after(text: str | None, now: datetime) -> float | None:
    """In seconds, from either form of the header."""
    if text is None:
        return None
    if (seconds := _number(text)) is not None:
        return float(seconds)
    with suppress(ValueError, OverflowError):
        return max(0.0, (parsedate_to_datetime(text).astimezone(UTC) - now).total_seconds())
    return None


def _secondary(answer: Answer) -> bool:
    said = answer.said.lower()
    return "secondary rate limit" in said or "abuse detection" in said
