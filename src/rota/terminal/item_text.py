"""One item in full, as lines for a terminal."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from rota.cli.server_clock import theirs
from rota.cli.show import facts_of, ways_of
from rota.cli.text import lines, local_time, one_line, span, with_local_times

Json = dict[str, Any]

_ELSEWHERE = frozenset({"description", "payload", "body", "notes"})
_HEADING = "bold underline"


def whole(item: Json, explained: Json, runs: Sequence[Json], project: str | None) -> Text:
    """`project` is the name of the item's project."""
    text = Text(overflow="fold")
    for heading, body in _sections(item, explained, runs, project):
        if body:
            text.append(f"{heading}\n", _HEADING)
            text.append(f"{lines(body)}\n\n")
    return text


def _sections(
    item: Json, explained: Json, runs: Sequence[Json], project: str | None
) -> Iterator[tuple[str, str]]:
    links, payload = item["links"], item["payload"]
    yield "Current state", "\n".join(_explained(explained))
    yield "Body", item["body"] or ""
    yield "Notes", item["notes"] or ""
    yield "Waits for", "\n".join(map(_link, links["blocked_by"]))
    yield "Blocks", "\n".join(map(_link, links["blocks"]))
    yield "Follows", "\n".join(map(_link, links["follows"]))
    yield "Followed by", "\n".join(map(_link, links["followed_by"]))
    yield "Runs", "\n".join(map(_run, runs))
    yield "Timeline", "\n".join(map(_event, reversed(item["events"])))
    yield "Dispatches", "\n".join(map(_dispatch, reversed(item["dispatch_log"])))
    yield "Facts", "\n".join(_facts(item, project))
    yield "Payload", "" if payload is None else json.dumps(payload, indent=2, ensure_ascii=False)


def countdown(item: Json) -> str:
    """Who holds the claim, and when it lapses without a heartbeat."""
    claim = item["claim"]
    if claim is None:
        return ""
    left = (datetime.fromisoformat(claim["expires_at"]) - theirs.now()).total_seconds()
    ends = f"lapses in {clock(left)}" if left > 0 else "has lapsed"
    progress = f": {claim['progress']}" if claim["progress"] else ""
    return one_line(
        f"Claimed by {claim['agent']}; the lease of {span(claim['lease_seconds'])} {ends}{progress}"
    )


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _explained(explained: Json) -> Iterator[str]:
    for reason in explained["reasons"]:
        yield f"- {with_local_times(reason['message'])}"
        yield from ways_of(reason)


def _facts(item: Json, project: str | None) -> Iterator[str]:
    told = dict(facts_of(item)) | {"project": project}
    for name, value in told.items():
        if value and name not in _ELSEWHERE:
            yield f"{name:<10} {one_line(value)}"


def _link(link: Json) -> str:
    return one_line(f"{link['status']}: {link['description']} ({link['id']})")


def _event(event: Json) -> str:
    said = event["payload"] or {}
    words = [
        local_time(event["occurred_at"])[:19],
        event["type"].removeprefix("work."),
        f"by {event['actor']}" if event["actor"] else "",
        f"({event['reason']})" if event["reason"] else "",
    ]
    notes = f": {said['notes']}" if said.get("notes") else ""
    return one_line(" ".join(filter(None, words)) + notes)


def _run(run: Json) -> str:
    took = f" after {span(run['seconds'])}" if run["seconds"] is not None else ""
    cost = f", {run['cost_usd']:.2f} USD" if run["cost_usd"] is not None else ""
    said = run["error"] or run["summary"] or ""
    head = f"{local_time(run['started_at'])} {run['agent']} {run['status']}{took}{cost}"
    return one_line(head) + (f"\n  {one_line(said)}" if said else "")


def _dispatch(one: Json) -> str:
    return one_line(f"{local_time(one['dispatched_at'])} {one['agent']} {one['outcome'] or 'open'}")
