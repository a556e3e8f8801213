"""Claims on items of the folder: taking, heartbeats, takeovers and ends."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rota.model.clock import to_text
from rota.sources.markdown.claimlog import Claim, ClaimLog, End
from rota.sources.markdown.folder import CLAIMS, Folder, unwritten
from rota.sources.markdown.sheet import SUFFIX, BadSheet, Sheet
from rota.sources.markdown.tidying import Tidying
from rota.sources.port import ClaimFailureReason

ROUNDS = 5  # how often a claim is tried again after a concurrent change


@dataclass(frozen=True, slots=True)
class Held:
    """Our claim of an item. Its name is valid across processes. The number alone would not do: the
    claims of an item that is put back after its end start again from one."""

    number: int
    token: str
    firing_id: str

    @property
    def name(self) -> str:
        return f"{self.number}/{self.firing_id}"


@dataclass(frozen=True, slots=True)
class Denial:
    reason: ClaimFailureReason
    message: str


class Custody:
    def __init__(self, folder: Folder, shows: Callable[[Sheet], bool] = lambda _: True) -> None:
        self._folder = folder
        self._shows = shows
        self._tidying = Tidying(folder)

    def claim(self, stem: str, claim: Claim) -> Held | Denial:
        self._folder.demand_own()
        self._tidying.mend_all()
        for _ in range(ROUNDS):
            try:
                answer = self._denial(stem) or self._try_to_take(stem, claim)
            except BadSheet as error:
                return Denial(ClaimFailureReason.INVALID_STATE, str(error))
            except FileNotFoundError:
                continue  # it was completed between two steps, and its claims are gone
            if answer is not None:
                return answer
        return Denial(ClaimFailureReason.ALREADY_CLAIMED, "others are quicker")

    def _try_to_take(self, stem: str, claim: Claim) -> Held | Denial | None:
        """None: something has changed since it was read."""
        with ClaimLog.opened(self._folder.make(CLAIMS), stem, create=True) as log:
            if log is None:
                return None
            standing = log.standing()
            if standing.is_pending:
                return Denial(ClaimFailureReason.INVALID_STATE, unwritten(stem))
            if standing.claim is not None and standing.is_live(self._folder.clock.now()):
                holder = standing.claim.agent
                return Denial(ClaimFailureReason.ALREADY_CLAIMED, f"{holder!r} holds it")
            if standing.is_open:
                self._enter_end(log, standing.number, "lapsed", claim)
                return None
            return self._take(log, stem, standing.number + 1, claim)

    def _take(self, log: ClaimLog, stem: str, number: int, claim: Claim) -> Held | Denial | None:
        if not log.enter_claim(number, claim, self._folder.clock.now()):
            return Denial(ClaimFailureReason.ALREADY_CLAIMED, "another was quicker")
        # Meanwhile the file may have been claimed, completed and moved.
        if log.is_current() and self._denial(stem) is None:
            return Held(number, claim.token, claim.firing_id)
        self._enter_end(log, number, "withdrawn", claim)
        return None

    def _enter_end(self, log: ClaimLog, number: int, kind: str, by: Claim) -> None:
        now = self._folder.clock.now()
        log.enter_end(number, End(kind, by.token, by.agent, to_text(now)), now)

    def _denial(self, stem: str) -> Denial | None:
        found = self._folder.sheet(self._folder.file(stem))
        if found is None and not os.path.lexists(self._folder.done_file(stem)):
            return Denial(ClaimFailureReason.NOT_FOUND, f"there is no {stem}{SUFFIX}")
        if found is None:
            unfit: str | None = "it is completed"
        elif not self._shows(found):
            unfit = "its labels are not those that this source is set up for"
        else:
            unfit = self._folder.unfit(found)
        return None if unfit is None else Denial(ClaimFailureReason.INVALID_STATE, unfit)

    def _opened(self, stem: str) -> AbstractContextManager[ClaimLog | None]:
        """A folder that is not there, but perhaps on another machine, does not say that a claim
        has ended."""
        self._folder.demand_own()
        return ClaimLog.opened(self._folder.claims, stem)

    def named(self, stem: str, agent: str, name: str) -> Held | None:
        """The agent's claim of this name, ended or not; None when there is none."""
        number, _, firing_id = name.partition("/")
        with self._opened(stem) as log:
            known = log is not None and number.isdecimal() and number.isascii()
            claim = log.claim(int(number)) if log is not None and known else None
        if claim is None or (claim.agent, claim.firing_id) != (agent, firing_id):
            return None
        return Held(int(number), claim.token, firing_id)

    def beat(self, stem: str, held: Held) -> bool:
        """Renews the lease; False when the claim has ended."""
        with self._opened(stem) as log:
            if log is None or not log.holds(held.number, held.token) or log.end_of(held.number):
                return False
            log.touch(held.number, self._folder.clock.now())
            return True

    def release(self, stem: str, held: Held, end: End) -> bool:
        """False when the claim has ended some other way."""
        with self._opened(stem) as log:
            if log is None or not log.holds(held.number, held.token):
                return False
            if log.enter_end(held.number, end, self._folder.clock.now()):
                return True
            stands = log.end_of(held.number)
            return stands is not None and (stands.by, stands.result) == (end.by, end.result)

    def complete(self, stem: str, held: Held | None, end: End) -> bool:
        """As `release`, with a result. Also True if this very result is recorded already."""
        ended = held is not None and self.release(stem, held, end)
        if not ended and not self._stands(stem, end):
            return False
        self._tidying.mend(stem)
        return True

    def _stands(self, stem: str, end: End) -> bool:
        with self._opened(stem) as log:
            last = None if log is None else log.standing().end
        if log is not None:
            return last is not None and (last.agent, last.result) == (end.agent, end.result)
        shown = {**end.result, "agent": end.agent}
        return any(shown.items() <= result.items() for result in self._tidying.results(stem))
