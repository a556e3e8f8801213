"""One item in full, and why nobody works on it."""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rota.cli import item_ids
from rota.cli.columns import event_line
from rota.cli.session import command
from rota.cli.signal_specs import in_words
from rota.cli.text import local_time, one_line, with_local_times
from rota.model.work import Priority

if TYPE_CHECKING:
    from rota.cli.session import Session

_EVENTS_SHOWN = 10
_SIGNALS_SHOWN = 50


@command("show", example="rota show 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@item_ids.item
def show(session: "Session", /, item: str) -> None:
    """Show one item with its history.

    Prints fields, claim, links, signals, follow-ups, dispatches, late results and latest events.
    """
    client = session.client
    detail = client.work_get(item)
    detail["signals"] = client.list_signals(work_item_id=detail["id"], limit=_SIGNALS_SHOWN)
    session.output.facts(detail, [*facts_of(detail), *_history(detail)])


def facts_of(item: dict[str, Any]) -> list[tuple[str, object]]:
    priority = f"{item['priority']} {Priority(item['priority']).name.lower()}"
    status = f"{item['status']} ({item['reason']})" if item["reason"] else item["status"]
    return [
        ("id", item["id"]),
        ("description", one_line(item["description"])),
        ("status", one_line(status)),
        ("type", one_line(item["type"])),
        ("priority", priority),
        ("agent", one_line(item["assigned_agent"] or "")),
        ("project", item["project_id"]),
        ("labels", one_line(", ".join(item["labels"]))),
        ("held", one_line(item["hold_reason"] or "")),
        ("available", local_time(item["available_at"])),
        ("attempts", f"{item['attempts']} of {item['max_attempts']}"),
        ("outcome", item["outcome"]),
        ("result", one_line(item["artifact_url"] or "")),
        ("source", one_line(" ".join(filter(None, (item["source"], item["source_ref"]))))),
        ("created", f"{local_time(item['created_at'])} {_by(item)}"),
        ("updated", local_time(item["updated_at"])),
        (
            "completed" if item["status"] == "completed" else "ended",
            local_time(item["completed_at"]),
        ),
        ("payload", json.dumps(item["payload"]) if item["payload"] is not None else ""),
        ("body", item["body"]),
        ("notes", item["notes"]),
    ]


def _by(item: dict[str, Any]) -> str:
    return f"by {one_line(item['created_by'])}" if item["created_by"] else ""


def _link(one: dict[str, Any]) -> str:
    return one_line(f"{one['id']} {one['status']}: {one['description']}")


def _history(detail: dict[str, Any]) -> list[tuple[str, object]]:
    links, claim = detail["links"], detail["claim"]
    return [
        ("claim", _claim(claim) if claim else ""),
        ("waits for", "\n".join(map(_link, links["blocked_by"]))),
        ("blocks", "\n".join(one_line(one["id"]) for one in links["blocks"])),
        ("follows", "\n".join(map(_link, links["follows"]))),
        ("followed by", "\n".join(map(_link, links["followed_by"]))),
        ("signals", "\n".join(map(_signal, detail["signals"]))),
        ("follow-ups", "\n".join(map(_follow_up, detail["follow_ups"]))),
        ("dispatches", "\n".join(map(_dispatch, detail["dispatch_log"]))),
        ("late results", "\n".join(map(event_line, detail["late_results"]))),
        ("events", "\n".join(map(event_line, detail["events"][-_EVENTS_SHOWN:]))),
    ]


def _claim(claim: dict[str, Any]) -> str:
    progress = f": {claim['progress']}" if claim["progress"] else ""
    return one_line(f"{claim['agent']}, lease until {local_time(claim['expires_at'])}{progress}")


def _signal(one: dict[str, Any]) -> str:
    return one_line(f"{one['id']} {one['status']}: {in_words(one['trigger'])}")


def _follow_up(one: dict[str, Any]) -> str:
    return one_line(f"{one['id']} {one['status']}: {one['title']}")


def _dispatch(one: dict[str, Any]) -> str:
    return one_line(f"{local_time(one['dispatched_at'])} {one['agent']} {one['outcome'] or ''}")


@command("explain", example="rota explain 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@item_ids.item
def explain(session: "Session", /, item: str) -> None:
    """Explain why nobody works on an item.

    Also prints what would change that.
    """
    told = session.client.explain(item)
    if session.as_json:
        session.output.document(told)
        return
    print(one_line(f"{told['id']} is {told['status']}"))
    shown = with_local_times if sys.stdout.isatty() else one_line
    for reason in told["reasons"]:
        print(f"- {shown(reason['message'])}")
        print("".join(f"{line}\n" for line in ways_of(reason)), end="")


def ways_of(reason: dict[str, Any]) -> Iterator[str]:
    """A command has a line of its own, which can be pasted."""
    for way in reason["ways"]:
        words, command = way["words"], way["command"]
        if words:
            yield f"  {one_line(words)}{':' if command else ''}"
        if command:
            yield f"{'    ' if words else '  '}{one_line(command)}"
