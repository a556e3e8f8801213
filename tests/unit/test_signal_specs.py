"""What people write as a trigger or an action, what is kept of it, and what is shown again."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from rota.api import signal_specs
from rota.model.errors import InvalidInput
from rota.model.signals import ActionKind, Condition, TriggerOn
from rota.signals import action_specs, specs
from rota.signals.reading import read_signal

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ITEM = "0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f"
ANY_MOVE = Condition(TriggerOn.TRANSITION, ("blocked",))

TRIGGERS: list[dict[str, Any]] = [
    {"kind": "work_item.status.transition", "to": ["failed"]},
    {
        "kind": "work_item.status.transition",
        "to": ["failed", "completed"],
        "from": ["in_progress"],
        "reason": ["fail"],
        "nth": 2,
        "project_id": "p",
        "type": ["chore", "bug_fix"],
        "label": ["wood"],
        "agent": "ada",
    },
    {"kind": "work_items.all_in", "in": ["completed"], "items": [ITEM]},
    {"kind": "work_items.all_in", "in": ["completed"], "project_id": "p"},
    {"kind": "work_items.any_in", "in": ["failed"], "items": [ITEM, "other"]},
    {"kind": "time", "at": "2026-05-02T00:00:00.000000Z"},
    {"kind": "time", "after": "90m"},
    {"kind": "time", "after": "2h", "in": ["in_review"], "type": ["chore"], "agent": "ada"},
    {"kind": "run.finished"},
    {"kind": "run.finished", "outcome": ["failed"], "agent": "ada", "schedule": "nightly"},
    {"kind": "source.event"},
    {"kind": "source.event", "source": "web", "fields": {"pull_request.merged": True}},
]
ACTIONS: list[dict[str, Any]] = [
    {"kind": "follow_up"},
    {"kind": "follow_up", "title": "Ask {event.actor}", "body": "{item.notes}", "agent": "ada"},
    {
        "kind": "submit",
        "title": "Release",
        "body": "x",
        "type": "release",
        "priority": 1,
        "labels": ["wood"],
        "payload": {"a": [1]},
        "project_id": "p",
        "agent": "ada",
    },
    {"kind": "dispatch", "agent": "ada"},
    {"kind": "hold", "reason": "wait"},
    {"kind": "release"},
    {"kind": "trigger", "agent": "ada", "schedule": "nightly", "body": "look"},
    {"kind": "notify", "url": "https://example.org/hook", "title": "t", "body": "b"},
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids="-".join)
def test_a_trigger_is_shown_as_it_was_written(trigger: dict[str, Any]) -> None:
    condition = specs.condition(trigger, None, NOW)
    shown = msgspec.to_builtins(signal_specs.trigger_of(condition))
    assert msgspec.json.decode(msgspec.json.encode(shown)) == trigger
    assert specs.condition(shown, None, NOW) == condition


@pytest.mark.parametrize("action", ACTIONS, ids="-".join)
def test_an_action_is_shown_as_it_was_written(action: dict[str, Any]) -> None:
    deed = action_specs.action(action, ANY_MOVE)
    shown = msgspec.to_builtins(signal_specs.action_of(deed))
    assert msgspec.json.decode(msgspec.json.encode(shown)) == action
    assert action_specs.action(shown, ANY_MOVE) == deed


def names_of(model: Any) -> set[str]:
    return set(model.__struct_encode_fields__)


def test_the_document_knows_exactly_the_keys_that_are_read() -> None:
    triggers = {one.__struct_config__.tag: one for one in signal_specs.Trigger.__args__}
    assert {kind: names_of(one) for kind, one in triggers.items()} == {
        str(kind): set(known) for kind, known in specs._KEYS.items()
    }
    actions = {one.__struct_config__.tag: one for one in signal_specs.Action.__args__}
    assert {kind: names_of(one) for kind, one in actions.items()} == {
        str(kind): set(known) for kind, known in action_specs._ACTION_KEYS.items()
    }
    assert set(triggers) == set(map(str, TriggerOn))
    assert set(actions) == set(map(str, ActionKind))


def test_the_document_can_be_made_without_harm_to_the_process() -> None:
    """msgspec miscounts some unions, which kills the process when it ends; with Python's own
    allocator for finding such things, each time."""
    code = (
        "import msgspec; from rota.api import signal_wire as w;"
        "msgspec.json.schema_components([w.NewSignal, w.SignalDetail, w.FollowUp])"
    )
    environment = os.environ | {"PYTHONMALLOC": "debug"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == 0


def test_one_may_be_written_without_a_list_and_in_common_spellings() -> None:
    move = specs.condition({"kind": "work_item.status.transition", "to": "done"}, None, NOW)
    assert move.to == ("completed",)
    about = specs.condition({"kind": "work_items.all_in", "in": "canceled"}, ITEM, NOW)
    assert (about.to, about.items) == (("cancelled",), (ITEM,))


def test_a_time_of_a_zone_is_kept_in_utc() -> None:
    spec = {"kind": "time", "at": "2026-05-02T09:00", "timezone": "Europe/Berlin"}
    assert specs.condition(spec, None, NOW).at == "2026-05-02T07:00:00.000000Z"
    aware = {**spec, "at": "2026-05-02T09:00:00Z"}
    assert specs.condition(aware, None, NOW).at == "2026-05-02T09:00:00.000000Z"


MOVE = {"kind": "work_item.status.transition", "to": ["failed"]}


@pytest.mark.parametrize(
    ("trigger", "field"),
    [
        ({"kind": []}, "trigger.kind"),
        ({}, "trigger.kind"),
        ({**MOVE, "to": [1]}, "trigger.to"),
        ({**MOVE, "to": ["\x00"]}, "trigger.to"),
        ({**MOVE, "from": {}}, "trigger.from"),
        ({**MOVE, "reason": ["x" * 501]}, "trigger.reason"),
        ({**MOVE, "type": ["t"] * 1001}, "trigger.type"),
        ({**MOVE, "label": [""]}, "trigger.label"),
        ({**MOVE, "agent": "Not A Name"}, "trigger.agent"),
        ({**MOVE, "agent": 7}, "trigger.agent"),
        ({**MOVE, "project_id": "\ud800"}, "trigger.project_id"),
        ({**MOVE, "nth": True}, "trigger.nth"),
        ({**MOVE, "nth": 2.0}, "trigger.nth"),
        ({"kind": "time", "at": 20260502}, "trigger.at"),
        ({"kind": "time", "at": "soon"}, "trigger.at"),
        ({"kind": "time", "at": "2026-05-02", "after": "1h"}, "trigger.at"),
        ({"kind": "time", "at": "2026-05-02", "timezone": "Mars/One"}, "trigger.timezone"),
        ({"kind": "time", "at": "2026-05-02", "timezone": "Europe"}, "trigger.timezone"),
        ({"kind": "time", "at": "2026-05-02", "timezone": "x" * 400}, "trigger.timezone"),
        ({"kind": "time", "at": "9999-12-31T23:00", "timezone": "America/Lima"}, "trigger.at"),
        ({"kind": "time", "after": "1h", "timezone": "UTC"}, "trigger.timezone"),
        ({"kind": "time", "after": "99999999d"}, "trigger.after"),
        ({"kind": "time", "after": "-5m"}, "trigger.after"),
        ({"kind": "time", "after": "1h", "type": "chore"}, "trigger.in"),
        ({"kind": "source.event", "fields": []}, "trigger.fields"),
        ({"kind": "source.event", "fields": {"a": "\ud800"}}, "trigger.fields"),
    ],
)
def test_what_is_wrong_with_a_trigger_is_said_with_its_place(
    trigger: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        specs.condition(trigger, None, NOW)
    assert refused.value.details["field"] == field


def test_a_kind_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(InvalidInput, match=r"^trigger\.kind: it is missing; there are work_item"):
        specs.condition({"to": ["failed"]}, None, NOW)
    with pytest.raises(InvalidInput, match=r"^action\.kind: it is missing; there are follow_up"):
        action_specs.action({"title": "x"}, ANY_MOVE)


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ({"kind": "submit", "priority": "high"}, "action.priority"),
        ({"kind": "submit", "priority": True}, "action.priority"),
        ({"kind": "submit", "priority": 6}, "action.priority"),
        ({"kind": "submit", "labels": [1]}, "action.labels"),
        ({"kind": "submit", "labels": ["x" * 101]}, "action.labels"),
        ({"kind": "submit", "payload": [1]}, "action.payload"),
        ({"kind": "submit", "payload": {"a": float("nan")}}, "action.payload"),
        ({"kind": "submit", "title": "{item.secret}"}, "action.title"),
        ({"kind": "submit", "title": 5}, "action.title"),
        ({"kind": "submit", "agent": "Not A Name"}, "action.agent"),
        ({"kind": "notify", "url": "ftp://example.org"}, "action.url"),
        ({"kind": "dispatch"}, "action.agent"),
        ({"kind": "hold", "reason": ""}, "action.reason"),
    ],
)
def test_what_is_wrong_with_an_action_is_said_with_its_place(
    action: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        action_specs.action(action, ANY_MOVE)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:canary-1@example.org/hook",
        "https://canary-1@example.org/hook",
        "ftp://ann:canary-1@example.org/hook",
        "https://ann:canary-1/x@example.org/hook",
    ],
)
def test_an_address_with_a_password_is_refused_and_nothing_of_it_is_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match="name a channel instead") as refused:
        action_specs.action({"kind": "notify", "url": url}, ANY_MOVE)
    assert "canary" not in str((refused.value.message, refused.value.details))


@pytest.mark.parametrize(
    "then", [{"kind": "hold"}, {"kind": "release"}, {"kind": "dispatch", "agent": "ada"}]
)
@pytest.mark.parametrize("trigger", [{"kind": "time", "after": "1h"}, {"kind": "source.event"}])
def test_a_signal_that_could_never_have_the_item_it_needs_is_refused(
    trigger: dict[str, Any], then: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=f"^work_item_id: {then['kind']} needs it") as refused:
        read_signal(trigger, then, NOW)
    assert refused.value.details["field"] == "work_item_id"
    read_signal(trigger, then, NOW, work_item_id="some")
    read_signal({"kind": "time", "after": "1h", "in": ["blocked"]}, then, NOW)
