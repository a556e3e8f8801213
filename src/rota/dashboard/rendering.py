"""What all pages share: templates and their values."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jinja2 import Environment, PackageLoader, StrictUndefined

from rota import __version__
from rota.api import cookies
from rota.api.answers import Answer, Reply
from rota.api.call import Call
from rota.api.routing import Endpoint
from rota.dashboard import assets
from rota.dashboard.budgets import money
from rota.model.clock import from_text, to_text
from rota.model.status import Status
from rota.model.work import WorkItem
from rota.queue.reasons import in_one_line
from rota.queue.views import Query

HTML = b"text/html; charset=utf-8"
ZONE_COOKIE = "rota_zone"  # the viewer's time zone, set by the page's script
LONGEST_ZONE = 100
MOST_COUNTED = 10_000
LAST_EVENT = "rota.last_event"
NEEDS_A_PERSON = (Status.BLOCKED, Status.IN_REVIEW, Status.FAILED)
MENU = (
    ("board", "/", "Board"),
    ("overview", "/ui/overview", "Overview"),
    ("agents", "/ui/agents", "Agents"),
    ("schedules", "/ui/schedules", "Schedules"),
    ("runs", "/ui/runs", "Runs"),
    ("signals", "/ui/signals", "Signals"),
)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("rota.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"version": __version__, "menu": MENU, "asset": assets.address}
    made.filters |= {
        "span": span,
        "exact": exact,
        "pretty": pretty,
        "words": lambda text: str(text).replace("_", " "),
        "plural": plural,
        "money": money,
        "source_link": source_link,
        "in_one_line": in_one_line,
    }
    return made


def span(seconds: float) -> str:
    """A length of time in one unit: 40s, 3m, 2h, 5d."""
    whole = max(0, int(seconds))
    for size, unit in _UNITS:
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def exact(moment: str) -> str:
    """The form that a page without script shows."""
    return from_text(moment).strftime("%Y-%m-%d %H:%M:%S UTC")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 run`, `2 runs`, `1,000 tries`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def source_link(item: WorkItem) -> str | None:
    """Where the item came from, or where its result is. Only web addresses become links."""
    told = item.payload.get("url") if isinstance(item.payload, Mapping) and item.source else None
    for address in (told, item.artifact_url):
        if isinstance(address, str) and address.startswith(("https://", "http://")):
            return address
    return None


def pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def zone_of(call: Call) -> ZoneInfo:
    """The viewer's time zone if known, else UTC. A day begins at midnight there."""
    named = cookies.plain(call.headers, ZONE_COOKIE) or "UTC"
    try:
        return ZoneInfo(unquote(named[:LONGEST_ZONE]))
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return ZoneInfo("UTC")


def midnight(call: Call) -> datetime:
    """When the viewer's day began."""
    here = call.ledger.clock.now().astimezone(zone_of(call))
    return here.replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


async def shell(call: Call, here: str) -> dict[str, Any]:
    """What the frame of every page needs; `here` is the page's name in the menu."""
    return {
        "here": here,
        "last_event": call.scope[LAST_EVENT],
        "attention": await attention(call),
        "viewer": call.caller.name if call.caller.name != "anyone" else None,
        "zone": zone_of(call).key,
        **clock_values(call.ledger.clock.now()),
    }


async def attention(call: Call) -> int:
    """How many items need a person."""
    wanted = Query(statuses=NEEDS_A_PERSON)
    return sum((await call.ledger.views.tally(wanted, MOST_COUNTED)).values())


def clock_values(now: datetime) -> dict[str, Any]:
    """Values for the macros that show times."""
    return {
        "now": to_text(now),
        "ago": lambda moment: span((now - from_text(moment)).total_seconds()),
        "until": lambda moment: span((from_text(moment) - now).total_seconds()),
    }


def following(page: Endpoint) -> Endpoint:
    """Notes the last event before anything is read. Events in between are then sent to the page
    again, and none is missed."""

    async def run(call: Call, *arguments: Any) -> Reply:
        call.scope[LAST_EVENT] = await call.ledger.views.last_event()
        return await page.run(call, *arguments)

    return replace(page, run=run)


def render(template: str, values: Mapping[str, Any]) -> bytes:
    return environment().get_template(template).render(**values).encode()


async def page(call: Call, template: str, here: str, /, **values: Any) -> Answer:
    return Answer(200, render(template, await shell(call, here) | values), HTML)


def fragment(template: str, **values: Any) -> Answer:
    """A piece of a page, for its script."""
    return Answer(200, render(template, values), HTML)
