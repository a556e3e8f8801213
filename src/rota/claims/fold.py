"""Who holds an issue, from its claim log alone.

Pure and deterministic. The verdict on a claim depends only on entries with
smaller ids, so once all of those can be read it never changes: the id of the
holder's entry serves as fencing token. Of times, only differences between
stamps of the tracker itself are used.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rota.claims.comments import Entry, Kind


@dataclass(frozen=True, slots=True)
class Standing:
    """What the log says up to some entry."""

    holder: Entry | None = None
    done: Entry | None = None  # the entry that ended the work for good
    done_claim: int | None = None  # the claim it was done under
    suspects: tuple[Entry, ...] = ()  # unanswered, against the holder
    heard: Entry | None = None  # the holder's last sign of life
    ended: Entry | None = None  # what last set the issue free
    revoked: Entry | None = None  # the last claim taken from a holder who was not asked
    disputed: Entry | None = None  # a claim that somebody edited: a person has to look

    @property
    def is_free(self) -> bool:
        return self.holder is None and self.done is None and self.disputed is None


def fold(log: Iterable[Entry], grace: float) -> Standing:
    """`grace` is for claims that do not say theirs, see `grace_of`."""
    standing = Standing()
    for entry in log:
        standing = _step(standing, entry, grace)
    return standing


def grace_of(claim: Entry, default: float) -> float:
    """How many seconds a suspicion must have stood before it may expire this claim. The claim
    says it, so that fleets that are set up differently still see the same holder."""
    said = claim.fields.get("grace", "")
    return float(said) if _SECONDS.fullmatch(said) else default


_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)


def holds(log: Sequence[Entry], claim_id: int, grace: float) -> bool:
    """Was this claim granted, and does it stand now?"""
    granted = fold((entry for entry in log if entry.id <= claim_id), grace).holder
    now = fold(log, grace).holder
    return granted is not None and granted.id == claim_id == (now.id if now else None)


def _step(now: Standing, entry: Entry, grace: float) -> Standing:
    if entry.kind is Kind.CLAIM:
        return _claim(now, entry)
    if entry.kind is Kind.REVOKE and _is_done(now, entry):
        return replace(now, done=None, done_claim=None, ended=entry)  # an operator reopens it
    if now.holder is None or not entry.names(now.holder):
        return now  # about a claim that is void or over: late and repeated words are harmless
    return _about_holder(now, now.holder, entry, grace)


def _is_done(now: Standing, entry: Entry) -> bool:
    return now.done_claim is not None and entry.fields.get("claim") == str(now.done_claim)


def _claim(now: Standing, entry: Entry) -> Standing:
    """A claim that finds a holder, or finished work, is void for ever."""
    if entry.edited:
        now = replace(now, disputed=entry)
    if now.holder is not None or now.done is not None:
        return now
    return replace(now, holder=entry, heard=entry, suspects=())


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
    """Only a suspicion that went unanswered for the whole grace ends a claim."""
    return any(
        entry.fields.get("suspect") == str(suspect.id)
        and (entry.created_at - suspect.created_at).total_seconds() >= grace
        for suspect in now.suspects
    )
