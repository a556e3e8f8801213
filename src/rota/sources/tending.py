"""Tends one repository in a running server: supervises, reviews, polls and sweeps it.

Each duty has its own rhythm, and one `tick()` does what is due. A duty that fails is tried again,
and its error is shown. A webhook only makes the next poll come sooner; its content is never
trusted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import structlog

from rota.claims.port import Tracker
from rota.claims.protocol import CommentClaims
from rota.claims.sweep import Sweep
from rota.claims.timing import Pace
from rota.config.sources import Forge
from rota.model.clock import to_text
from rota.model.errors import StorageError, WorkSourceError
from rota.model.sources import SourceClaim, StateNote
from rota.queue.ledger import Ledger
from rota.sources.assembly import AgentSources, times_of
from rota.sources.desk import IssueDesk
from rota.sources.http.limits import RateLimitInfo
from rota.sources.mirror import Mirror
from rota.sources.reviews import Reviews
from rota.sources.supervision import Supervision
from rota.sources.vigil import Vigil
from rota.tracing import span

log = structlog.get_logger()

SWEEP_SECONDS = 300.0
# Webhooks come in bursts, also for our own comments and labels.
POLL_GAP_SECONDS = 10.0
RETRY_SECONDS = 15.0
LONGEST_RETRY_SECONDS = 300.0


@dataclass(slots=True)
class Rhythm:
    """When a duty is next due; the first time at once. After a failure it comes sooner than usual,
    with growing pauses."""

    seconds: float
    due: float = 0.0
    failures: int = 0

    def is_due(self, now: float) -> bool:
        return now >= self.due

    def begin(self, now: float) -> None:
        """Called before the duty runs, so that a request during the run makes it due again."""
        self.due = now + self.seconds

    def failed(self, now: float) -> None:
        pause = min(RETRY_SECONDS * 2.0 ** min(self.failures, 10), LONGEST_RETRY_SECONDS)
        self.failures += 1
        self.due = min(self.due, now + pause)


@runtime_checkable
class Metered(Protocol):
    """A tracker that counts its requests, and knows its rate limit."""

    @property
    def requests(self) -> int: ...

    @property
    def rate_limit(self) -> RateLimitInfo | None: ...


@dataclass(slots=True)
class Duties:
    """The duties at an open desk."""

    desk: IssueDesk
    supervision: Supervision
    mirror: Mirror
    reviews: Reviews


class Tending:
    def __init__(
        self,
        tracker: Tracker,
        settings: Forge,
        ledger: Ledger,
        open_desk: Callable[[], Awaitable[IssueDesk]],
        poll: Rhythm,
        *,
        pace: Pace | None = None,
        agents: AgentSources = (),
    ) -> None:
        self.tracker = tracker
        self.settings = settings
        self.agents = agents
        self.open_desk = open_desk
        self.poll = poll
        times = times_of(settings)
        # More often than configured if a clean look is valid for a shorter time.
        self.look = Rhythm(min(times.poll, times.trust_in_a_poll / 3))
        self.sweep = Rhythm(SWEEP_SECONDS)
        self.woken = asyncio.Event()
        self._ledger = ledger
        self._pace = pace or Pace()
        self._duties: Duties | None = None
        self._polled = -POLL_GAP_SECONDS
        self._troubles: dict[str, str] = {}
        self._told: str | None = ""  # so that the first note overwrites an earlier process's error
        self._clean: str | None = None
        self._news: StateNote = {}
        self._counted = 0
        self.vigil = Vigil(
            self.source,
            ledger,
            times,
            self._pace,
            settings.claim_mode == "labels",
            self._hurry,
        )

    @property
    def source(self) -> str:
        return self.tracker.source

    @property
    def name(self) -> str:
        return f"source {self.source}"

    def is_like(self, other: "Tending") -> bool:
        return (self.settings, self.agents) == (other.settings, other.agents)

    def wake(self) -> None:
        """Something happened on the tracker; poll soon."""
        self.poll.due = min(self.poll.due, self._polled + POLL_GAP_SECONDS)
        self.woken.set()

    def _hurry(self) -> None:
        """A run has died; end its claim on the tracker."""
        self.look.due = 0.0
        self.woken.set()

    async def aclose(self) -> None:
        await self.tracker.aclose()

    # what is due

    async def tick(self) -> float:
        self.woken.clear()
        await self._tick()
        await self._note()
        return self._pause()

    async def _tick(self) -> None:
        now = self._pace.elapsed()
        if self.poll.is_due(now):
            self.look.due = 0.0  # a poll is valid only together with a look at the claims
        if not any(one.is_due(now) for one in self._rhythms):
            return
        if await self._attempt("open", self._open):
            await self._do("look", self.look, self._supervise)
            await self._do("poll", self.poll, self._poll)
            await self._do("sweep", self.sweep, self._sweep)
        else:
            for one in self._rhythms:
                if one.is_due(now):
                    one.begin(now)
                    one.failed(now)

    @property
    def _rhythms(self) -> tuple[Rhythm, ...]:
        return self.look, self.poll, self.sweep

    async def _do(self, name: str, rhythm: Rhythm, duty: Callable[[], Awaitable[None]]) -> None:
        now = self._pace.elapsed()
        if not rhythm.is_due(now):
            return
        rhythm.begin(now)
        try:
            done = await self._attempt(name, duty)
        except StorageError:
            rhythm.due = 0.0  # nothing is known of it; due as soon as the database is back
            raise
        if done:
            rhythm.failures = 0
        else:
            rhythm.failed(self._pace.elapsed())

    async def _attempt(self, name: str, duty: Callable[[], Awaitable[None]]) -> bool:
        """Did it succeed? An internal error is recorded like a tracker's error, so that no other
        duty and no other source suffers."""
        try:
            await duty()
        except StorageError:
            raise
        except WorkSourceError as error:
            log.warning("source cannot be read", source=self.source, error=error.message)
            self._troubles[name] = error.message
        except Exception as error:
            log.exception("source cannot be tended", source=self.source)
            self._troubles[name] = f"an error of ours, see the log: {type(error).__name__}: {error}"
        else:
            self._troubles.pop(name, None)
        return name not in self._troubles

    def _pause(self) -> float:
        due = min(one.due for one in self._rhythms)
        return max(0.05, due - self._pace.elapsed())

    async def _note(self) -> None:
        """Stores news about this source, for people and for other processes."""
        troubles = "; ".join(dict.fromkeys(self._troubles.values())) or None
        news: StateNote = {**self._news, **self._costs()}
        if troubles != self._told:
            news["poll_error"] = troubles
        if news:
            await self._ledger.outside.note_state(self.source, **news)
        self._news, self._told = {}, troubles
        self._counted += news.get("requests", 0)

    def _costs(self) -> StateNote:
        if not isinstance(self.tracker, Metered):
            return {}
        asked, info = self.tracker.requests - self._counted, self.tracker.rate_limit
        if not asked:
            return {}
        return {"requests": asked, **(_limit(info) if info is not None else {})}

    # the duties

    async def _open(self) -> None:
        if self._duties is None:
            desk = await self.open_desk()
            supervision = Supervision(desk, self._ledger, self.vigil)
            mirror, reviews = Mirror(desk, self._ledger.outside), Reviews(desk, self._ledger)
            self._duties = Duties(desk, supervision, mirror, reviews)

    async def _supervise(self) -> None:
        began, self._clean = to_text(self._pace.now()), None
        desk = self._at_hand.desk
        await desk.learn_times()
        self.vigil.times = desk.claims.times
        found = await self._at_hand.supervision.round()
        if found.changed:
            self.poll.due = 0.0  # so that the board shows it at once
        if found.errors:
            raise found.errors[0]
        self._clean = began if found.clean else None

    async def _poll(self) -> None:
        """`polled_at` is set only if the claims were seen to be ours as well: see `Vigil`. Reviews
        come first, because the mirror must show what they put back into the queue."""
        self._polled = self._pace.elapsed()
        with span("poll", source=self.source):
            reviewed = await self._at_hand.reviews.round()
            await self._at_hand.mirror.poll()
        if self._clean is not None:
            self._news["polled_at"] = self._clean
        if reviewed.errors:
            raise reviewed.errors[0]

    async def _sweep(self) -> None:
        desk = self._at_hand.desk
        if isinstance(desk.claims, CommentClaims):
            claims = await self._ledger.outside.open_claims(self.source)
            report = await make_sweep(desk, desk.claims).run(int(one.source_ref) for one in claims)
            if report.findings or report.errors or report.disputed:
                log.info(
                    "swept claims",
                    source=self.source,
                    findings=[f"#{one.number} {one.deed}" for one in report.findings],
                    disputed=report.disputed,
                    errors=report.errors,
                )
        self._news["swept_at"] = to_text(self._pace.now())

    @property
    def _at_hand(self) -> Duties:
        if self._duties is None:
            raise AssertionError("the desk is opened before anything is done at it")
        return self._duties


def make_sweep(desk: IssueDesk, claims: CommentClaims, *, dry_run: bool = False) -> Sweep:
    async def live(firings: Collection[str]) -> set[str]:
        """A run whose lease has lapsed may still renew it; it is dead once it is swept. A dry run
        does not sweep, and counts it as dead."""
        if desk.ledger is None:
            return set(firings)  # without a ledger nobody can tell that a run is dead
        found = await _found(desk.ledger, firings)
        if dry_run:
            return {claim.firing_id for claim in found if claim.live}
        if any(claim.lapsed for claim in found):
            await desk.ledger.sweeper.tick()
            found = await _found(desk.ledger, firings)
        # The outbox is about to report the result of a run that has ended.
        ended = await desk.ledger.post.awaited([claim.work_item_id for claim in found])
        return {claim.firing_id for claim in found if not claim.over or claim.work_item_id in ended}

    return Sweep(claims, desk.keeper.labels, desk.fleet, live, desk.fleet)


async def _found(ledger: Ledger, firings: Collection[str]) -> list[SourceClaim]:
    found = [await ledger.outside.find_claim(name) for name in firings]
    return [claim for claim in found if claim is not None]


def _limit(info: RateLimitInfo) -> StateNote:
    return {
        "rate_limit": info.limit,
        "rate_remaining": info.remaining,
        "rate_reset_at": to_text(info.resets_at),
    }
