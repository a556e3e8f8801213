"""What a person can do to an item: the verbs of the status machine, and holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rota.model.status import Status, Verb, allowed_from

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Blank:
    """A field to fill in; `name` is the client's parameter."""

    name: str
    label: str
    needed: bool = False
    value: str = ""


_WHY = Blank("notes", "Why? (optional)")
_RESULT = Blank("notes", "The result (optional)")
_FAULT = Blank("notes", "What went wrong? (optional)")
_QUESTION = Blank("notes", "What does it wait for?", needed=True)
_MISSING = Blank("notes", "What is missing? (optional)")
_FOR_GOOD = "No agent will do the work. This cannot be undone."
_AGENT = Blank("agent", "To which agent?", needed=True)
_HAND_OVER = (
    Blank("artifact_url", "Where is the result? (URL)", needed=True),
    Blank("notes", "What to look at (optional)"),
)
_RELEASE = Blank("notes", "Your answer, or why (optional)")
_HOLD = Blank("reason", "Why should no agent pick it up?", needed=True)
_NOTE = Blank("notes", "Your note", needed=True)


@dataclass(frozen=True, slots=True)
class Deed:
    """`name` is the client's method; a verb where it moves the item."""

    name: str
    key: str
    label: str
    done: str  # what is said afterwards
    blanks: tuple[Blank, ...] = ()
    forcible: bool = False  # can end somebody else's claim
    warning: str = ""  # with one, it is asked whether this is meant

    @property
    def words(self) -> str:
        return self.label.lower()


# Release, reopen and retry share a key: no status allows two of them, and each leads to the queue.
# What ends an item without a result has a capital letter: in the browser, `x` selects a card and
# `f` follows a log.
DEEDS: Mapping[str, Deed] = {
    deed.name: deed
    for deed in (
        Deed(Verb.DISPATCH, "d", "Dispatch", "Dispatched", (_AGENT,)),
        Deed(Verb.START, "s", "Start", "Started"),
        Deed(Verb.COMPLETE, "c", "Complete", "Completed", (_RESULT,), True),
        Deed(Verb.BLOCK, "b", "Block", "Blocked", (_QUESTION,), True),
        Deed(Verb.RESUME, "u", "Resume", "Resumed"),
        Deed(Verb.HAND_OVER, "v", "Hand over", "Handed over", _HAND_OVER, True),
        Deed(Verb.FAIL, "F", "Fail", "Failed", (_FAULT,), True),
        Deed(Verb.RELEASE, "r", "Release", "Released", (_RELEASE,), True),
        Deed(Verb.REOPEN, "r", "Reopen", "Reopened", (_MISSING,)),
        Deed(Verb.RETRY, "r", "Retry", "Queued again"),
        Deed(Verb.CANCEL, "X", "Cancel", "Cancelled", (_WHY,), warning=_FOR_GOOD),
        Deed("hold", "o", "Hold", "Held", (_HOLD,)),
        Deed("unhold", "o", "Unhold", "Hold removed"),
        Deed("note", "n", "Note", "Note added", (_NOTE,)),
    )
}


def possible(item: Json) -> list[Deed]:
    """What may be done to the item now, in the order of the table."""
    moves = {str(verb) for verb in allowed_from(Status(item["status"]))}
    other = "hold" if item["hold_reason"] is None else "unhold"
    return [deed for deed in DEEDS.values() if deed.name in {*moves, other, "note"}]


def by_key(item: Json, key: str) -> Deed | None:
    return next((deed for deed in possible(item) if deed.key == key), None)


def refusal(item: Json, words: str) -> str:
    """Why a key does nothing, without a call that the ledger would refuse."""
    ways = [deed.words for deed in possible(item) if deed.name in set(Verb)]
    status = str(item["status"]).replace("_", " ")
    can = f"possible: {', '.join(ways)}" if ways else "this status is final"
    return f"it is {status}; {words} is not possible from that status ({can})"
