"""Conditions as people write them; whatever is wrong is refused before anything is stored."""

import difflib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rota.model.clock import parse_time, to_text
from rota.model.errors import InvalidInput
from rota.model.intervals import parse_interval
from rota.model.runs import RunStatus
from rota.model.signals import Condition, TriggerOn
from rota.model.status import Status
from rota.model.work import check_name, check_text
from rota.queue.intake import check_payload

MOST_ITEMS = 1_000

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
    try:
        return kinds(said)
    except ValueError:
        raise InvalidInput(
            f"{field}: {str(said)[:80]!r} is not known; there are {', '.join(kinds)}", field=field
        ) from None


def demand_known(spec: Mapping[str, Any], known: frozenset[str], field: str) -> None:
    for name in spec:
        if name != "kind" and name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = (
                f"; did you mean {near[0]!r}?"
                if near
                else f"; known are {', '.join(sorted(known))}"
            )
            raise InvalidInput(
                f"{field}.{str(name)[:80]}: unknown key{hint}", field=f"{field}.{name}"
            )


def meant(unknown: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(unknown, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"


def texts(spec: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """One, or a list of them."""
    said = spec.get(name)
    if said is None:
        return ()
    many = [said] if isinstance(said, str) else said
    if not isinstance(many, list | tuple) or not all(isinstance(one, str) for one in many):
        raise InvalidInput(
            f"trigger.{name}: write a text or a list of them", field=f"trigger.{name}"
        )
    return tuple(dict.fromkeys(many))


def text(spec: Mapping[str, Any], name: str, longest: int = 500) -> str | None:
    said = spec.get(name)
    if said is None:
        return None
    if not isinstance(said, str):
        raise InvalidInput(f"{name}: write a text", field=name)
    check_text(said, name, longest)
    return said


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
        check_name(agent, "agent")
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
    if len(items) > MOST_ITEMS:
        raise InvalidInput(f"trigger.items: at most {MOST_ITEMS}", field="trigger.items")
    return Condition(kind, statuses, items=items, project_id=project)


def _time(kind: TriggerOn, spec: Mapping[str, Any], item: str | None, now: datetime) -> Condition:
    after = text(spec, "after")
    statuses = _statuses(spec, "in")
    filters = _filters(spec)
    if (spec.get("at") is None) == (after is None):
        raise InvalidInput("trigger: say either at or after", field="trigger.at")
    if after is None:
        if statuses or any(filters.values()):
            raise InvalidInput("trigger: at goes with nothing else", field="trigger.at")
        return Condition(kind, at=_moment(spec, now))
    seconds = parse_interval(after).total_seconds()
    if not statuses and (item is not None or any(filters.values())):
        if any(filters.values()):
            raise InvalidInput(
                "trigger.in: say in which status: in: [in_review]", field="trigger.in"
            )
        return Condition(kind, after_seconds=seconds)
    return Condition(kind, statuses, after_seconds=seconds, while_in=bool(statuses), **filters)


def _moment(spec: Mapping[str, Any], now: datetime) -> str:
    said, zone = str(spec["at"]), text(spec, "timezone")
    moment = parse_time(said, "trigger.at")
    if zone is not None and datetime.fromisoformat(said).tzinfo is None:
        moment = datetime.fromisoformat(said).replace(tzinfo=_zone(zone)).astimezone(UTC)
    if moment <= now:
        raise InvalidInput(
            f"trigger.at: {to_text(moment)} is in the past; name a time that is to come",
            field="trigger.at",
        )
    return to_text(moment)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
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
        check_name(agent, "agent")
    return Condition(kind, outcomes=outcomes, agent=agent, schedule=text(spec, "schedule"))


def _source_event(
    kind: TriggerOn, spec: Mapping[str, Any], _item: str | None, _now: datetime
) -> Condition:
    fields = spec.get("fields", {})
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InvalidInput("trigger.fields: write keys and values", field="trigger.fields")
    check_payload(fields)
    return Condition(kind, source=text(spec, "source"), fields=dict(fields))


_READERS = {
    TriggerOn.TRANSITION: _transition,
    TriggerOn.ALL_IN: _fan_in,
    TriggerOn.ANY_IN: _fan_in,
    TriggerOn.TIME: _time,
    TriggerOn.RUN_FINISHED: _run_finished,
    TriggerOn.SOURCE_EVENT: _source_event,
}
