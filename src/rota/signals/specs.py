"""Parses conditions as people write them; a mistake is refused before anything is stored."""

import difflib
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.model.clock import later, parse_time, to_text
from rota.model.errors import IntervalParseError, InvalidInput, MissingRequirement
from rota.model.intervals import parse_interval
from rota.model.runs import RunStatus
from rota.model.signals import Condition, TriggerOn
from rota.model.status import Status
from rota.model.work import check_name, check_text
from rota.queue.intake import check_payload

MOST_ITEMS = 1_000
_LONGEST = 500  # of a name, an id, a label

_FILTERS = frozenset({"project_id", "type", "label", "agent"})
_KEYS: dict[TriggerOn, frozenset[str]] = {
    TriggerOn.TRANSITION: frozenset({"to", "from", "reason", "nth"}) | _FILTERS,
    TriggerOn.ALL_IN: frozenset({"in", "items", "project_id"}),
    TriggerOn.ANY_IN: frozenset({"in", "items", "project_id"}),
    TriggerOn.TIME: frozenset({"at", "after", "in", "timezone"}) | _FILTERS,
    TriggerOn.RUN_FINISHED: frozenset({"outcome", "agent", "schedule"}),
    TriggerOn.SOURCE_EVENT: frozenset({"source", "fields"}),
}
_SPELLINGS = {"done": Status.COMPLETED, "canceled": Status.CANCELLED}


def condition(spec: Mapping[str, Any], work_item_id: str | None, now: datetime) -> Condition:
    kind = kind_of(spec, TriggerOn, "trigger.kind")
    demand_known(spec, _KEYS[kind], "trigger")
    read = _READERS[kind]
    return read(kind, spec, work_item_id, now)


def kind_of(spec: Mapping[str, Any], kinds: Any, field: str) -> Any:
    said = spec.get("kind")
    if said is None:
        raise MissingRequirement(
            f"{field}: it is missing; there are {', '.join(kinds)}", field=field
        )
    try:
        return kinds(said)
    except ValueError:
        raise InvalidInput(
            f"{field}: {str(said)[:80]!r} is not known; there are {', '.join(kinds)}", field=field
        ) from None


def demand_known(spec: Mapping[str, Any], known: frozenset[str], field: str) -> None:
    for name in spec:
        if name != "kind" and name not in known:
            place = f"{field}.{str(name)[:80]}"
            raise InvalidInput(f"{place}: unknown key{meant(str(name), known)}", field=place)


