"""What was done in the last day, week or month, for people and for pipes."""

import os
import sys
from datetime import datetime
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from rota.cli.output import Column, Json, column
from rota.cli.session import command
from rota.cli.text import span
from rota.model.errors import InvalidInput
from rota.model.statistics import Window, read_zone

if TYPE_CHECKING:
    from rota.cli.session import Session

_ZONES = "/zoneinfo/"


def _here() -> str:
    """The time zone of this machine, if it has a name."""
    link = str(Path("/etc/localtime").resolve())
    named = os.environ.get("TZ", "").removeprefix(":") or link.partition(_ZONES)[2]
    try:
        return str(read_zone(named or "UTC"))
    except InvalidInput:
        return "UTC"


def _lead(one: Json, share: str) -> str:
    seconds = one["lead_time"][share]
    return "" if seconds is None else span(seconds)


def _columns(zone: ZoneInfo, form: str) -> list[Column]:
    def begins(one: Json) -> str:
        return datetime.fromisoformat(one["begins"]).astimezone(zone).strftime(form)

    return [
        Column("from", lambda one: one["begins"], begins),
        column("created"),
        column("completed"),
        column("failed"),
        column("cancelled"),
        column("open"),
        Column("p50", lambda one: one["lead_time"]["p50"], lambda one: _lead(one, "p50")),
        Column("p90", lambda one: one["lead_time"]["p90"], lambda one: _lead(one, "p90")),
        Column("runs", lambda one: one["spent"]["runs"]),
        Column("tokens", lambda one: one["spent"]["tokens"], spare=1),
        Column(
            "usd",
            lambda one: one["spent"]["cost_usd"],
            lambda one: f"{one['spent']['cost_usd']:.2f}",
        ),
    ]


@command("stats", example="rota stats --window 7d")
@click.option(
    "--window",
    type=click.Choice([str(one) for one in Window]),
    default=str(Window.DAY),
    show_default=True,
    help="How far back: a day by the hour, a week or a month by the day.",
)
@click.option(
    "--zone", help="Time zone of the days, such as Europe/Berlin.  [default: this machine's]"
)
def stats(session: "Session", /, window: str, zone: str | None) -> None:
    """Show what was done, how long it took and its cost.

    p50 and p90 are the times from creation to completion below which half and nine tenths of the
    items stayed. On a terminal the table begins with the first period in which there was anything.
    In a pipe the columns are beginning, items created, completed, failed, cancelled, open at the
    end, p50 and p90 in seconds, runs, tokens and USD.
    """
    found = session.client.statistics(window, zone=zone or _here())
    if session.as_json:
        session.output.document(found)
        return
    periods = found["periods"]
    if sys.stdout.isatty():
        session.output.facts(found, _facts(found))
        print()
        periods = list(dropwhile(_is_empty, periods))
    form = "%a %H:%M" if window == Window.DAY else "%a %d %b"
    session.output.table(periods, _columns(read_zone(found["zone"]), form))


def _is_empty(period: Json) -> bool:
    """Before the ledger began, for example."""
    counts = (period[name] for name in ("created", "completed", "failed", "cancelled", "open"))
    return not any((*counts, period["spent"]["runs"]))


def _facts(found: dict[str, Any]) -> list[tuple[str, object]]:
    spent = found["spent"]
    return [
        ("window", f"{found['window']}, {found['zone']}"),
        ("open", str(found["open"])),
        ("created", str(found["created"])),
        ("completed", str(found["completed"])),
        ("failed", str(found["failed"])),
        ("cancelled", str(found["cancelled"])),
        ("lead time", _between(found["lead_time"])),
        ("runs", ", ".join(f"{one['runs']} {one['status']}" for one in found["runs"])),
        ("spent", f"{spent['tokens']} tokens, {spent['cost_usd']:.2f} USD"),
        *(
            (f"time {one['status'].replace('_', ' ')}", _between(one["time"]))
            for one in found["time_in_status"]
        ),
        ("failures", "\n".join(f"{one['items']} × {one['reason']}" for one in found["failures"])),
    ]


def _between(spread: Json) -> str:
    if spread["p50"] is None:
        return ""
    return f"half within {span(spread['p50'])}, nine tenths within {span(spread['p90'])}"
