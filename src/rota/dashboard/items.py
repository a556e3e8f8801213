"""One item, and everything about it."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.api.answers import Answer
from rota.api.call import Call
from rota.api.permits import SCOPE_OF
from rota.api.routing import endpoint
from rota.dashboard.markdown import rendered, web_address
from rota.dashboard.prose import pieces
from rota.dashboard.rendering import page
from rota.dashboard.run_logs import LogEnd, log_of
from rota.model.access import DISPATCH, READ, WORK, Caller
from rota.model.events import Event, EventType
from rota.model.runs import Run, RunFilter
from rota.model.status import TERMINAL, Status, Verb, allowed_from
from rota.model.work import WorkItem
from rota.queue.statistics import ERROR
from rota.queue.views import EVENTS_SHOWN, Detail

EVENTS_AT_ONCE = 15  # older ones need a click
RUNS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Deed:
    """A verb as a button; with `asks`, a dialog opens first."""

    label: str
    asks: str | None = None  # title of the dialog
    text: str = ""
    kind: str = ""
    agent: bool = False  # whether the dialog asks for it
    address: bool = False
    note: str = "Note (optional)"
    needs_note: bool = False
    dialog: str | None = None  # its name, if that is not the verb's
    confirm: str | None = None  # the dialog's button, if that is not the label


# For `release`, where a run has ended with a question: after a resume nobody would go on with it.
ANSWER = Deed(
    "Answer…",
    "Answer, and return the item to the queue",
    "An agent claims the item again and reads your answer.",
    "main",
    note="Your answer",
    needs_note=True,
    dialog="answer",
)
DEEDS: Mapping[Verb, Deed] = {
    Verb.DISPATCH: Deed(
        "Dispatch…",
        "Dispatch to which agent?",
        "The agent gets this item first when it next asks for work.",
        "main",
        agent=True,
    ),
    Verb.START: Deed("Start", kind="main"),
    Verb.COMPLETE: Deed("Complete…", "Complete this item?", kind="main"),
    Verb.RESUME: Deed("Resume", kind="main"),
    Verb.RETRY: Deed("Retry", kind="main"),
    Verb.BLOCK: Deed("Block…", "Block this item?", note="What it waits for", needs_note=True),
    Verb.HAND_OVER: Deed("Hand over…", "Hand over to review", address=True),
    Verb.RELEASE: Deed(
        "Release…", "Return this item to the queue?", "It waits there until an agent claims it."
    ),
    Verb.REOPEN: Deed(
        "Reopen…",
        "Return this item to the queue?",
        "It waits there until an agent claims it.",
        note="What is missing (optional)",
    ),
    Verb.FAIL: Deed(
        "Fail…",
        "Mark this item as failed?",
        "It stays failed until it is retried.",
        "danger",
        note="Why (optional)",
    ),
    Verb.CANCEL: Deed(
        "Cancel…",
        "Cancel this item?",
        "No agent will work on it any more. This cannot be undone.",
        "danger",
        note="Why (optional)",
        confirm="Cancel the item",
    ),
}
_BESIDE_AN_ANSWER = {verb: deed for verb, deed in DEEDS.items() if verb is not Verb.RELEASE}
# An item of a source is claimed through its source, where everybody sees the claim.
_TAKING = frozenset({Verb.DISPATCH, Verb.START, Verb.RESUME})
# Dialogs that can end somebody else's claim.
FORCED = frozenset({Verb.COMPLETE, Verb.FAIL, Verb.BLOCK, Verb.HAND_OVER, Verb.RELEASE})

# Texts for events whose own name is not clear.
WORDS: Mapping[str, str] = {
    EventType.HANDED_OVER: "handed over to review",
    EventType.EDITED: "edited",
    EventType.NOTED: "note added",
    EventType.UNHELD: "hold removed",
    EventType.UNBLOCKED: "last blocker completed",
    EventType.LATE_RESULT: "late result, kept but not accepted",
    EventType.RUN_STARTED: "run started",
    EventType.RUN_FINISHED: "run ended",
    EventType.SIGNAL_CREATED: "signal created",
    EventType.SIGNAL_FIRED: "signal fired",
    EventType.SIGNAL_CANCELLED: "signal cancelled",
    EventType.SIGNAL_STOPPED: "signal stopped",
    EventType.FOLLOW_UP_COMPLETED: "follow-up completed",
}


# Event data that its line already shows in words, as links, or as the status.
_IN_WORDS = frozenset({"notes", "summary", "error", "run_id", "outcome"})
_OF_SIGNALS = frozenset(
    {
        "signal_id", "firing_id", "name", "kind", "action", "cause", "work_item_id",
        "enqueued_job_id", "follow_up_id", "trigger_id", "outbox_id",
    }
)  # fmt: skip
SHOWN_ELSEWHERE: Mapping[str, frozenset[str]] = defaultdict(
    lambda: _IN_WORDS,
    {
        EventType.RUN_FINISHED: _IN_WORDS | {"status"},
        EventType.SIGNAL_CREATED: _IN_WORDS | _OF_SIGNALS,
        EventType.SIGNAL_FIRED: _IN_WORDS | _OF_SIGNALS,
        EventType.SIGNAL_CANCELLED: _IN_WORDS | _OF_SIGNALS,
        EventType.SIGNAL_STOPPED: _IN_WORDS | _OF_SIGNALS,
    },
)
# A note of at most this length is part of the explanation, and not repeated below it.
SHORT_NOTE = 300


@endpoint("GET", "/items/{id}", scope=READ, tag="dashboard", hidden=True)
async def item(call: Call) -> Answer:
    """One item with its history."""
    detail = await call.ledger.views.detail(call.id)
    return await page(
        call, "item.html", "board", item=detail.item, detail=detail,
        **_rights(call.caller, detail), **_told(detail), **await _around(call, detail.item),
        forced=FORCED, words_of=WORDS, web_address=web_address, pieces=pieces,
        source_address=_source_address(detail.item),
    )  # fmt: skip


def deeds(caller: Caller, detail: Detail) -> dict[Verb, Deed]:
    """What this caller may do to the item now, the most likely first."""
    item = detail.item
    if caller.agents is not None and item.assigned_agent not in caller.agents:
        return {}
    kept_away = _TAKING if item.source is not None else frozenset()
    allowed = allowed_from(item.status).keys() - kept_away
    offered = DEEDS
    if detail.waits_for_an_answer:
        allowed -= {Verb.RESUME}
        offered = {Verb.RELEASE: ANSWER} | _BESIDE_AN_ANSWER
    return {verb: deed for verb, deed in offered.items() if verb in allowed and _may(caller, verb)}


def _may(caller: Caller, verb: Verb) -> bool:
    return caller.may(SCOPE_OF[verb])


def _rights(caller: Caller, detail: Detail) -> dict[str, Any]:
    """Buttons; and dialogs for all verbs, because the buttons change while the page is open."""
    item, may_steer = detail.item, caller.may(DISPATCH)
    return {
        "deeds": deeds(caller, detail),
        "all_deeds": DEEDS,
        "all_dialogs": {**{str(verb): deed for verb, deed in DEEDS.items()}, "answer": ANSWER},
        "may_work": caller.may(WORK),
        "may_steer": may_steer,
        "may_hold": may_steer and (item.status not in TERMINAL or item.status is Status.FAILED),
        "through_source": item.source is not None and bool(allowed_from(item.status)),
    }


def _told(detail: Detail) -> dict[str, Any]:
    events = detail.events[::-1]
    blockers = [link.blocker_id for link in detail.blocked_by]
    return {
        "said_before": _said_before(events),
        "shown_elsewhere": SHOWN_ELSEWHERE,
        "shows_note": bool(detail.item.notes) and not _is_explained(detail.item),
        "item_addresses": {one: f"/items/{one}" for one in blockers},
        "recent": events[:EVENTS_AT_ONCE],
        "older": events[EVENTS_AT_ONCE:],
        "is_cut": len(events) >= EVENTS_SHOWN,
    }


def _is_explained(item: WorkItem) -> bool:
    """Whether the explanation begins with the item's note."""
    told = item.status in (Status.BLOCKED, Status.FAILED)
    return told and len(item.notes or "") <= SHORT_NOTE