def meant(unknown: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(unknown, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"


def texts(spec: Mapping[str, Any], name: str, place: str = "trigger") -> tuple[str, ...]:
    """The field as a tuple; it may be written as one text or as a list."""
    said, field = spec.get(name), f"{place}.{name}"
    if said is None:
        return ()
    many = [said] if isinstance(said, str) else said
    if not isinstance(many, list | tuple) or not all(isinstance(one, str) for one in many):
        raise InvalidInput(f"{field}: write a text or a list of them", field=field)
    if len(many) > MOST_ITEMS:
        raise InvalidInput(f"{field}: at most {MOST_ITEMS}", field=field)
    return tuple(dict.fromkeys(check_text(one, field, _LONGEST) for one in many))


def text(
    spec: Mapping[str, Any], name: str, longest: int = _LONGEST, place: str = "trigger"
) -> str | None:
    said, field = spec.get(name), f"{place}.{name}"
    if said is None:
        return None
    if not isinstance(said, str):
        raise InvalidInput(f"{field}: write a text", field=field)
    return check_text(said, field, longest)


def placed(check: Callable[[Any], Any], value: Any, field: str) -> Any:
    """Run a check of item fields, and put the place of this field into its error."""
    try:
        return check(value)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from None


def _statuses(spec: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = tuple(_SPELLINGS.get(one, one) for one in texts(spec, name))
    for one in found:
        if one not in set(Status):
            raise InvalidInput(
                f"trigger.{name}: {one[:80]!r} is not a status; there are {', '.join(Status)}",
                field=f"trigger.{name}",
            )
    return tuple(str(one) for one in found)


def _demand(value: Any, field: str, why: str) -> None:
    if not value:
        raise InvalidInput(f"trigger.{field}: {why}", field=f"trigger.{field}")


def _filters(spec: Mapping[str, Any]) -> dict[str, Any]:
    agent = text(spec, "agent")
    if agent is not None:
        check_name(agent, "trigger.agent")
    return {
        "project_id": text(spec, "project_id"),
        "types": texts(spec, "type"),
        "labels": texts(spec, "label"),
        "agent": agent,
    }


def _transition(
    kind: TriggerOn, spec: Mapping[str, Any], item: str | None, _now: datetime
) -> Condition:
    to = _statuses(spec, "to")
    _demand(to, "to", "say into which status: to: [failed]")
    nth = spec.get("nth", 1)
    if not isinstance(nth, int) or isinstance(nth, bool) or not 1 <= nth <= 1_000:
        raise InvalidInput("trigger.nth: write a number from 1 to 1000", field="trigger.nth")
    filters = _filters(spec)
    if item is not None and any(filters.values()):
        raise InvalidInput("trigger: a signal of one item has no filter", field="trigger")
    return Condition(kind, to, _statuses(spec, "from"), texts(spec, "reason"), nth=nth, **filters)


def _fan_in(
    kind: TriggerOn, spec: Mapping[str, Any], item: str | None, _now: datetime
) -> Condition:
    statuses, items = _statuses(spec, "in"), texts(spec, "items")
    project = text(spec, "project_id")
    _demand(statuses, "in", "say which statuses count: in: [completed]")
    if item is not None and not items and project is None:
        items = (item,)
    if bool(items) == (project is not None):
        raise InvalidInput("trigger: name either items or a project_id", field="trigger.items")
    return Condition(kind, statuses, items=items, project_id=project)


def _time(kind: TriggerOn, spec: Mapping[str, Any], _item: str | None, now: datetime) -> Condition:
    after = text(spec, "after")
    statuses = _statuses(spec, "in")
    filters = _filters(spec)
    if (spec.get("at") is None) == (after is None):
        raise InvalidInput("trigger: say either at or after", field="trigger.at")
    if after is None:
        if statuses or any(filters.values()):
            raise InvalidInput("trigger: at goes with nothing else", field="trigger.at")
        return Condition(kind, at=_moment(spec))
    if spec.get("timezone") is not None:
        raise InvalidInput("trigger.timezone: goes with at", field="trigger.timezone")
    seconds = _seconds(after, now)
    if not statuses and any(filters.values()):
        raise InvalidInput("trigger.in: say in which status: in: [in_review]", field="trigger.in")
    return Condition(kind, statuses, after_seconds=seconds, while_in=bool(statuses), **filters)


def _seconds(after: str, now: datetime) -> float:
    try:
        seconds = parse_interval(after).total_seconds()
    except IntervalParseError as error:
        raise InvalidInput(f"trigger.after: {error.message}", field="trigger.after") from None
    later(now, seconds * 2, "trigger.after")  # may be counted from a future event
    return seconds


def _moment(spec: Mapping[str, Any]) -> str:
    said, zone = text(spec, "at") or "", text(spec, "timezone")
    moment, place = parse_time(said, "trigger.at"), _zone(zone) if zone is not None else None
    if place is not None and datetime.fromisoformat(said).tzinfo is None:
        moment = _local(datetime.fromisoformat(said), place)
    return to_text(moment)


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    try:
        return moment.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:  # at the ends of Python's calendar
        raise InvalidInput(
            "trigger.at: this is no time that can be waited for", field="trigger.at"
        ) from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"trigger.timezone: {name[:80]!r} is not known; write one like Europe/Berlin",
            field="trigger.timezone",
        ) from None


def _run_finished(
    kind: TriggerOn, spec: Mapping[str, Any], _item: str | None, _now: datetime
) -> Condition:
    outcomes = texts(spec, "outcome")
    for one in outcomes:
        if one not in set(RunStatus) or one == RunStatus.RUNNING:
            raise InvalidInput(
                f"trigger.outcome: {one[:80]!r} is no end of a run; there are"
                f" {', '.join(one for one in RunStatus if one.ended)}",
                field="trigger.outcome",
            )
    agent = text(spec, "agent")
    if agent is not None:
        check_name(agent, "trigger.agent")
    return Condition(kind, outcomes=outcomes, agent=agent, schedule=text(spec, "schedule"))


def _source_event(
    kind: TriggerOn, spec: Mapping[str, Any], _item: str | None, _now: datetime
) -> Condition:
    fields = spec.get("fields", {})
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InvalidInput("trigger.fields: write keys and values", field="trigger.fields")
    placed(check_payload, fields, "trigger.fields")
    return Condition(kind, source=text(spec, "source"), fields=dict(fields))


_READERS = {
    TriggerOn.TRANSITION: _transition,
    TriggerOn.ALL_IN: _fan_in,
    TriggerOn.ANY_IN: _fan_in,
    TriggerOn.TIME: _time,
    TriggerOn.RUN_FINISHED: _run_finished,
    TriggerOn.SOURCE_EVENT: _source_event,
}
