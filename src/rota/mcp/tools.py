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
        "Claim an item to work on: the best one that is ready for you, or the one named by id. Call"
        " this before you change anything; nobody else can work on the item while you hold it."
        " Returns the item and a claim with a token; claimed is false when there is nothing.",
        arguments.Claim,
        claiming.claim,
        ("claimed",),
    ),
    ToolSpec(
        "work_progress",
        "Keep a claim, write a note",
        "Report that you still work on an item, and how far you are. Call it at least every third"
        " of the lease: it extends your claim. Without a claim it only writes a note. The error"
        " claim_lost means: stop working on the item at once.",
        arguments.Progress,
        deeds.progress,
        ("id",),
    ),
    ToolSpec(
        "work_complete",
        "Complete an item",
        "Complete the item that you claimed, when it is done and checked. With review=true and"
        " artifact_url it goes to review instead.",
        arguments.Complete,
        deeds.complete,
        ("item",),
        repeatable=True,
    ),
    ToolSpec(
        "work_return",
        "Give an item back",
        "Give back an item that you claimed and cannot finish: release it for others, block it"
        " until something happens, or fail it. Never just stop: return what you hold.",
        arguments.Return,
        deeds.give_back,
        ("item",),
        destroys=True,
        repeatable=True,
    ),
    ToolSpec(
        "work_list",
        "List items",
        "List items by priority and age; ready=true lists only items that can be claimed now. You"
        " do not need this to claim: work_claim picks the best item by itself.",
        arguments.List,
        deeds.list_items,
        ("items", "more"),
        reads=True,
    ),
    ToolSpec(
        "work_show",
        "Show an item",
        "Show one item with its text, notes, links and latest history.",
        arguments.Show,
        deeds.show,
        ("item",),
        reads=True,
    ),
    ToolSpec(
        "work_explain",
        "Explain an item",
        "Explain why nobody works on an item, and what would change that.",
        arguments.Show,
        deeds.explain,
        ("summary", "reasons"),
        reads=True,
    ),
    ToolSpec(
        "work_add",
        "Add an item",
        "Submit a new item, for work that you find on the way and should not do now. It is queued;"
        " you do not hold it.",
        arguments.Add,
        deeds.add,
        ("item",),
    ),
    ToolSpec(
        "signal_add",
        "Add a signal",
        "Make a signal: when an item enters a status, a new item is submitted. Use it instead of"
        " waiting yourself.",
        arguments.SignalAdd,
        deeds.add_signal,
        ("signal",),
    ),
    ToolSpec(
        "schedule_trigger",
        "Trigger a schedule",
        "Wake another agent now, by one of its schedules. A wrong name is answered with the names"
        " that there are.",
        arguments.ScheduleTrigger,
        deeds.trigger_schedule,
        ("trigger",),
    ),
)
