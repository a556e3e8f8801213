"""Parses and checks a whole signal."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from rota.model.clock import to_text
from rota.model.errors import InvalidInput
from rota.model.signals import NEEDS_ITEM, NewSignal, TriggerOn
from rota.model.work import check_name
from rota.queue.intake import check_moment
from rota.signals import action_specs, specs


def read_signal(
    trigger: Mapping[str, Any],
    action: Mapping[str, Any] | None,
    now: datetime,
    **facts: Any,
) -> NewSignal:
    """`facts` are the other fields of `NewSignal`."""
    about = specs.condition(trigger, facts.get("work_item_id"), now)
    new = NewSignal(about, action_specs.action(action, about), **facts)
    _demand_item(new)
    # A signal in a file may have fired long ago and still be in the file.
    if about.at is not None and about.at <= to_text(now) and not new.configured:
        raise InvalidInput(
            f"trigger.at: {about.at} is in the past; name a time that is to come",
            field="trigger.at",
        )
    if new.name is not None:
        check_name(new.name, "name")
    if new.max_fires is not None and not 1 <= new.max_fires <= 1_000_000:
        raise InvalidInput("max_fires: use 1 to 1000000, or leave it out", field="max_fires")
    if not 0 <= new.max_depth <= 100:
        raise InvalidInput("max_depth: use 0 to 100", field="max_depth")
    expires = check_moment(new.expires_at, "expires_at")
    if expires is not None and expires <= to_text(now):
        raise InvalidInput(f"expires_at: {expires} is in the past", field="expires_at")
    return replace(new, expires_at=expires)


def _demand_item(new: NewSignal) -> None:
    """Moments and webhooks are about no item; the other triggers are, or may be."""
    about, kind = new.condition, new.action.kind
    is_about_none = about.is_moment or about.kind is TriggerOn.SOURCE_EVENT
    if is_about_none and new.work_item_id is None and kind in NEEDS_ITEM:
        raise InvalidInput(
            f"work_item_id: {kind} needs it, for this trigger is about no item; or choose another"
            " action",
            field="work_item_id",
        )
