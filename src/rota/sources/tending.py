"""Looks after one repository in a running server: polls, mirrors, supervises and sweeps it.

Each duty has its own rhythm and one `tick()` does what is due. A webhook only
makes the next poll come sooner: what it says is never believed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

import structlog

from rota.claims.pickup import stage
from rota.claims.port import Issue, Tracker
from rota.claims.projection import Repair, project
from rota.claims.protocol import CommentClaims, Look
from rota.claims.sweep import Report, Sweep
from rota.claims.timing import Pace
from rota.config.sources import Forge
from rota.model.clock import to_text
from rota.model.errors import IssueNotFound, RotaError, WorkSourceError
from rota.model.sources import Mirrored, SourceClaim
from rota.model.status import Status, Verb
from rota.queue.intake import LONGEST
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.sources.desk import Held, IssueDesk, held_by
from rota.sources.items import new_item

log = structlog.get_logger()

SWEEP_SECONDS = 300.0
LATE = "finished_before_a_crash"


@dataclass(slots=True)
class Rhythm:
    """When a duty is next due; the first time at once."""

    seconds: float
    due: float = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self.due

    def done(self, now: float) -> None:
        self.due = now + self.seconds


@dataclass(slots=True)
class Tending:
    tracker: Tracker
    settings: Forge
    ledger: Ledger
    open_desk: Callable[[], Awaitable[IssueDesk]]
    poll: Rhythm
    pace: Pace = field(default_factory=Pace)
    sweep: Rhythm = field(default_factory=lambda: Rhythm(SWEEP_SECONDS))
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    _desk: IssueDesk | None = None
    _look: Rhythm | None = None
    _deadlines: dict[str, float] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.tracker.source

    @property
    def name(self) -> str:
        return f"source {self.source}"

    def wake(self) -> None:
        """Something happened there; look soon."""
        self.poll.due = 0.0
        self.woken.set()

    async def aclose(self) -> None:
        await self.tracker.aclose()

    async def tick(self) -> float:
        """Do what is due; a tracker that fails is tried again, and people can see it."""
        self.woken.clear()
        try:
            await self._tick()
        except WorkSourceError as error:
            log.warning("source cannot be read", source=self.source, error=error.message)
            await self._note(poll_error=error.message)
            self.poll.done(self.pace.elapsed())
            await self._past_deadline()
        return self._pause()

    async def _tick(self) -> None:
        desk = await self._at_desk()
        look = self._look = self._look or Rhythm(desk.claims.times.poll)
        if look.is_due(self.pace.elapsed()):
            await self._supervise(desk)
            look.done(self.pace.elapsed())
        if self.poll.is_due(self.pace.elapsed()):
            await self._poll(desk)
            self.poll.done(self.pace.elapsed())
        if self.sweep.is_due(self.pace.elapsed()):
            await self._sweep(desk)
            self.sweep.done(self.pace.elapsed())

    async def _at_desk(self) -> IssueDesk:
        if self._desk is None:
            self._desk = await self.open_desk()
        return self._desk

    def _pause(self) -> float:
        now = self.pace.elapsed()
        dues = [self.poll.due, self.sweep.due, *([self._look.due] if self._look else [])]
        return max(0.05, min(dues) - now)

    async def _note(self, **news: str | float | None) -> None:
        await self.ledger.outside.note_state(self.source, **news)  # type: ignore[arg-type]

    # poll

    async def _poll(self, desk: IssueDesk) -> None:
        """The board shows what waits there, and why what waits is not taken."""
        ready = await desk.tracker.issues(labels=[desk.keeper.labels.ready])
        shown = {str(issue.number): await self._mirrored(desk, issue) for issue in ready}
        for ref in await self.ledger.outside.waiting(self.source):
            if ref not in shown and (left := await self._look_after(desk, ref)) is not None:
                shown[ref] = left
        await self.ledger.outside.mirror(list(shown.values()))
        await self.ledger.outside.gone(self.source, shown)
        await self._note(polled_at=to_text(self.pace.now()), poll_error=None)

    async def _mirrored(self, desk: IssueDesk, issue: Issue) -> Mirrored:
        refused = await desk.keeper.judge(issue)
        reason = None if refused is None else str(refused)[: LONGEST["hold_reason"]]
        return Mirrored(new_item(self.source, issue), reason)

    async def _look_after(self, desk: IssueDesk, ref: str) -> Mirrored | None:
        """An item that waits here, but is not ready there any more."""
        try:
            issue = await desk.tracker.issue(int(ref))
        except IssueNotFound:
            return None
        if not issue.is_open:
            return None
        if await self._was_brought_back(desk, issue):
            labels = desk.keeper.labels
            await project(desk.tracker, issue.number, Repair((labels.ready,), (labels.failed,)))
        return await self._mirrored(desk, issue)

    async def _was_brought_back(self, desk: IssueDesk, issue: Issue) -> bool:
        """It failed with us, and a person has queued it again: there it still says failed."""
        if stage(issue, desk.keeper.labels) != desk.keeper.labels.failed:
            return False
        item = await self.ledger.outside.standing(self.source, str(issue.number))
        return item is not None and item.status is Status.QUEUED and item.epoch > 0

    # supervise

    async def _supervise(self, desk: IssueDesk) -> None:
        for claim in await self.ledger.outside.open_claims(self.source):
            if claim.live:
                await self._supervise_one(desk, claim)
            else:
                await self._end_dead(desk, claim)

    async def _supervise_one(self, desk: IssueDesk, claim: SourceClaim) -> None:
        if claim.entry_id is None and isinstance(desk.claims, CommentClaims):
            return  # its claimant still waits for the verdict
        held = held_by(claim)
        look = await desk.claims.look(held.grant)
        if look.lost is not None:
            await self._lose(desk, claim, held, look.lost)
            return
        self._deadlines[claim.firing_id] = look.deadline
        await self._note_lateness(desk, look)

    async def _lose(self, desk: IssueDesk, claim: SourceClaim, held: Held, why: str) -> None:
        """The ledger first: the agent's next heartbeat tells it to stop."""
        await self._revoke(claim, why)
        await desk.claims.release(held.grant, "operator-hold")
        await self.ledger.outside.ended(claim.firing_id, "lost")

    async def _revoke(self, claim: SourceClaim, why: str) -> None:
        log.warning("claim lost", source=self.source, issue=claim.source_ref, why=why)
        self._deadlines.pop(claim.firing_id, None)
        order = Order(
            Verb.RELEASE,
            claim.work_item_id,
            "supervisor",
            token=claim.token,
            reason="claim_lost",
            notes=why,
        )
        try:
            await self.ledger.queue.apply(order)
        except RotaError:
            return  # it has ended by itself

    async def _past_deadline(self) -> None:
        """No clean look, no work: somebody may have ended our claims without our seeing it."""
        now = self.pace.elapsed()
        for claim in await self.ledger.outside.open_claims(self.source):
            deadline = self._deadlines.setdefault(claim.firing_id, now + 60.0)
            if claim.live and now >= deadline:
                await self._revoke(claim, "the tracker could not be read in time")

    async def _note_lateness(self, desk: IssueDesk, look: Look) -> None:
        """A smaller id came after a grant: the tracker is slower than we thought."""
        if not look.too_late or not isinstance(desk.claims, CommentClaims):
            return
        times = desk.claims.log.times.slower()
        desk.claims.log.times = times
        warning = (
            f"entries {look.too_late} became visible after a claim behind them was granted;"
            f" claims wait {times.settle:g} s from now on"
        )
        log.error("tracker is slower than configured", source=self.source, warning=warning)
        await self._note(warning=warning, settle_seconds=times.settle)

    # the dead

    async def _end_dead(self, desk: IssueDesk, claim: SourceClaim) -> None:
        """A claim of ours whose run is gone: what it finished is recorded, else it is given
        back at once."""
        held = held_by(claim)
        standing = await desk.claims.standing(held.grant.number)
        if claim.entry_id is not None and standing.done_claim == claim.entry_id:
            await self._record_late(desk, claim)
            outcome = "success"
        else:
            if claim.entry_id is not None or not isinstance(desk.claims, CommentClaims):
                await desk.claims.release(held.grant, "stale-swept")
            outcome = "stale-swept"
        await self.ledger.outside.ended(claim.firing_id, outcome)

    async def _record_late(self, desk: IssueDesk, claim: SourceClaim) -> None:
        """The tracker accepted the end, and we died before we wrote it down."""
        await self.ledger.outside.finished(claim.firing_id, LATE)

    # sweep

    async def _sweep(self, desk: IssueDesk) -> None:
        report = await self.swept(desk)
        if report is not None and (report.findings or report.errors or report.disputed):
            log.info(
                "swept claims",
                source=self.source,
                findings=[f"#{one.number} {one.deed}" for one in report.findings],
                disputed=report.disputed,
                errors=report.errors,
            )
        await self._note(swept_at=to_text(self.pace.now()))

    async def swept(self, desk: IssueDesk) -> Report | None:
        if not isinstance(desk.claims, CommentClaims):
            return None
        also = [
            int(claim.source_ref) for claim in await self.ledger.outside.open_claims(self.source)
        ]
        return await make_sweep(desk, desk.claims).run(also)


def make_sweep(desk: IssueDesk, claims: CommentClaims) -> Sweep:
    async def live(firings: Collection[str]) -> set[str]:
        if desk.ledger is None:
            return set(firings)  # without a ledger nobody can say that a run is dead
        open_claims = await desk.ledger.outside.open_claims(desk.tracker.source)
        return {claim.firing_id for claim in open_claims if claim.live}

    return Sweep(claims, desk.keeper.labels, desk.fleet, live, desk.fleet)
