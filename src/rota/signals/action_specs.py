"""Parses actions as people write them, and lists the fields that their templates may name."""

import re
from collections.abc import Mapping
from typing import Any

from rota.model.errors import InvalidInput
from rota.model.signals import Action, ActionKind, Condition, TriggerOn
from rota.model.status import TERMINAL
from rota.model.work import check_name
from rota.queue.intake import LONGEST, check_labels, check_payload, check_priority, check_url
from rota.signals.specs import demand_known, kind_of, meant, placed, text, texts

_ACTION_KEYS: dict[ActionKind, frozenset[str]] = {
    ActionKind.FOLLOW_UP: frozenset({"title", "body", "agent"}),
    ActionKind.SUBMIT: frozenset(
        {"title", "body", "type", "priority", "labels", "payload", "project_id", "agent"}
    ),
    ActionKind.DISPATCH: frozenset({"agent"}),
    ActionKind.HOLD: frozenset({"reason"}),
    ActionKind.RELEASE: frozenset({"reason"}),
    ActionKind.TRIGGER: frozenset({"agent", "schedule", "body"}),
    ActionKind.NOTIFY: frozenset({"url", "channel", "title", "body"}),
}
_NEEDS: dict[ActionKind, tuple[str, ...]] = {
    ActionKind.DISPATCH: ("agent",),
    ActionKind.TRIGGER: ("agent", "schedule"),
}

FIELDS = frozenset(
    {
        "item.id", "item.description", "item.type", "item.status", "item.priority", "item.agent",
        "item.project_id", "item.artifact_url", "item.notes",
        "event.seq", "event.type", "event.reason", "event.from", "event.to", "event.actor",
        "event.agent", "event.at",
        "run.id", "run.status", "run.summary", "run.error", "run.schedule",
        "signal.id", "signal.name",
    }
)  # fmt: skip
PLACE = re.compile(r"\{([^{}]*)\}")


def action(spec: Mapping[str, Any] | None, about: Condition) -> Action:
    if spec is None:
        return default_action(about)
    kind = kind_of(spec, ActionKind, "action.kind")
    demand_known(spec, _ACTION_KEYS[kind], "action")
    for name in _NEEDS.get(kind, ()):
        if not spec.get(name):
            raise InvalidInput(f"action.{name}: {kind} needs it", field=f"action.{name}")
    if kind is ActionKind.NOTIFY and bool(spec.get("url")) == bool(spec.get("channel")):
        raise InvalidInput("action.url: notify needs it, or a channel", field="action.url")
    return _action(kind, spec)


def _action(kind: ActionKind, spec: Mapping[str, Any]) -> Action:
    for name in ("agent", "schedule", "channel"):
        if (said := _text(spec, name)) is not None:
            check_name(said, f"action.{name}")
    if (url := _text(spec, "url", LONGEST["artifact_url"])) is not None:
        _demand_no_login(url)
        check_url(url, "action.url")
    return Action(
        kind,
        _template(spec, "title", LONGEST["description"]),
        _template(spec, "body", LONGEST["body"]),
        _text(spec, "type", LONGEST["type"]),
        _priority(spec.get("priority")),
        placed(check_labels, texts(spec, "labels", "action"), "action.labels"),
        _payload(spec.get("payload")),
        _text(spec, "project_id"),
        _text(spec, "agent"),
        _text(spec, "schedule"),
        _text(spec, "reason", LONGEST["hold_reason"]),
        url,
        _text(spec, "channel"),
    )


def _demand_no_login(url: str) -> None:
    """Checked before any part of the address is repeated: every reader of a signal sees it."""
    if "@" in url:
        raise InvalidInput(
            "action.url: holds a user name or password, which everybody would see who may read"
            " signals; name a channel instead (an @ that is none of that is written %40)",
            field="action.url",
        )


def _text(spec: Mapping[str, Any], name: str, longest: int = 500) -> str | None:
    return text(spec, name, longest, "action")


def _priority(said: Any) -> int | None:
    if said is None:
        return None
    if not isinstance(said, int) or isinstance(said, bool):
        raise InvalidInput(
            "action.priority: write a number, 1 (highest) to 5", field="action.priority"
        )
    placed(check_priority, said, "action.priority")
    return said


def _payload(said: Any) -> dict[str, Any] | None:
    if said is None:
        return None
    if not isinstance(said, dict):
        raise InvalidInput("action.payload: write keys and values", field="action.payload")
    placed(check_payload, said, "action.payload")
    return said


def _template(spec: Mapping[str, Any], name: str, longest: int) -> str | None:
    said = _text(spec, name, longest)
    for field in PLACE.findall(said or ""):
        if field not in FIELDS:
            raise InvalidInput(
                f"action.{name}: there is no field {field[:80]!r}{meant(field, FIELDS)}",
                field=f"action.{name}",
            )
    return said


def default_action(about: Condition) -> Action:
    """A new item if the condition is about items that have ended, else a follow-up.

    If the statuses allow both, it is a follow-up, which checks the item when it fires. A condition
    about several items may have no item at hand then, so one terminal status is enough there.
    """
    wanted, ends = set(about.to), {str(status) for status in TERMINAL}
    of_several = about.kind in (TriggerOn.ALL_IN, TriggerOn.ANY_IN)
    ended = bool(wanted & ends) if of_several else bool(wanted) and wanted <= ends
    return Action(ActionKind.SUBMIT if ended else ActionKind.FOLLOW_UP)
