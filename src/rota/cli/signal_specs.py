"""Signals as options of the command line, turned into what the API takes."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from rota.cli.item_ids import ItemId
from rota.cli.parsing import Count, JsonValue, Moment, Priority, Text
from rota.cli.project_names import ProjectName
from rota.model.runs import RunStatus
from rota.model.signals import ActionKind, TriggerOn
from rota.model.status import Status

F = TypeVar("F", bound=Callable[..., Any])

UNLIMITED = "unlimited"
ANY = "any"

_STATUSES = click.Choice([str(one) for one in Status])
_STATUS: dict[str, Any] = {"type": _STATUSES, "metavar": "STATUS"}
_ENDS = click.Choice([ANY, *(str(one) for one in RunStatus if one.ended)])
_ACTIONS = click.Choice([str(one).replace("_", "-") for one in ActionKind])


class Fires(click.ParamType[int]):
    """A number. `unlimited` becomes zero, because None means that the option was not given."""

    name = "n|unlimited"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if text == UNLIMITED:
            return 0
        if text.isascii() and text.isdigit() and int(text[:10]) > 0:
            return int(text)
        return self.fail(
            f"{text[:40]!r} is not allowed; write 1, 2, 3, … or {UNLIMITED}", param, ctx
        )


class Field(click.ParamType[tuple[str, Any]]):
    """NAME=VALUE; the value is JSON if it can be read as such, else text."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        name, equals, said = str(value).partition("=")
        if not (name and equals):
            self.fail(f"{str(value)[:80]!r} is no field; write NAME=VALUE", param, ctx)
        try:
            return name, json.loads(said)
        except (ValueError, RecursionError):
            return name, said


class SpecFile(click.ParamType[dict[str, Any]]):
    name = "file|-"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        text = str(value)
        spec = JsonValue().convert(text if text == "-" else f"@{text}", param, ctx)
        if not isinstance(spec, dict) or not isinstance(spec.get("trigger"), dict):
            self.fail('write {"trigger": {"kind": …}, "action": {"kind": …}}', param, ctx)
        for name in spec:
            if name not in _BODY:
                self.fail(f"{name[:80]!r} is unknown; there are {', '.join(_BODY)}", param, ctx)
        return spec


_BODY = (
    "trigger", "action", "work_item_id", "name", "max_fires", "expires_at", "max_depth",
)  # fmt: skip


def _several(*names: str, **facts: Any) -> Callable[[F], F]:
    return click.option(*names, multiple=True, **facts)


_OPTIONS = [
    # when
    _several("--on-status", type=_STATUSES, help="When an item enters this status; repeatable."),
    _several(
        "--when-all-in",
        **_STATUS,
        help="When all of --item or --project are in this status; repeatable.",
    ),
    _several(
        "--when-any-in",
        **_STATUS,
        help="When one of --item or --project is in this status; repeatable.",
    ),
    click.option("--after", metavar="SPAN", help="When this much time has passed: 30m, 2h, 7d."),
    _several(
        "--in",
        "in_",
        **_STATUS,
        help="With --after: if an item stays in this status that long; repeatable.",
    ),
    click.option("--at", metavar="TIME", help="At this time: ISO 8601, or +2h."),
    click.option("--timezone", help="Time zone of --at, such as Europe/Berlin.  [default: UTC]"),
    _several("--on-run", type=_ENDS, help="When a run ends with this status; repeatable."),
    click.option("--on-source", metavar="NAME|any", help="When a webhook of this source arrives."),
    # which
    _several(
        "--item",
        type=ItemId(),
        help="Only this item; repeatable with --when-all-in, --when-any-in.",
    ),
    click.option("--project", type=ProjectName(), help="Only items of this project."),
    _several("--of-type", help="Only items of this type; repeatable."),
    _several("--of-label", help="Only items with this label; repeatable."),
    click.option("--of-agent", help="Only items or runs of this agent."),
    click.option("--of-schedule", help="Only runs of this schedule."),
    _several(
        "--from", "from_", **_STATUS, help="Only if the item comes from this status; repeatable."
    ),
    _several("--on-reason", help="Only if the item moved for this reason; repeatable."),
    click.option("--nth", type=Count(1, 1000), help="Only from the item's n-th time on."),
    _several(
        "--field",
        "fields",
        type=Field(),
        help="Only if the webhook's payload has this value; repeatable.",
    ),
    # then
    click.option(
        "--then",
        type=_ACTIONS,
        help="What to do; required with any option from --title to --reason."
        "  [default: follow-up; submit if the item ended]",
    ),
    click.option(
        "--title", help="Title of the follow-up, item or message; may contain {item.id}, ..."
    ),
    click.option("--body", type=Text(), help="Its body: text, @file or -."),
    click.option("--type", "type_", help="Type of the new item.  [default: follow_up]"),
    click.option("--priority", type=Priority(), help="Priority of the new item."),
    _several("--label", "labels", help="A label of the new item; repeatable."),
    click.option("--agent", help="The agent that does it, or that is woken."),
    click.option("--schedule", help="The schedule to trigger."),
    click.option("--to", "to", metavar="URL", help="The address to notify."),
    click.option("--channel", help="The channel to notify, of notify in rota.yaml."),
    click.option("--reason", help="Reason of the hold or release."),
    # how often
    click.option("--max-fires", type=Fires(), help="How often the signal may fire.  [default: 1]"),
    click.option("--expires", type=Moment(), help="When the signal ends: a time, or +7d."),
    click.option(
        "--max-depth",
        type=Count(0, 100),
        help="How deep the signal may be fired again by what it did itself.",
    ),
    click.option("--name", help="Its name, unique among active signals."),
    click.option(
        "--spec", type=SpecFile(), help="The whole signal as JSON, as POST /signals takes it."
    ),
]

