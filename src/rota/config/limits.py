"""Limits of an agent: at once, in retries, and in a day."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from rota.config.scalars import Amount, Count, Lax, Span, Zone
from rota.config.sources import Section


class Instances(Section):
    max_concurrent: Annotated[int, Lax] = Field(1, ge=1, le=1000)


class RetryConfig(Section):
    """What becomes of an item whose run failed."""

    max_attempts: Annotated[int, Lax] = Field(3, ge=1, le=1000)
    backoff: Span = timedelta(minutes=1)
    max_backoff: Span = timedelta(hours=1)


class RunLimits(Section):
    wall_time: Span | None = None
    tokens: Count | None = None
    usd: Amount | None = None


class DayLimits(RunLimits):
    runs: Count | None = None


class BudgetConfig(Section):
    """How much may be spent."""

    per_run: RunLimits = RunLimits()
    per_day: DayLimits = DayLimits()
    timezone: Zone = "UTC"


class BreakerConfig(Section):
    """When an agent is left alone for a while."""

    failures: Annotated[int, Lax] = Field(5, ge=0, le=1000)
    cooldown: Span = timedelta(minutes=30)
