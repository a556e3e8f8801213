"""Items as a tool's answer shows them: short in lists, in full when one is read."""

from collections.abc import Mapping
from typing import Any

from rota.prompts import visible

Json = dict[str, Any]

LONGEST_TEXT = 20_000
_EVENTS_SHOWN = 10

_SHORT = (
    "id", "type", "description", "status", "priority", "assigned_agent", "labels", "project_id",
    "hold_reason", "open_blockers", "available_at", "outcome", "artifact_url", "source",
    "lease_expires_at",
)  # fmt: skip
_LONG = (
    *_SHORT, "body", "payload", "notes", "reason", "attempts", "max_attempts", "created_by",
    "created_at", "updated_at", "completed_at", "source_ref",
)  # fmt: skip
_EVENT = ("type", "occurred_at", "actor", "reason")
# Written by people we may not know, and read by a model: hidden characters are removed.
_PROSE = frozenset({"description", "body", "notes", "hold_reason"})


def short(item: Mapping[str, Any]) -> Json:
    return _facts(item, _SHORT)


def long(item: Mapping[str, Any]) -> Json:
    told = _facts(item, _LONG)
    links = item.get("links") or {}
    if any(links.values()):
        told["links"] = {
            name: [_facts(one, tuple(one)) for one in items]
            for name, items in links.items()
            if items
        }
    if item.get("events"):
        told["history"] = [_facts(one, _EVENT) for one in item["events"][-_EVENTS_SHOWN:]]
    if item.get("late_results"):
        told["late_results"] = [
            _facts(one["payload"], tuple(one["payload"])) for one in item["late_results"]
        ]
    return told


def _facts(record: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    """Empty fields are left out: they cost a model's attention and say nothing."""
    return {
        name: _shown(name, record[name])
        for name in names
        if record.get(name) not in (None, "", [], {}, 0)
    }


def _shown(name: str, value: Any) -> Any:
    return visible(value, LONGEST_TEXT) if name in _PROSE else value


def claim_of(item: Mapping[str, Any]) -> Json:
    claim = item["claim"]
    return {name: claim[name] for name in ("token", "epoch", "expires_at", "lease_seconds")}
