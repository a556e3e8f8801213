"""Every kind of signal is told in words: what it waits for, and what it will do."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.dashboard.signal_words import waits_for, will_do
from rota.model.signals import Action, ActionKind, Condition, TriggerOn

T = TriggerOn
BERLIN = ZoneInfo("Europe/Berlin")

WHEN: list[tuple[dict[str, Any], str]] = [
    ({"kind": T.TRANSITION, "to": ("failed",)}, "An item becomes failed"),
    (
        {"kind": T.TRANSITION, "to": ("in_review", "completed"), "from_": ("in_progress",)},
        "An item becomes in review or completed, after it was in progress",
    ),
    (
        {"kind": T.TRANSITION, "to": ("failed",), "types": ("bug_fix",), "labels": ("a", "b_c")},
        "An item of type bug_fix with the label a and b_c becomes failed",
    ),
    (
        {"kind": T.TRANSITION, "to": ("queued",), "project_id": "p", "agent": "ada"},
        "An item of the project The garden of agent ada becomes queued",
    ),
    (
        {"kind": T.TRANSITION, "to": ("failed",), "reasons": ("lease_expired",), "nth": 2},
        "An item becomes failed, with the reason lease_expired, for the 2nd time or later",
    ),
    (
        {"kind": T.TRANSITION, "to": ("failed",), "nth": 112},
        "An item becomes failed, for the 112th time or later",
    ),
    (
        {"kind": T.TRANSITION, "to": ("failed",), "types": ("a", "b", "c", "d", "e", "f")},
        "An item of type a, b, c or 3 more becomes failed",
    ),
    ({"kind": T.ALL_IN, "to": ("completed",), "items": ("x",)}, "The item is completed"),
    (
        {"kind": T.ALL_IN, "to": ("completed", "cancelled"), "items": ("x", "y", "z")},
        "All of 3 items are completed or cancelled",
    ),
    (
        {"kind": T.ALL_IN, "to": ("completed",), "project_id": "p"},
        "All of the items of the project The garden are completed",
    ),
    ({"kind": T.ANY_IN, "to": ("failed",), "items": ("x", "y")}, "One of 2 items is failed"),
    (
        {"kind": T.ANY_IN, "to": ("blocked",), "project_id": "p"},
        "One of the items of the project The garden is blocked",
    ),
    ({"kind": T.TIME, "at": "2026-07-01T10:30:00.000000Z"}, "It is 2026-07-01 12:30 CEST"),
    ({"kind": T.TIME, "after_seconds": 7200.0}, "2h have passed since the signal was created"),
    (
        {"kind": T.TIME, "after_seconds": 5400.0, "to": ("in_review",), "while_in": True},
        "An item has been in review for 1h 30m",
    ),
    ({"kind": T.RUN_FINISHED}, "A run ends"),
    (
        {"kind": T.RUN_FINISHED, "outcomes": ("failed", "timed_out"), "agent": "ada"},
        "A run of agent ada ends as failed or timed out",
    ),
    ({"kind": T.RUN_FINISHED, "schedule": "look"}, "A run by the schedule look ends"),
    ({"kind": T.SOURCE_EVENT}, "Any source reports an event"),
    (
        {"kind": T.SOURCE_EVENT, "source": "github:a/b", "fields": {"x.y": True, "z": None}},
        "github:a/b reports an event in which x.y is true and z is nothing",
    ),
    (
        {"kind": T.SOURCE_EVENT, "fields": {"action": "closed"}},
        "Any source reports an event in which action is closed",
    ),
]

A = ActionKind
THEN: list[tuple[dict[str, Any], str]] = [
    ({"kind": A.FOLLOW_UP}, "A follow-up on the item is made"),
    (
        {"kind": A.FOLLOW_UP, "title": "Look", "agent": "ada"},
        "A follow-up on the item is made for agent ada: “Look”",
    ),
    ({"kind": A.SUBMIT}, "A new item is submitted"),
    (
        {
            "kind": A.SUBMIT, "type": "bug_fix", "project_id": "p", "priority": 2,
            "labels": ("x",), "agent": "ada", "title": "Why?",
        },
        "A new item of type bug_fix of the project The garden with priority 2 with the label x is"
        " submitted for agent ada: “Why?”",
    ),
    ({"kind": A.DISPATCH, "agent": "ada"}, "The item is dispatched to agent ada"),
    ({"kind": A.HOLD}, "The item is held"),
    ({"kind": A.HOLD, "reason": "it failed twice"}, "The item is held: it failed twice"),
    ({"kind": A.RELEASE, "reason": "late"}, "The item is released to the queue: late"),
    (
        {"kind": A.TRIGGER, "agent": "ada", "schedule": "look"},
        "Agent ada is woken by its schedule look",
    ),
    (
        {"kind": A.NOTIFY, "url": "https://hooks.example.org/T0/secret", "title": "Done"},
        "hooks.example.org is notified: “Done”",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "words"), WHEN)
def test_what_is_waited_for_is_told_in_words(facts: dict[str, Any], words: str) -> None:
    condition = Condition(**facts)
    assert waits_for(condition, BERLIN, of_item=False, project="The garden") == words


@pytest.mark.parametrize(("facts", "words"), THEN)
def test_what_follows_is_told_in_words(facts: dict[str, Any], words: str) -> None:
    assert will_do(Action(**facts), "The garden") == words


def test_a_signal_of_one_item_speaks_of_the_item() -> None:
    moved = Condition(T.TRANSITION, ("failed",))
    assert waits_for(moved, BERLIN, of_item=True) == "The item becomes failed"
    stays = Condition(T.TIME, ("blocked",), after_seconds=60.0, while_in=True)
    assert waits_for(stays, BERLIN, of_item=True) == "The item has been blocked for 1m"


def test_a_project_without_a_known_name_is_told_by_its_id() -> None:
    condition = Condition(T.ALL_IN, ("completed",), project_id="p-1")
    words = "All of the items of the project p-1 are completed"
    assert waits_for(condition, BERLIN, of_item=False) == words


def test_no_kind_is_left_out() -> None:
    assert {facts["kind"] for facts, _ in WHEN} == set(TriggerOn)
    assert {facts["kind"] for facts, _ in THEN} == set(ActionKind)
