"""Claims of dead runs: finds, suspects and ends them. For people and scripts; a running server does
the same by itself."""

from dataclasses import replace
from typing import Any

from rota.claims.comments import Entry, Kind, marker
from rota.claims.protocol import CommentClaims
from rota.claims.sweep import Deed, Finding, Report
from rota.claims.timing import HOURS
from rota.model.errors import InvalidInput
from rota.sources.claimants import is_of
from rota.sources.desk import IssueDesk
from rota.sources.tending import make_sweep

_A_MOMENT = 0.001
_ENDS = frozenset({Deed.RELEASED, Deed.EXPIRED})
STALE = _ENDS | {Deed.SUSPECTED}


class StaleClaims:
    def __init__(self, desk: IssueDesk) -> None:
        self._desk = desk

    async def found(self, max_age_hours: float | None = None) -> list[dict[str, Any]]:
        """The claims that a sweep would end or suspect, or has suspected. Changes nothing."""
        report = await self.sweep(max_age_hours, dry_run=True)
        stale = [one for one in report.findings if one.deed in STALE]
        stale = sorted([*stale, *report.asked_after], key=lambda one: one.number)
        return [self._told(one) for one in stale]

    def _told(self, one: Finding) -> dict[str, Any]:
        return {
            "repo": self._desk.tracker.repo,
            "number": one.number,
            "title": one.title,
            "codename": one.codename,
            "firing_id": one.firing_id,
            "age_hours": round(one.age_hours, 2),
        }

    async def sweep(self, max_age_hours: float | None = None, *, dry_run: bool = False) -> Report:
        """`max_age_hours` is how long a claim of another fleet may be silent."""
        claims = self._comments()
        quiet = None if max_age_hours is None else _seconds(max_age_hours)
        also = await self._in_our_hands()
        sweep = make_sweep(self._desk, claims, dry_run=dry_run)
        report = await sweep.run(also, quiet=quiet, dry_run=dry_run)
        if not dry_run:
            for one in report.findings:
                await self._record(one)
        return report

    async def _in_our_hands(self) -> list[int]:
        if self._desk.ledger is None:
            return []
        ours = await self._desk.ledger.outside.open_claims(self._desk.tracker.source)
        return [int(claim.source_ref) for claim in ours]

    async def _record(self, one: Finding) -> None:
        """Records in the ledger that the tracker does not show the claim any more."""
        if self._desk.ledger is None or one.deed is not Deed.RELEASED:
            return
        outside = self._desk.ledger.outside
        if await outside.find_claim(one.firing_id) is not None:
            await outside.ended(one.firing_id, "stale-swept")

    async def end(
        self, number: int, *, by: str, codename: str | None = None, firing: str | None = None
    ) -> bool:
        """True when the holder's claim has ended. A claim of another fleet is first only suspected;
        a later call ends it, if nobody has answered for the grace."""
        marker(Kind.SUSPECT, by=by)
        claims = self._comments()
        holder = (await claims.standing(number)).holder
        if holder is None or not _is_meant(holder, codename, firing):
            return False
        sweep, report = replace(make_sweep(self._desk, claims), swept_by=by), Report()
        await sweep._sweep_one(number, report, _A_MOMENT, dry_run=False)
        for one in report.findings:
            await self._record(one)
        if not any(one.deed in _ENDS for one in report.findings):
            return False
        now = (await claims.standing(number)).holder
        return now is None or now.id != holder.id

    def _comments(self) -> CommentClaims:
        if not isinstance(self._desk.claims, CommentClaims):
            raise InvalidInput(
                f"{self._desk.tracker.repo}: with claim_mode labels nothing says whose a claim is"
                " or how old; take the label off by hand, or use claim_mode comments"
            )
        return self._desk.claims


def _is_meant(holder: Entry, codename: str | None, firing: str | None) -> bool:
    return codename in (None, holder.codename) and (
        firing is None or is_of(holder.firing_id, firing)
    )


def _seconds(hours: float) -> float:
    if not hours >= 0:  # nan is neither
        raise InvalidInput("max_age_hours must not be negative", field="max_age_hours")
    return max(hours * HOURS, _A_MOMENT)  # 0 means "however young", not the default
