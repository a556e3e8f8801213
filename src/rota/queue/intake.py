"""Checks on new items and on edits, before anything is written."""

import json
from typing import Any
from urllib.parse import urlsplit

from rota.model.clock import parse_time, to_text
from rota.model.errors import InvalidInput
from rota.model.work import (
    MAX_BLOCKERS,
    MAX_LABELS,
    MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_DEPTH,
    NewItem,
    check_name,
    check_text,
)

LONGEST = {
    "type": 100,
    "description": 10_000,
    "body": 500_000,
    "notes": 100_000,
    "created_by": 200,
    "label": 100,
    "reason": 500,
    "progress": 500,
    "name": 200,
    "external_ref": 500,
    "source": 300,
    "source_ref": 300,
    "artifact_url": 2_000,
    "hold_reason": 500,
}


def checked(item: NewItem) -> NewItem:
    """The item as it will be stored; raises `InvalidInput` and names the field."""
    check_text(item.type, "type", LONGEST["type"])
    check_text(item.description, "description", LONGEST["description"])
    check_optional(item.body, "body")
    check_optional(item.created_by, "created_by")
    check_optional(item.source, "source")
    check_optional(item.source_ref, "source_ref")
    if (item.source is None) != (item.source_ref is None):
        raise InvalidInput("source and source_ref go together", field="source_ref")
    if item.assigned_agent is not None:
        check_name(item.assigned_agent, "assigned_agent")
    check_priority(item.priority)
    check_attempts(item.max_attempts)
    check_payload(item.payload)
    if not (item.labels or item.blocked_by or item.available_at is not None):
        return item
    return item._replace(
        labels=check_labels(item.labels),
        blocked_by=check_blockers(item.blocked_by),
        available_at=check_moment(item.available_at, "available_at"),
    )


def in_batch(error: InvalidInput, index: int) -> InvalidInput:
    """The error of one entry of a batch; it says which one."""
    place = f"[{index}]."
    return InvalidInput(f"{place}{error.message}", field=f"{place}{error.details['field']}")


def check_optional(value: str | None, field: str) -> str | None:
    return value if value is None else check_text(value, field, LONGEST[field], empty=True)


def check_priority(value: int) -> int:
    if not 1 <= value <= 5:
        raise InvalidInput(
            f"priority: {value} is out of range; 1 is the highest, 5 the lowest", field="priority"
        )
    return value


def check_attempts(value: int) -> int:
    if not 1 <= value <= 1_000:
        raise InvalidInput(
            f"max_attempts: {value} is out of range; use 1 to 1000", field="max_attempts"
        )
    return value


def check_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    if not labels:
        return labels
    if len(labels) > MAX_LABELS:
        raise InvalidInput(f"labels: at most {MAX_LABELS} are allowed", field="labels")
    return tuple(dict.fromkeys(check_text(one, "label", LONGEST["label"]) for one in labels))


def check_blockers(ids: tuple[str, ...]) -> tuple[str, ...]:
    if len(ids) > MAX_BLOCKERS:
        raise InvalidInput(f"blocked_by: at most {MAX_BLOCKERS} are allowed", field="blocked_by")
    return tuple(dict.fromkeys(check_text(one, "blocked_by", 100) for one in ids))


def check_moment(text: str | None, field: str) -> str | None:
    return None if text is None else to_text(parse_time(text, field))


def check_url(url: str, field: str = "artifact_url") -> str:
    check_text(url, field, LONGEST["artifact_url"])
    try:
        parts = urlsplit(url)
        # `urlsplit` drops line ends and tabs, so they are looked for in the whole text.
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()
        # No client could connect there. Reading `port` raises ValueError if it is out of range.
        fine = fine and parts.port != 0 and " " not in url
    except ValueError:
        fine = False
    if not fine:
        raise InvalidInput(f"{field}: {url[:80]!r} is not an http or https address", field=field)
    return url


def check_payload(payload: Any) -> Any:
    """Payloads come back byte for byte as JSON, so a value that JSON cannot express is refused."""
    if payload is None:
        return None
    if _depth(payload) > MAX_PAYLOAD_DEPTH:
        raise InvalidInput(
            f"payload is nested deeper than {MAX_PAYLOAD_DEPTH} levels", field="payload"
        )
    try:
        size = len(json.dumps(payload, ensure_ascii=False, allow_nan=False).encode())
    except UnicodeEncodeError:
        raise InvalidInput("payload contains half a surrogate pair", field="payload") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"payload is not JSON: {error}", field="payload") from None
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"payload has {size} bytes as JSON; at most {MAX_PAYLOAD_BYTES} are allowed; store"
            " large data elsewhere and put its address here",
            field="payload",
        )
    return payload


def _depth(value: Any) -> int:
    """Without recursion, so that a hostile depth cannot exhaust the stack."""
    deepest, level = 0, [value]
    while level and deepest <= MAX_PAYLOAD_DEPTH:
        deepest += 1
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list | tuple):
                inner.extend(one)
        level = inner
    return deepest