KINDS = {
    "on_status": (TriggerOn.TRANSITION, "to"),
    "when_all_in": (TriggerOn.ALL_IN, "in"),
    "when_any_in": (TriggerOn.ANY_IN, "in"),
    "after": (TriggerOn.TIME, "after"),
    "at": (TriggerOn.TIME, "at"),
    "on_run": (TriggerOn.RUN_FINISHED, "outcome"),
    "on_source": (TriggerOn.SOURCE_EVENT, "source"),
}
WHICH = {
    "in_": "in",
    "timezone": "timezone",
    "project": "project_id",
    "of_type": "type",
    "of_label": "label",
    "of_agent": "agent",
    "of_schedule": "schedule",
    "from_": "from",
    "on_reason": "reason",
    "nth": "nth",
    "fields": "fields",
}
THEN = {
    "title": "title",
    "body": "body",
    "type_": "type",
    "priority": "priority",
    "labels": "labels",
    "agent": "agent",
    "schedule": "schedule",
    "to": "url",
    "channel": "channel",
    "reason": "reason",
}
HOW_OFTEN = {
    "max_fires": "max_fires",
    "expires": "expires_at",
    "max_depth": "max_depth",
    "name": "name",
}


def signal_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def body_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `POST /signals`. The server refuses options that do not go together."""
    named = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, ())
    }
    spec = named.pop("spec", None)
    if spec is not None:
        if named:
            raise click.UsageError("--spec says it all: leave the other options out")
        return dict(spec)
    body = {"trigger": _trigger(named), **_about(named), **_renamed(named, HOW_OFTEN)}
    if "max_fires" in body:
        body["max_fires"] = body["max_fires"] or None
    action = _action(named)
    return body if action is None else body | {"action": action}


def _renamed(named: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {wire: named[option] for option, wire in names.items() if option in named}


def _trigger(named: Mapping[str, Any]) -> dict[str, Any]:
    chosen = [option for option in KINDS if option in named]
    if len(chosen) != 1:
        known = ", ".join(f"--{option.replace('_', '-')}" for option in KINDS)
        raise click.UsageError(f"say when, by exactly one of {known}; or all of it by --spec")
    kind, key = KINDS[chosen[0]]
    trigger = {"kind": str(kind), key: named[chosen[0]], **_renamed(named, WHICH)}
    if "fields" in trigger:
        trigger["fields"] = dict(trigger["fields"])
    if "at" in named and ("timezone" not in named or _from_now(named["at"])):
        trigger["at"] = Moment().convert(named["at"], click.Option(["--at"]), None)
    if kind in (TriggerOn.ALL_IN, TriggerOn.ANY_IN) and "item" in named:
        trigger["items"] = named["item"]
    return _without_any(trigger)


def _from_now(moment: str) -> bool:
    """Such a moment is the same in all time zones."""
    return moment.strip() == "now" or moment.strip().startswith("+")


def _without_any(trigger: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trigger.items() if value not in (ANY, [ANY])}


def _about(named: Mapping[str, Any]) -> dict[str, Any]:
    items: Sequence[str] = named.get("item", ())
    if not items or "when_all_in" in named or "when_any_in" in named:
        return {}
    if len(items) > 1:
        raise click.UsageError("several --item go with --when-all-in and --when-any-in only")
    return {"work_item_id": items[0]}


def _action(named: Mapping[str, Any]) -> dict[str, Any] | None:
    facts = _renamed(named, THEN)
    if "then" in named:
        return {"kind": named["then"].replace("-", "_"), **facts}
    if facts:
        raise click.UsageError(f"say what follows: --then {' or '.join(_ACTIONS.choices)}")
    return None


def in_words(spec: Mapping[str, Any]) -> str:
    """A trigger or an action on one line, with the names of its JSON."""
    said = [f"{name}={_value(value)}" for name, value in spec.items() if name != "kind"]
    return " ".join([str(spec["kind"]), *said])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)
