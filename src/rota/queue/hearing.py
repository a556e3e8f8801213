"""Shortens the payload of a tracker's webhook to an event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.model.events import EventType, NewEvent
from rota.model.work import storable
from rota.storage.port import Transaction

DEEPEST = 5
MOST_ENTRIES = 50
LONGEST_TEXT = 300


@dataclass(frozen=True, slots=True)
class Heard:
    """A delivery with a valid signature."""

    source: str  # "github:owner/repo"
    event: str  # as the tracker calls it: "pull_request"
    payload: Mapping[str, Any]


def write_down(tx: Transaction, heard: Heard, now: str) -> None:
    """For signals only, and only while one listens: issues themselves are read from the tracker."""
    if not tx.is_heard(f"{EventType.SOURCE_EVENT}:"):
        return
    data = {"source": heard.source, "event": heard.event, "payload": shortened(heard.payload)}
    tx.append([NewEvent(EventType.SOURCE_EVENT, now, actor=heard.source, data=data)])


def shortened(value: Any, depth: int = DEEPEST) -> Any:
    """What a filter could need: names and values, with long texts, deep nesting and long lists cut
    off."""
    if isinstance(value, str):
        return storable(value[:LONGEST_TEXT])
    if isinstance(value, Mapping):
        some = list(value.items())[:MOST_ENTRIES] if depth else []
        return {storable(str(name)[:100]): shortened(one, depth - 1) for name, one in some}
    if isinstance(value, list):
        return [shortened(one, depth - 1) for one in value[:MOST_ENTRIES]] if depth else []
    return value
