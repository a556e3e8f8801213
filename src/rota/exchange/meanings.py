"""Checks what a value of a record means, beyond its type.

The tables would accept the values that are refused here. But reading such a row later would fail,
and so would every list that contains it.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from rota.config.cron import parse_cron
from rota.model.clock import from_text, to_text
from rota.model.errors import CronParseError
from rota.model.schedules import SkipReason
from rota.model.signals import Action, Condition
from rota.model.status import Status
from rota.scheduler.due import Rhythm
from rota.storage.signalling import action_of, condition_of

_EVENT_TYPE = re.compile(r"[a-z_]{1,50}(\.[a-z_]{1,50}){0,4}")


def demand_sense(kind: str, name: str, value: Any) -> None:
    """Raises ValueError, in words, when this field cannot have this value."""
    check = _MEANINGS.get((kind, name))
    if check is not None and value is not None:
        check(value)


def _status(value: Any) -> None:
    _demand(value in set(Status), f"{value[:40]!r} is not a status; there are {', '.join(Status)}")


def _event_type(value: Any) -> None:
    """A type that only a newer Rota knows is fine. But it must be one word: the event stream writes
    it on a line of its own."""
    _demand(bool(_EVENT_TYPE.fullmatch(value)), f"{value[:40]!r} is not a type of events")


def _skip_reason(value: Any) -> None:
    _demand(value in set(SkipReason), f"{value[:40]!r} is not a reason to skip")


def _texts(value: Any) -> None:
    fine = isinstance(value, list) and all(isinstance(one, str) for one in value)
    _demand(fine, "this must be a list of texts")


def _object(value: Any) -> None:
    _demand(isinstance(value, dict), "this must be an object")


def _written_object(value: Any) -> None:
    try:
        _object(json.loads(value))
    except (ValueError, RecursionError):
        raise ValueError("this must be an object, written as text") from None


def _condition(value: Any) -> None:
    _like(value, Condition, condition_of)
    if value.get("at") is not None:
        _moment(value["at"])


def _action(value: Any) -> None:
    _like(value, Action, action_of)


def _like(value: Any, kind: type, made: Callable[[dict[str, Any]], object]) -> None:
    try:
        msgspec.convert(value, kind)
        made(value)
    except (msgspec.ValidationError, TypeError) as error:  # TypeError: an unknown name
        raise ValueError(f"this is no {kind.__name__.lower()} of a signal: {error}") from None


def _definition(value: Any) -> None:
    try:
        rhythm = Rhythm.known(value)
        if rhythm is not None and rhythm.cron is not None:
            parse_cron(rhythm.cron)
    except (ValueError, ArithmeticError, CronParseError):
        raise ValueError(f"{value[:80]!r} does not say when a schedule is due") from None


def _mark(value: Any) -> None:
    """A position in the log, or the beginning of a day."""
    if not (value.isascii() and value.isdecimal() and len(value) < 19):
        _moment(value)


def _moment(value: str) -> None:
    _demand(to_text(from_text(value)) == value, f"{value[:40]!r} is not a time as we write it")


def _demand(fine: bool, why: str) -> None:
    if not fine:
        raise ValueError(why)


_MEANINGS: dict[tuple[str, str], Callable[[Any], None]] = {
    ("item", "came_from"): _status,
    ("item", "labels"): _texts,
    ("event", "type"): _event_type,
    ("event", "from_status"): _status,
    ("event", "to_status"): _status,
    ("event", "data"): _object,
    ("signal", "trigger_spec"): _condition,
    ("signal", "action"): _action,
    ("firing", "result"): _object,
    ("schedule", "definition"): _definition,
    ("schedule", "last_skip_reason"): _skip_reason,
    ("run", "artifacts"): _texts,
    ("run", "hook_errors"): _texts,
    ("report", "payload"): _object,
    ("notify_mark", "value"): _mark,
    ("notice", "content"): _written_object,
    ("request", "item_ids"): _texts,
}
