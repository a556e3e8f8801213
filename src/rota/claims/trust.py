"""Decides whose text may become an agent's instructions.

On a public repository anybody can open an issue, and some people can label it. An issue is eligible
when its author, or the account that set the ready label, is trusted by numeric id. The approval
covers the text as it was then: its hash is kept, and a later edit by an account that is not trusted
needs a new approval.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rota.claims.labels import LabelSet
from rota.claims.port import Account, Issue, Labelling, Tracker

CHANGING = "its text has changed while it was judged; it is judged again at the next look"


@dataclass(frozen=True, slots=True)
class Approval:
    text_hash: str
    by: int
    at: datetime


class ApprovalBook(Protocol):
    """Remembers what was approved, across restarts."""

    async def approval(self, number: int) -> Approval | None: ...
    async def approve(self, number: int, approval: Approval) -> None: ...


class MemoryBook:
    """For a single process without a ledger: after a restart, approvals are looked up again."""

    def __init__(self) -> None:
        self._kept: dict[int, Approval] = {}

    async def approval(self, number: int) -> Approval | None:
        return self._kept.get(number)

    async def approve(self, number: int, approval: Approval) -> None:
        self._kept[number] = approval


def text_hash(issue: Issue) -> str:
    return hashlib.sha256(f"{issue.title}\0{issue.body}".encode()).hexdigest()


@dataclass(slots=True)
class TrustGate:
    tracker: Tracker
    labels: LabelSet
    book: ApprovalBook
    trusted: frozenset[int] = frozenset()
    required: bool | None = None  # None: only on public repositories

    async def distrust(self, issue: Issue) -> str | None:
        """Why this issue's text may not reach an agent, and what to do about it; None when it
        may."""
        if not await self.is_required():
            return None
        now = text_hash(issue)
        kept = await self.book.approval(issue.number)
        if kept is not None and kept.text_hash == now:
            return None
        given = await self._given(issue)
        if given is None:
            return _nobody(issue, self.labels.ready)
        # The text is read again between the label and the edits. A text read before the label may
        # not be the approved one, and a text read after the edits may be newer than they show.
        if text_hash(await self.tracker.issue(issue.number)) != now:
            return CHANGING
        edited = await self._edited_since(issue, given, kept)
        if edited is not None:
            return edited
        await self.book.approve(issue.number, Approval(now, given.by.id, given.at))
        return None

    async def is_required(self) -> bool:
        return await self.tracker.is_public() if self.required is None else self.required

    async def approve(self, issue: Issue, by: Account, at: datetime) -> None:
        """A person has read the current text and lets agents work from it. `at` is by our clock,
        which may be slow; every label that the issue carries was set before."""
        at = max(at, issue.updated_at)
        await self.book.approve(issue.number, Approval(text_hash(issue), by.id, at))

    async def _given(self, issue: Issue) -> Labelling | None:
        """The newest approval that the tracker shows: a labelling, or else a trusted author."""
        people, own = await self._people(), (await self.tracker.account()).id
        labelled = _newest(
            await self.tracker.labellings(issue.number), self.labels, people - {own}, own
        )
        if labelled is not None or issue.author.id not in people:
            return labelled
        return Labelling("", issue.author, issue.created_at)

    async def _people(self) -> frozenset[int]:
        """The ids in `trusted`, the person who owns the repository, and our own account."""
        owner, own = await self.tracker.owner(), await self.tracker.account()
        return self.trusted | {own.id} | ({owner.id} if owner else set())

    async def _edited_since(
        self, issue: Issue, given: Labelling, kept: Approval | None
    ) -> str | None:
        """The tracker's stamps have whole seconds: an edit in the same second counts as later."""
        edit = await self.tracker.last_edit(issue.number)
        if edit is None:  # never edited, or the tracker does not tell
            changed = kept is not None and given.at <= kept.at
            return _edited("somebody", self.labels.ready) if changed else None
        if edit.at < given.at:
            return None
        # A trusted person who edits a title has not approved a stranger's earlier edit of the body.
        strange = await self.tracker.last_edit(issue.number, but=await self._people())
        if strange is None or strange.at < given.at:
            return None
        return _edited(strange.by.login if strange.by else "somebody", self.labels.ready)


def _newest(
    labellings: Sequence[Labelling], labels: LabelSet, people: frozenset[int], own: int
) -> Labelling | None:
    """Our own account puts the ready label back when work is given up, and that is no approval. So
    its labelling counts only until it first took the issue."""
    found, worked = None, False
    for one in labellings:
        worked = worked or one.label.lower() == labels.in_flight.lower()
        if one.label.lower() != labels.ready.lower():
            continue
        if one.by.id in people or (one.by.id == own and not worked):
            found = one
    return found


def _nobody(issue: Issue, ready: str) -> str:
    return (
        f"its author {issue.author.login} (id {issue.author.id}) is not trusted, and nobody who is"
        f" has put the label '{ready}' on; a trusted person sets the label, or runs"
        f" rota issue approve, or the id is added to 'trusted'"
    )


def _edited(who: str, ready: str) -> str:
    return (
        f"its text was edited by {who} after it was approved; a trusted person takes the label"
        f" '{ready}' off and puts it on again, or runs rota issue approve"
    )
