"""The queue as a source: an agent takes items of our own ledger as it takes those of a tracker.

A claim here names its item, which the queue's own claim cannot do: it is a dispatch and a start.
The dispatch is guarded by the version that was read, so that one of several claimants succeeds, and
only an item that was seen to be free is taken. A crash between the two leaves the item dispatched
to this agent, which finds it again at its next fetch.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rota.model import work
from rota.model.agents import Agent, AgentLoad, room_for_reviews
from rota.model.claims import DEFAULT_LEASE_SECONDS, Claim
from rota.model.clock import to_text
from rota.model.cursors import pack
from rota.model.errors import (
    ClaimLost,
    MalformedReference,
    NoFreeSlot,
    NotFound,
    Refused,
    StorageError,
    VersionMismatch,
    WorkSourceError,
)
from rota.model.status import RULES, Outcome, Status, Verb
from rota.model.work import check_name
from rota.queue.intake import LONGEST
from rota.queue.ledger import Ledger
from rota.queue.moves import Order
from rota.queue.obstacles import in_review_words
from rota.queue.views import SHORT_PAGE, Query
from rota.sources.local_mapping import (
    address_of,
    clean,
    item_of,
    items_of,
    key_of,
    ledger_id_of,
    notes_of,
    read_cursor,
    verb_of,
)
from rota.sources.paging import check_limit, fits
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    FetchResult,
    ReleaseOptions,
    ReleaseResult,
    WorkItem,
    WorkResult,
    refused,
)
from rota.sources.registry import SourceContext

DEFAULT_LIMIT = 50
_CLAIMED = (Status.DISPATCHED, Status.IN_PROGRESS)


class QueueWorkSource:
    type: str = "queue"

    def __init__(
        self,
        ledger: Ledger,
        agent: str,
        *,
        types: tuple[str, ...] = (),
        labels: tuple[str, ...] = (),
        project_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        first_lease_seconds: float | None = None,
    ) -> None:
        self.agent = check_name(agent, "agent")
        self._ledger = ledger
        self._types, self._labels, self._project_id = types, labels, project_id
        self._lease_seconds = lease_seconds
        self._first_lease_seconds = first_lease_seconds
        self._tokens: dict[str, str] = {}  # of the claims we hold, by item

    async def fetch_available_work(
        self,
        options: FetchOptions = FetchOptions(),  # noqa: B008 - frozen
    ) -> FetchResult:
        """The ledger's pages include items that this agent may not take, so one page of ours may
        need several of them. The cursor names the ledger's page and the last item."""
        check_limit(options.limit)
        limit = options.limit or DEFAULT_LIMIT
        cursor, after = (None, None) if options.cursor is None else read_cursor(options.cursor)
        found: list[work.WorkItem] = []
        while True:
            page = await self._ledger.views.items(replace(self._query(), cursor=cursor))
            for item in page.items:
                if (after is not None and key_of(item) <= after) or not self._shows(item, options):
                    continue
                if len(found) == limit:
                    return FetchResult(items_of(found), pack([cursor, *key_of(found[-1])]))
                found.append(item)
            if page.cursor is None:
                return FetchResult(items_of(found))
            cursor = page.cursor

    async def claim_work(self, work_item_id: str) -> ClaimResult:
        try:
            return await self._claim(ledger_id_of(work_item_id))
        except (NotFound, MalformedReference) as error:
            return refused(ClaimFailureReason.NOT_FOUND, error.message)
        except NoFreeSlot as error:
            return refused(ClaimFailureReason.PERMISSION_DENIED, error.message)
        except (Refused, VersionMismatch) as error:
            return refused(ClaimFailureReason.ALREADY_CLAIMED, error.message)
        except StorageError as error:
            return refused(ClaimFailureReason.SOURCE_ERROR, error.message)

    async def complete_work(self, work_item_id: str, result: WorkResult) -> None:
        item_id = ledger_id_of(work_item_id)
        verb = verb_of(result)
        token = await self._token(item_id, result.claim)
        if token is None:
            return await self._check_repeat(item_id, verb)
        outcome = {Verb.COMPLETE: Outcome.SUCCESS, Verb.FAIL: Outcome.FAILED}.get(verb)
        try:
            await self._ledger.queue.apply(
                Order(
                    verb,
                    item_id,
                    self.agent,
                    token=token,
                    outcome=outcome,
                    notes=notes_of(result),
                    artifact_url=address_of(result),
                )
            )
        except ClaimLost:
            self._forget(item_id, token)
            raise
        self._forget(item_id, token)
        return None

    async def release_work(
        self,
        work_item_id: str,
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    ) -> ReleaseResult:
        try:
            item_id = ledger_id_of(work_item_id)
            token = await self._token(item_id, options.claim, live=True)
        except MalformedReference as error:
            return ReleaseResult(False, error.message)
        except ClaimLost as error:
            return ReleaseResult(True, error.message)
        if token is None:
            return ReleaseResult(True, "it is not ours any more")
        reason = clean(options.reason or "", LONGEST["reason"]) or None
        notes = clean(options.reason or "", LONGEST["notes"]) if options.add_comment else None
        try:
            await self._ledger.queue.apply(
                Order(
                    Verb.RELEASE,
                    item_id,
                    self.agent,
                    token=token,
                    reason=reason,
                    notes=notes or None,
                    available_at=to_text(options.not_before) if options.not_before else None,
                    counted=options.counted,
                )
            )
        except (ClaimLost, NotFound) as error:
            self._forget(item_id, token)
            return ReleaseResult(True, error.message)
        self._forget(item_id, token)
        return ReleaseResult(True)

    async def get_work(self, work_item_id: str) -> WorkItem | None:
        with suppress(NotFound, MalformedReference):
            return item_of(await self._ledger.views.item(ledger_id_of(work_item_id)))
        return None

    async def aclose(self) -> None:
        """The ledger belongs to the caller and stays open."""

    # what this agent may take

    def _query(self) -> Query:
        return Query(
            statuses=(Status.QUEUED, *_CLAIMED),
            project_id=self._project_id,
            type=self._types[0] if len(self._types) == 1 else None,
            label=self._labels[0] if self._labels else None,
            limit=SHORT_PAGE,
        )

    def _shows(self, item: work.WorkItem, options: FetchOptions) -> bool:
        if self._foreign(item) or not fits(item_of(item), options):
            return False
        if options.include_claimed and item.status in _CLAIMED:
            return True
        return self._obstacle(item) is None

    def _foreign(self, item: work.WorkItem) -> bool:
        """Whether this source must leave the item alone: by its configuration, or because the item
        has another source, where everybody has to see the claim."""
        return (
            item.source is not None
            or (bool(self._types) and item.type not in self._types)
            or not set(self._labels) <= set(item.labels)
            or self._project_id not in (None, item.project_id)
        )

    def _obstacle(self, item: work.WorkItem) -> ClaimResult | None:
        if self._foreign(item):
            return refused(ClaimFailureReason.INVALID_STATE, _why_foreign(item))
        if item.status is Status.IN_PROGRESS and self._is_lapsed(item):
            return None
        if item.status in _CLAIMED and (
            item.status is Status.IN_PROGRESS or item.assigned_agent != self.agent
        ):
            return refused(
                ClaimFailureReason.ALREADY_CLAIMED, f"it is with {item.assigned_agent!r}"
            )
        if item.status not in (Status.QUEUED, Status.DISPATCHED):
            return refused(ClaimFailureReason.INVALID_STATE, f"{item.id} is {item.status}")
        if item.assigned_agent not in (None, self.agent):
            return refused(
                ClaimFailureReason.ALREADY_CLAIMED, f"only {item.assigned_agent!r} may take it"
            )
        return self._kept_back(item)

    def _kept_back(self, item: work.WorkItem) -> ClaimResult | None:
        if item.hold_reason is not None:
            why = f"it is held: {item.hold_reason}"
        elif item.open_blockers:
            why = f"it waits for {item.open_blockers} other items"
        elif item.deferred and (item.available_at or "") > self._now():
            why = f"it is not available before {item.available_at}"
        else:
            return None
        return refused(ClaimFailureReason.INVALID_STATE, why)

    def _is_lapsed(self, item: work.WorkItem) -> bool:
        """A claim of it sweeps it first. With no attempts left, the sweep fails it instead."""
        return (
            item.lease_expires_at is not None
            and item.lease_expires_at <= self._now()
            and item.attempts < item.max_attempts
        )

    def _now(self) -> str:
        return to_text(self._ledger.clock.now())

    # claiming

    async def _claim(self, item_id: str) -> ClaimResult:
        item = await self._ledger.views.item(item_id)
        if item.status is Status.IN_PROGRESS and self._is_lapsed(item):
            await self._ledger.sweeper.tick()
            item = await self._ledger.views.item(item_id)
        refusal = self._obstacle(item) or await self._turned_away()
        if refusal is not None:
            return refusal
        try:
            started, claim = await self._start(item)
        except Refused:  # a hold or a blocker may have been added since the dispatch
            late = self._kept_back(await self._ledger.views.item(item_id))
            if late is None:
                raise
            return late
        self._tokens[item_id] = claim.token
        return ClaimResult(
            True,
            item_of(started),
            ledger_id=item_id,
            token=claim.token,
            epoch=claim.epoch,
            claim=str(claim.epoch),
        )

    async def _start(self, item: work.WorkItem) -> tuple[work.WorkItem, Claim]:
        queue = self._ledger.queue
        order = Order(Verb.DISPATCH, item.id, self.agent, agent=self.agent, reason="claimed")
        if item.status is Status.QUEUED:
            await queue.apply(order._replace(version=item.version))
        lease = queue.lease(self._lease_seconds, self._first_lease_seconds)
        try:
            moved = await queue.apply(order._replace(verb=Verb.START, lease=lease))
        except Refused:
            if item.status is Status.QUEUED:
                await self._give_back(item.id)
            raise
        assert moved.claim is not None  # noqa: S101 - a lease was asked for
        return moved.item, moved.claim

    async def _give_back(self, item_id: str) -> None:
        """Gives back an item that we dispatched to ourselves and cannot start."""
        item = await self._ledger.views.item(item_id)
        if item.status is Status.DISPATCHED and item.assigned_agent == self.agent:
            with suppress(Refused, VersionMismatch):  # another writer has moved it meanwhile
                await self._ledger.queue.apply(
                    Order(Verb.RELEASE, item_id, self.agent, version=item.version)
                )

    async def _turned_away(self) -> ClaimResult | None:
        """Why the agent may take nothing now; checked first, so that a refusal leaves no trace."""
        load = await self._load()
        if load.agent.paused:
            return refused(
                ClaimFailureReason.PERMISSION_DENIED,
                f"agent {self.agent!r} is paused; rota agent resume {self.agent}",
            )
        if load.in_progress >= load.agent.max_concurrent and await self._ledger.sweeper.tick():
            load = await self._load()  # a lapsed claim may have filled a slot
        if load.in_progress >= load.agent.max_concurrent:
            return refused(
                ClaimFailureReason.PERMISSION_DENIED,
                f"agent {self.agent!r} already works on {load.in_progress} of"
                f" {load.agent.max_concurrent} items",
            )
        agent = load.agent
        if room_for_reviews(agent.max_in_review, load.in_review, load.in_progress) == 0:
            return refused(
                ClaimFailureReason.PERMISSION_DENIED,
                in_review_words(agent, load.in_review, load.in_progress),
            )
        return None

    async def _load(self) -> AgentLoad:
        loads = await self._ledger.views.agents()
        ours = [load for load in loads if load.agent.name == self.agent]
        return ours[0] if ours else AgentLoad(Agent(self.agent), 0, 0)

    # ending

    async def _token(self, item_id: str, claim: str | None, *, live: bool = False) -> str | None:
        """The token of the named claim, whichever process made it; otherwise of the claim we hold.
        With `live`, an ended claim is refused: the ledger would keep its order as a late result."""
        if claim is None:
            return self._tokens.get(item_id)
        made = await self._ledger.views.claim_at(item_id, _epoch(claim))
        if made is None or made.agent != self.agent or (live and not made.live):
            raise ClaimLost(f"{self.agent!r} has no claim {claim[:40]!r} of {item_id}")
        return made.token

    async def _check_repeat(self, item_id: str, verb: Verb) -> None:
        """Without a claim of ours: accepted only as a repetition of our own report."""
        item = await self._ledger.views.item(item_id)
        if (item.status, item.reason, item.assigned_agent) != (
            RULES[verb].target,
            verb,
            self.agent,
        ):
            raise ClaimLost(
                f"{item.id} is {item.status} and not claimed by this source; stop working on it",
                status=item.status,
            )

    def _forget(self, item_id: str, token: str) -> None:
        if self._tokens.get(item_id) == token:
            del self._tokens[item_id]


def _why_foreign(item: work.WorkItem) -> str:
    if item.source is not None:
        return f"it is {item.source_ref} of {item.source}: take it through its source"
    return f"{item.id} is not of the types, labels and project that this source is set up for"


def _epoch(claim: str) -> int:
    """-1, which no claim has, if the text is no epoch."""
    return int(claim) if re.fullmatch(r"[0-9]{1,9}", claim) else -1


def create(config: Mapping[str, Any], context: SourceContext) -> QueueWorkSource:
    from rota.config.fleet import source_config  # noqa: PLC0415 - pydantic is slow to import
    from rota.config.sources import QueueSource  # noqa: PLC0415

    settings = source_config(config)
    assert isinstance(settings, QueueSource)  # noqa: S101 - the registry chose us by this type
    if context.ledger is None:
        raise WorkSourceError(
            "the queue as a work source needs the ledger; run the agent under `rota up`, or give"
            " SourceContext its ledger"
        )
    return QueueWorkSource(
        context.ledger,
        context.agent,
        types=settings.types,
        labels=settings.labels,
        project_id=settings.project_id,
        lease_seconds=settings.lease_seconds,
        first_lease_seconds=context.first_lease_seconds,
    )
