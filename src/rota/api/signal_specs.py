"""Triggers and actions of signals on the wire. Requests and answers have the same form.

`rota.signals` reads and checks requests, because its error messages are better. These models
document them, and answers are made from them.
"""

from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, field

from rota.api.bodies import (
    AgentName,
    Body,
    Description,
    Id,
    Labels,
    Moment,
    Priority,
    StatusName,
    Strict,
    Type,
    Url,
    Why,
)
from rota.api.run_wire import EndStatus
from rota.model.intervals import written
from rota.model.signals import Action as Deed
from rota.model.signals import ActionKind, Condition, TriggerOn
from rota.signals.specs import MOST_ITEMS

Span = Annotated[str, Meta(max_length=100, examples=["2h"], description="30s, 15m, 2h, 7d")]
Zone = Annotated[str, Meta(max_length=100, examples=["Europe/Berlin"])]
# No pattern where a text or a list is allowed: msgspec 0.22 miscounts references to the pattern
# there, and the process crashes on exit.
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Statuses = StatusName | Annotated[tuple[StatusName, ...], Meta(min_length=1)]
SomeStatuses = StatusName | tuple[StatusName, ...] | None
Names = Name | Annotated[tuple[Name, ...], Meta(max_length=MOST_ITEMS)] | None
Ends = EndStatus | tuple[EndStatus, ...] | None


class _Spec(Strict, frozen=True, omit_defaults=True, tag_field="kind"):
    pass


# triggers


class TransitionTrigger(
    _Spec, frozen=True, tag=TriggerOn.TRANSITION.value, rename={"from_": "from"}
):
    """An item enters one of these statuses: the signal's own item, or any that the filters select.

    `nth`: only from the item's second, third, … time on.
    """

    to: Statuses
    from_: SomeStatuses = ()
    reason: Names = ()
    nth: Annotated[int, Meta(ge=1, le=1_000)] = 1
    project_id: Id | None = None
    type: Names = ()
    label: Names = ()
    agent: AgentName | None = None


class AllInTrigger(_Spec, frozen=True, tag=TriggerOn.ALL_IN.value, rename={"in_": "in"}):
    """All of these items, or all items of a project, are in one of these statuses."""

    in_: Statuses
    items: Names = ()
    project_id: Id | None = None


class AnyInTrigger(_Spec, frozen=True, tag=TriggerOn.ANY_IN.value, rename={"in_": "in"}):
    """One of these items, or one item of a project, is in one of these statuses."""

    in_: Statuses
    items: Names = ()
    project_id: Id | None = None


class TimeTrigger(_Spec, frozen=True, tag=TriggerOn.TIME.value, rename={"in_": "in"}):
    """A moment (`at`); or a time span after the signal was made (`after`); or, with `in`, an item
    has been in one of these statuses for that time span."""

    at: Moment | None = None
    timezone: Zone | None = None
    after: Span | None = None
    in_: SomeStatuses = ()
    project_id: Id | None = None
    type: Names = ()
    label: Names = ()
    agent: AgentName | None = None


class RunTrigger(_Spec, frozen=True, tag=TriggerOn.RUN_FINISHED.value):
    """A run has ended with one of these outcomes, or with any: on the signal's own item, if it has
    one."""

    outcome: Ends = ()
    agent: AgentName | None = None
    schedule: Name | None = None


class SourceTrigger(_Spec, frozen=True, tag=TriggerOn.SOURCE_EVENT.value):
    """A tracker's webhook arrived; `fields` are values of its payload: `pull_request.merged`."""

    source: Name | None = None
    fields: dict[str, Any] = field(default_factory=dict)


Trigger = TransitionTrigger | AllInTrigger | AnyInTrigger | TimeTrigger | RunTrigger | SourceTrigger


# actions


class FollowUpAction(_Spec, frozen=True, tag=ActionKind.FOLLOW_UP.value):
    """Makes a follow-up on the item or, if the item has ended, a new item."""

    title: Description | None = None
    body: Body | None = None
    agent: AgentName | None = None


class SubmitAction(_Spec, frozen=True, tag=ActionKind.SUBMIT.value):
    """Submits a new item, with the priority and project of the item that it follows."""

    title: Description | None = None
    body: Body | None = None
    type: Type | None = None
    priority: Priority | None = None
    labels: Name | Labels | None = ()
    payload: dict[str, Any] | None = None
    project_id: Id | None = None
    agent: AgentName | None = None


class DispatchAction(_Spec, frozen=True, tag=ActionKind.DISPATCH.value):
    agent: AgentName


class HoldAction(_Spec, frozen=True, tag=ActionKind.HOLD.value):
    reason: Why | None = None


class ReleaseAction(_Spec, frozen=True, tag=ActionKind.RELEASE.value):
    reason: Why | None = None


class TriggerAction(_Spec, frozen=True, tag=ActionKind.TRIGGER.value):
    """Wakes the agent of a schedule; `body` is its message."""

    agent: AgentName
    schedule: AgentName
    body: Body | None = None


class NotifyAction(_Spec, frozen=True, tag=ActionKind.NOTIFY.value):
    """Notifies an address, by a POST of JSON, or a channel of `notify` in `rota.yaml`. Goes through
    the outbox."""

    url: Url | None = None
    channel: AgentName | None = None
    title: Description | None = None
    body: Body | None = None


Action = (
    FollowUpAction
    | SubmitAction
    | DispatchAction
    | HoldAction
    | ReleaseAction
    | TriggerAction
    | NotifyAction
)


# requests


def _one_of(models: Any) -> Meta:
    refs = [{"$ref": f"#/components/schemas/{one.__name__}"} for one in models.__args__]
    return Meta(extra_json_schema={"anyOf": refs})


TriggerSpec = Annotated[dict[str, Any], _one_of(Trigger)]
ActionSpec = Annotated[dict[str, Any], _one_of(Action)]


# answers


def trigger_of(condition: Condition) -> Trigger:
    """The spec from which this condition is read."""
    filters: dict[str, Any] = {
        "project_id": condition.project_id,
        "type": condition.types,
        "label": condition.labels,
        "agent": condition.agent,
    }
    match condition.kind:
        case TriggerOn.TRANSITION:
            return TransitionTrigger(
                condition.to, condition.from_, condition.reasons, condition.nth, **filters
            )
        case TriggerOn.ALL_IN:
            return AllInTrigger(condition.to, condition.items, condition.project_id)
        case TriggerOn.ANY_IN:
            return AnyInTrigger(condition.to, condition.items, condition.project_id)
        case TriggerOn.TIME:
            after = _span(condition.after_seconds)
            return TimeTrigger(condition.at, None, after, condition.to, **filters)
        case TriggerOn.RUN_FINISHED:
            return RunTrigger(condition.outcomes, condition.agent, condition.schedule)
        case TriggerOn.SOURCE_EVENT:
            return SourceTrigger(condition.source, condition.fields)


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else written(timedelta(seconds=seconds))


_ACTIONS: dict[ActionKind, type[Action]] = {
    ActionKind.FOLLOW_UP: FollowUpAction,
    ActionKind.SUBMIT: SubmitAction,
    ActionKind.DISPATCH: DispatchAction,
    ActionKind.HOLD: HoldAction,
    ActionKind.RELEASE: ReleaseAction,
    ActionKind.TRIGGER: TriggerAction,
    ActionKind.NOTIFY: NotifyAction,
}


def action_of(deed: Deed) -> Action:
    model = _ACTIONS[deed.kind]
    return model(**{name: getattr(deed, name) for name in model.__struct_fields__})