def _said_before(events: Sequence[Event]) -> set[int]:
    """Events whose note only repeats what the end of the run of that claim says."""
    ends = {one.epoch: one.data for one in events if one.type == EventType.RUN_FINISHED}
    noted = [one for one in events if one.data.get("notes") and one.epoch in ends]
    return {one.seq for one in noted if _repeats(str(one.data["notes"]), ends[one.epoch])}


def _repeats(note: str, end: Mapping[str, Any]) -> bool:
    for said in (end.get("summary"), end.get("error") and f"{ERROR}{end['error']}"):
        note = note.replace(str(said), "", 1) if said else note
    return not note.strip()


async def _around(call: Call, item: WorkItem) -> dict[str, Any]:
    """What the rest of the ledger, and the disk, hold about the item."""
    views = call.ledger.views
    runs = await call.ledger.runs.find(RunFilter(work_item_id=item.id), RUNS_SHOWN + 1)
    return {
        "run_addresses": {run.id: f"/ui/runs/{run.id}" for run in runs},
        "explanation": await views.explain(item.id),
        "following": await views.following(item.id),
        "project": await views.project(item.project_id) if item.project_id else None,
        "agents": [load.agent.name for load in await views.agents()],
        "runs": runs[:RUNS_SHOWN],
        "more_runs": len(runs) > RUNS_SHOWN,
        "run": runs[0] if runs else None,
        "log": await _log(call, runs),
        "body": await asyncio.to_thread(rendered, item.body) if item.body else None,
    }


async def _log(call: Call, runs: list[Run]) -> LogEnd:
    return await log_of(call, runs[0]) if runs else LogEnd([], 0)


def _source_address(item: WorkItem) -> str | None:
    """The address where people read the item: an item from a tracker has it in its payload."""
    if item.source is None or not isinstance(item.payload, dict):
        return None
    return web_address(item.payload.get("url"))


ENDPOINTS = (item,)
