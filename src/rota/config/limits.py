"""Limits of an agent: at once, in retries, and in a day."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from rota.config.scalars import Amount, Count, Span, Zone
from rota.config.sources import Section
from rota.config.variables import Lax


class Instances(Section):
    """How many runs of an agent go on at once."""

    max_concurrent: Annotated[int, Field(ge=1, le=1000), Lax] = Field(
        1,
        description="Slots: the largest number of items that the agent works on at once. A schedule"
        " does not overlap itself, so three slots need three schedules.",
    )


class RetryConfig(Section):
    """What happens to an item whose run failed."""

    max_attempts: Annotated[int, Field(ge=1, le=1000), Lax] = Field(
        3, description="Attempts. After the last of them the item has failed."
    )
    backoff: Span = Field(
        timedelta(minutes=1),
        description="The pause before the second attempt, for example `1m`. It is doubled at each"
        " further attempt.",
    )
    max_backoff: Span = Field(
        timedelta(hours=1), description="The longest pause between two attempts, for example `1h`."
    )


class RunLimits(Section):
    """Limits of one run."""

    wall_time: Span | None = Field(
        None, description="Time by the clock, for example `2h`. Default: no limit."
    )
    tokens: Count | None = Field(
        None,
        description="Tokens read and written, as far as the program reports them. Default: no"
        " limit.",
    )
    usd: Amount | None = Field(
        None, description="US dollars, as far as the program reports them. Default: no limit."
    )


class DayLimits(RunLimits):
    """Limits of all runs of one day together."""

    runs: Count | None = Field(None, description="The number of runs in a day. Default: no limit.")


class BudgetConfig(Section):
    """What runs may spend."""

    per_run: RunLimits = Field(
        RunLimits(), description="Limits of one run. A run that goes beyond them is ended."
    )
    per_day: DayLimits = Field(
        DayLimits(),
        description="Limits of a day. When one is used up, no run is started until the next day.",
    )
    timezone: Zone = Field(
        "UTC", description="The time zone in which the day begins, for example `Europe/Berlin`."
    )


class BreakerConfig(Section):
    """When an agent that keeps failing is not woken for a while."""

    failures: Annotated[int, Field(ge=0, le=1000), Lax] = Field(
        5,
        description="After this number of failed runs in a row the agent is not woken. `0`: the"
        " breaker is off.",
    )
    cooldown: Span = Field(
        timedelta(minutes=30),
        description="How long the agent is then not woken, for example `30m`.",
    )
