"""The tools as a model sees them. At most ten: each costs every conversation some attention.

Reading them does not need the SDK, so that documentation and tests can list them without it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rota.mcp import arguments, claiming, deeds
from rota.mcp.seat import Seat

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    title: str
    text: str
    takes: type[arguments.Arguments]
    run: Callable[[Seat, Any], Awaitable[Json]]
    gives: tuple[str, ...]  # fields that its answer always has
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False  # a second call with the same arguments changes nothing


TOOLS = (
    ToolSpec(
        "work_claim",
        "Claim work",
        "Take an item to work on: the best one that is ready for you, or the one named by id. Call"
        " this before you touch anything; nobody else can work on the item while you hold it."
        " Returns the item and a claim with a token; claimed is false when there is nothing.",
        arguments.Claim,
        claiming.claim,
        ("claimed",),
    ),
    ToolSpec(
        "work_progress",
        "Keep a claim, leave a note",
        "Say that you are still at it, at least every third of the lease, and how far you are."
        " Extends your claim. An error claim_lost means: stop working on the item at once.",
        arguments.Progress,
        deeds.progress,
        ("id",),
    ),
    ToolSpec(
        "work_complete",
        "Complete an item",
        "The item you claimed is done and checked. With review=true and artifact_url it goes to"
        " review instead.",
        arguments.Complete,
        deeds.complete,
        ("item",),
        repeatable=True,
    ),
    ToolSpec(
        "work_return",
        "Give an item back",
        "You cannot finish the item you claimed: release it for another, block it until something"
        " happens, or fail it for good. Never just stop: return what you hold.",
        arguments.Return,
        deeds.give_back,
        ("item",),
        destroys=True,
        repeatable=True,
    ),
    ToolSpec(
        "work_list",
        "List items",
        "List items by priority and age; ready=true lists only what could be claimed now. Claiming"
        " does not need it: work_claim picks the best by itself.",
        arguments.List,
        deeds.list_items,
        ("items", "more"),
        reads=True,
    ),
    ToolSpec(
        "work_show",
        "Show an item",
        "One item with its text, notes, links and latest history.",
        arguments.Show,
        deeds.show,
        ("item",),
        reads=True,
    ),
    ToolSpec(
        "work_explain",
        "Explain an item",
        "Why nobody works on an item, and what would change that.",
        arguments.Show,
        deeds.explain,
        ("summary", "reasons"),
        reads=True,
    ),
    ToolSpec(
        "work_add",
        "Add an item",
        "Submit a new item, for work you find on the way and shall not do now. It is queued; you"
        " do not hold it.",
        arguments.Add,
        deeds.add,
        ("item",),
    ),
    ToolSpec(
        "signal_add",
        "Add a signal",
        "Once an item comes into a status, submit a follow-up item: instead of waiting for it"
        " yourself.",
        arguments.SignalAdd,
        deeds.add_signal,
        ("signal",),
    ),
    ToolSpec(
        "schedule_trigger",
        "Trigger a schedule",
        "Wake another agent now, by one of its schedules; a wrong name is answered with those"
        " there are.",
        arguments.ScheduleTrigger,
        deeds.trigger_schedule,
        ("trigger",),
    ),
)
