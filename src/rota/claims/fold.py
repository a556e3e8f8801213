"""Computes the holder of an issue from its claim log alone.

Pure and deterministic. The verdict on a claim depends only on entries with smaller ids. It never
changes once all of those can be read, so the id of the holder's entry serves as fencing token. Only
differences between the tracker's own timestamps are used, never a local clock.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rota.claims.comments import NOT_READY, Entry, Kind


@dataclass(frozen=True, slots=True)
class Standing:
    """What the log says up to some entry."""

    holder: Entry | None = None
    done: Entry | None = None  # the entry that ended the work for good
    done_claim: int | None = None  # the claim it was done under
    suspects: tuple[Entry, ...] = ()  # unanswered suspicions against the holder
    heard: Entry | None = None  # the holder's last sign of life
    ended: Entry | None = None  # the entry that last set the issue free
    revoked: Entry | None = None  # the last revocation; its holder was not asked first
    disputed: Entry | None = None  # a claim that was edited: a person has to look at it
    granted: Entry | None = None  # the last claim that held it, whatever became of it
    offered: bool = False  # it was offered to agents, as far as one of the claims that held it says

    @property
    def is_free(self) -> bool:
        return self.holder is None and self.done is None and self.disputed is None


def fold(log: Iterable[Entry], grace: float) -> Standing:
    """`grace` applies to claims that do not state their own, see `grace_of`."""
    standing = Standing()
    for entry in log:
        standing = _step(standing, entry, grace)
    return standing


def grace_of(claim: Entry, default: float) -> float:
    """How many seconds a suspicion must stay unanswered before it may expire this claim. The claim
    states the value, so that fleets with different settings compute the same holder."""
    said = claim.fields.get("grace", "")
    return float(said) if _SECONDS.fullmatch(said) else default


_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)


def holds(log: Sequence[Entry], claim_id: int, grace: float) -> bool:
    """Was this claim granted, and is it still the holder's?"""
    granted = fold((entry for entry in log if entry.id <= claim_id), grace).holder
    now = fold(log, grace).holder
    return granted is not None and granted.id == claim_id == (now.id if now else None)


def _step(now: Standing, entry: Entry, grace: float) -> Standing:
    if entry.kind is Kind.CLAIM:
        return _claim(now, entry)
    if entry.kind is Kind.REVOKE and _is_done(now, entry):
        return replace(now, done=None, done_claim=None, ended=entry)  # an operator reopens it
    if now.holder is None or not entry.names(now.holder):
        return now  # names a void or ended claim: late and repeated entries are harmless
    return _about_holder(now, now.holder, entry, grace)


def _is_done(now: Standing, entry: Entry) -> bool:
    return now.done_claim is not None and entry.fields.get("claim") == str(now.done_claim)


def _claim(now: Standing, entry: Entry) -> Standing:
    """A claim that meets a holder or finished work is void for ever."""
    if entry.edited:
        now = replace(now, disputed=entry)
    if now.holder is not None or now.done is not None:
        return now
    offered = now.offered or entry.fields.get("ready") != NOT_READY
    return replace(now, holder=entry, granted=entry, heard=entry, suspects=(), offered=offered)


def _about_holder(now: Standing, holder: Entry, entry: Entry, grace: float) -> Standing:
    match entry.kind:
        case Kind.RELEASE | Kind.REVOKE:
            revoked = entry if entry.kind is Kind.REVOKE else now.revoked
            return replace(now, holder=None, suspects=(), ended=entry, revoked=revoked)
        case Kind.DONE:
            return replace(now, holder=None, suspects=(), done=entry, done_claim=holder.id)
        case Kind.SUSPECT:
            return replace(now, suspects=(*now.suspects, entry))
        case Kind.ALIVE:
            return replace(now, suspects=(), heard=entry)
        case Kind.EXPIRE if _expires(now, entry, grace_of(holder, grace)):
            return replace(now, holder=None, suspects=(), ended=entry)
        case _:
            return now


def _expires(now: Standing, entry: Entry, grace: float) -> bool:
    """Only a suspicion that stayed unanswered for the whole grace ends a claim."""
    return any(
        entry.fields.get("suspect") == str(suspect.id)
        and (entry.created_at - suspect.created_at).total_seconds() >= grace
        for suspect in now.suspects
    )
