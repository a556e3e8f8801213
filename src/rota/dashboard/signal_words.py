"""Signals in words: what each waits for, and what it will do."""

from collections.abc import Iterable
from datetime import tzinfo
from typing import assert_never
from urllib.parse import urlsplit

from rota.dashboard.scales import span
from rota.model.clock import from_text, in_zone
from rota.model.signals import Action, ActionKind, Condition, TriggerOn

_LONGEST_LIST = 4  # of values that are listed one by one


def waits_for(
    condition: Condition, zone: tzinfo, *, of_item: bool, project: str | None = None
) -> str:
    """When the signal fires. `of_item`: it is about one item only. `project` is the name of the
    project that the condition names."""
    match condition.kind:
        case TriggerOn.TRANSITION:
            return _moves(condition, of_item, project)
        case TriggerOn.ALL_IN | TriggerOn.ANY_IN:
            return _gathers(condition, project)
        case TriggerOn.TIME:
            return _time(condition, zone, of_item, project)
        case TriggerOn.RUN_FINISHED:
            return _run(condition)
        case TriggerOn.SOURCE_EVENT:
            return _told(condition)
        case _:
            assert_never(condition.kind)


def _moves(condition: Condition, of_item: bool, project: str | None) -> str:
    words = [f"{_subject(condition, of_item, project)} becomes {_either(_spelled(condition.to))}"]
    if condition.from_:
        words.append(f"after it was {_either(_spelled(condition.from_))}")
    if condition.reasons:
        words.append(f"with the reason {_either(condition.reasons)}")
    if condition.nth > 1:
        words.append(f"for the {_nth(condition.nth)} time or later")
    return ", ".join(words)


def _subject(condition: Condition, of_item: bool, project: str | None) -> str:
    if of_item:
        return "The item"
    words = ["An item"]
    if condition.types:
        words.append(f"of type {_either(condition.types)}")
    if condition.labels:
        words.append(f"with the label {_both(condition.labels)}")
    if condition.project_id:
        words.append(f"of the project {project or condition.project_id}")
    if condition.agent:
        words.append(f"of agent {condition.agent}")
    return " ".join(words)


def _gathers(condition: Condition, project: str | None) -> str:
    each = "All" if condition.kind is TriggerOn.ALL_IN else "One"
    status = _either(_spelled(condition.to))
    if condition.project_id:
        are = "are" if each == "All" else "is"
        return (
            f"{each} of the items of the project {project or condition.project_id} {are} {status}"
        )
    if len(condition.items) == 1:
        return f"The item is {status}"
    are = "are" if each == "All" else "is"
    return f"{each} of {len(condition.items)} items {are} {status}"


def _time(condition: Condition, zone: tzinfo, of_item: bool, project: str | None) -> str:
    if condition.at is not None:
        return f"It is {in_zone(from_text(condition.at), zone):%Y-%m-%d %H:%M %Z}"
    long = span(condition.after_seconds or 0)
    if condition.while_in:
        subject = _subject(condition, of_item, project)
        return f"{subject} has been {_either(_spelled(condition.to))} for {long}"
    return f"{long} have passed since the signal was created"


def _run(condition: Condition) -> str:
    words = ["A run"]
    if condition.agent:
        words.append(f"of agent {condition.agent}")
    if condition.schedule:
        words.append(f"by the schedule {condition.schedule}")
    words.append(
        f"ends as {_either(_spelled(condition.outcomes))}" if condition.outcomes else "ends"
    )
    return " ".join(words)


def _told(condition: Condition) -> str:
    source = condition.source or "Any source"
    fields = [f"{path} is {_value(value)}" for path, value in condition.fields.items()]
    return f"{source} reports an event" + (f" in which {' and '.join(fields)}" if fields else "")


def will_do(action: Action, project: str | None = None) -> str:
    """What the signal does. `project` is the name of the project that the action names."""
    match action.kind:
        case ActionKind.FOLLOW_UP:
            whom = f" for agent {action.agent}" if action.agent else ""
            said = f"A follow-up on the item is made{whom}{_called(action.title)}"
        case ActionKind.SUBMIT:
            said = _submits(action, project)
        case ActionKind.DISPATCH:
            said = f"The item is dispatched to agent {action.agent}"
        case ActionKind.HOLD:
            said = f"The item is held{_because(action.reason)}"
        case ActionKind.RELEASE:
            said = f"The item is released to the queue{_because(action.reason)}"
        case ActionKind.TRIGGER:
            said = f"Agent {action.agent} is woken by its schedule {action.schedule}"
        case ActionKind.NOTIFY:
            # Addresses of webhooks often have a secret after the host name.
            host = urlsplit(action.url or "").hostname
            said = f"{host or f'Channel {action.channel}'} is notified{_called(action.title)}"
        case _:
            assert_never(action.kind)
    return said


def _submits(action: Action, project: str | None) -> str:
    words = ["A new item"]
    if action.type:
        words.append(f"of type {action.type}")
    if action.project_id:
        words.append(f"of the project {project or action.project_id}")
    if action.priority:
        words.append(f"with priority {action.priority}")
    if action.labels:
        words.append(f"with the label {_both(action.labels)}")
    words.append("is submitted")
    if action.agent:
        words.append(f"for agent {action.agent}")
    return " ".join(words) + _called(action.title)


def _called(title: str | None) -> str:
    return f": “{title}”" if title else ""


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _either(names: Iterable[str]) -> str:
    return _listed(names, "or")


def _both(names: Iterable[str]) -> str:
    return _listed(names, "and")


def _listed(names: Iterable[str], word: str) -> str:
    told = list(names)
    if len(told) > _LONGEST_LIST:
        told = [*told[: _LONGEST_LIST - 1], f"{len(told) - _LONGEST_LIST + 1} more"]
    if len(told) == 1:
        return told[0]
    return f"{', '.join(told[:-1])} {word} {told[-1]}"


def _spelled(statuses: Iterable[str]) -> list[str]:
    return [status.replace("_", " ") for status in statuses]


def _nth(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "nothing" if value is None else str(value)
