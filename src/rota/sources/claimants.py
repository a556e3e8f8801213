"""Claims without a supervised run: by scripts that call `claim_issue`, and by people.

No heartbeats are sent for them, so the lease is as long as a claim may be silent on the tracker. A
late report from a run that has lost its claim changes nothing.
"""

import re
from enum import Enum, auto
from itertools import count

from rota.claims.comments import Kind, marker
from rota.claims.labels import LIFECYCLE_LABELS
from rota.claims.protocol import Refusal
from rota.claims.timing import HOURS
from rota.model.errors import ClaimLost, InvalidInput
from rota.model.work import check_name
from rota.sources.desk import Held, IssueDesk
from rota.sources.port import ReleaseOptions, WorkOutcome, WorkResult
from rota.sources.reports import pull_request

UNATTENDED_SECONDS = 4 * HOURS
_UNFINISHED: dict[str, WorkOutcome] = {"failure": "failure", "partial": "partial"}


class Station(Enum):
    """Where an issue goes when its run releases it."""

    READY = auto()
    PR_OPEN = auto()
    DONE = auto()


class Claimants:
    def __init__(self, desk: IssueDesk) -> None:
        self._desk = desk

    # take

    async def claim(
        self,
        number: int,
        codename: str,
        *,
        firing: str | None = None,
        lease_seconds: float = UNATTENDED_SECONDS,
    ) -> Held | Refusal:
        check_name(codename, "codename")
        if firing is not None:
            marker(Kind.CLAIM, firing_id=firing)  # validates the firing before anything is taken
            firing = await self._unused(firing)
        return await self._desk.take(number, codename, firing=firing, lease_seconds=lease_seconds)

    async def _unused(self, firing: str) -> str:
        """A run may take one issue after another; each of its claims gets a name of its own."""
        if self._desk.ledger is None:
            return firing
        name = firing
        for again in count(2):
            if await self._desk.ledger.outside.find_claim(name) is None:
                break
            name = f"{firing}.{again}"
        return name

    # let go

    async def release(
        self,
        number: int,
        codename: str,
        *,
        firing: str | None = None,
        outcome: str = "success",
        transition_to: str | None = None,
        pr: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """False when this run does not hold the issue (any more); nothing has changed then."""
        station = self._station(outcome, transition_to, pr)
        marker(Kind.RELEASE, outcome=outcome, pr=pr)
        try:
            held = await self._held(number, codename, firing)
            if station is Station.PR_OPEN and pr is None:
                return await self._finish_unnamed(held, reason)
            if station is not Station.READY:
                await self._desk.finish(number, codename, _result("success", reason, pr))
                return True
            return await self._give_back(held, codename, outcome, transition_to, reason)
        except ClaimLost:
            return False

    async def _held(self, number: int, codename: str, firing: str | None) -> Held:
        held = await self._desk.held(number, codename)
        name = held.grant.claimant.firing_id
        if firing is not None and not is_of(name, firing):
            raise ClaimLost(f"'{codename}' holds #{number} in another run: {name}, not {firing}")
        return held

    def _station(self, outcome: str, transition_to: str | None, pr: str | None) -> Station:
        if pr is not None and pull_request([pr]) is None:
            raise InvalidInput(
                f"pr: {pr[:100]!r} is not the address of a pull request; write"
                " https://HOST/OWNER/REPO/pull/NUMBER",
                field="pr",
            )
        if transition_to is None:
            return Station.PR_OPEN if outcome == "success" and pr else Station.READY
        stations = self._stations()
        if transition_to.lower() not in stations:
            raise InvalidInput(
                f"transition_to: an issue cannot be let go to {transition_to[:100]!r}; possible"
                f" are {', '.join(stations)}",
                field="transition_to",
            )
        return stations[transition_to.lower()]

    def _stations(self) -> dict[str, Station]:
        """By the names of `label-state`, and by this repository's own names for them."""
        labels = self._desk.keeper.labels
        ready, _, pr_open, done = (name for name, _, _ in LIFECYCLE_LABELS)
        ours = (labels.ready, labels.pr_open, labels.done)
        return {
            name.lower(): station
            for names in ((ready, pr_open, done), ours)
            for name, station in zip(names, Station, strict=True)
        }

    async def _finish_unnamed(self, held: Held, reason: str | None) -> bool:
        """A pull request is open, but its address is not known: the issue stays open for it."""
        text = f"**Pull request opened.** {reason or ''}".rstrip()
        # Not `none`: after a crash, a server that reads `none` may close the issue.
        accepted = await self._desk.claims.finish(held.grant, "unnamed", text)
        if self._desk.ledger is not None:
            outside, name = self._desk.ledger.outside, held.grant.claimant.firing_id
            if accepted:
                await outside.finished(name, "finished")
                await outside.ended(name, "success")
            else:
                await outside.give_back(name, "claim_lost")
        return accepted

    async def _give_back(
        self,
        held: Held,
        codename: str,
        outcome: str,
        transition_to: str | None,
        reason: str | None,
    ) -> bool:
        number = held.grant.number
        if outcome in _UNFINISHED and transition_to is None:
            await self._desk.finish(number, codename, _result(_UNFINISHED[outcome], reason, None))
            return True
        # Labels follow the outcome in the log, and a failed issue does not become ready by itself.
        said = f"retry-after-{outcome}" if outcome in _UNFINISHED else outcome
        options = ReleaseOptions(reason, add_comment=reason is not None)
        return await self._desk.release(number, codename, outcome=said, options=options)


def is_of(name: str, firing: str) -> bool:
    """Does a claim of this name belong to that run?"""
    return re.fullmatch(rf"{re.escape(firing)}(\.[0-9]+)?", name) is not None


def _result(outcome: WorkOutcome, reason: str | None, pr: str | None) -> WorkResult:
    return WorkResult(outcome, reason or "no summary given", artifacts=(pr,) if pr else ())
