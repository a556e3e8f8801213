"""Every change of an item goes through here, whichever face asked for it."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import islice
from types import EllipsisType
from typing import Any, TypeVar

from rota.model.agents import Agent
from rota.model.claims import (
    Claim,
    ClaimRequest,
    ClaimResult,
    Completion,
    NothingClaimed,
)
from rota.model.clock import IdFactory, later, to_text
from rota.model.errors import InvalidInput, NoFreeSlot
from rota.model.status import Status, Verb
from rota.model.work import MAX_BATCH, NewItem, Project, WorkItem, check_name, check_text
from rota.queue import claiming, editing, enrolment, intake, moves, submitting
from rota.queue.claiming import Finished
from rota.queue.gathering import Gathering
from rota.queue.intake import LONGEST
from rota.queue.moves import Lost, Moved, Order
from rota.queue.submitting import Submitted
from rota.storage.port import RunAgain, Store, Topic, Transaction

T = TypeVar("T")


class WorkQueue:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = store.clock
        self._ids = IdFactory(self._clock)
        self._submitting = Gathering(store, self._submit_all, weight=lambda call: len(call.items))
        self._taking = Gathering(store, self._take_all, self._give_back, lambda one: one.limit)
        self._finishing = Gathering(store, self._finish_all, self._leave_next, _weight)

    def _now(self) -> str:
        return to_text(self._clock.now())

    # projects

    async def create_project(
        self, name: str, external_ref: str | None = None, *, actor: str | None = None
    ) -> Project:
        enrolment.check_project({"name": name, "external_ref": external_ref})
        now = self._now()
        project = Project(self._ids.new(), name, external_ref, now, now)
        return await self._store.transact(lambda tx: enrolment.add_project(tx, project, actor))

    async def update_project(
        self, project_id: str, changes: dict[str, Any], *, actor: str | None = None
    ) -> Project:
        enrolment.check_project(changes)
        now = self._now()
        return await self._store.transact(
            lambda tx: enrolment.change_project(tx, project_id, changes, actor, now)
        )

    # agents

    async def set_agent(
        self,
        name: str,
        *,
        max_concurrent: int | None = None,
        paused: bool | None = None,
        max_in_review: int | EllipsisType | None = ...,
        actor: str | None = None,
    ) -> Agent:
        """What is not named stays. `max_in_review=None` takes the limit off."""
        wanted = enrolment.AgentChange(name, max_concurrent, paused, max_in_review)
        wanted.check()
        now = self._now()
        return await self._store.transact(lambda tx: enrolment.change_agent(tx, wanted, actor, now))

    # submit

    async def submit(self, item: NewItem, *, actor: str | None = None) -> WorkItem:
        return (await self.submit_many([item], actor=actor, alone=True)).items[0]

    async def submit_many(
        self,
        items: Sequence[NewItem],
        *,
        actor: str | None = None,
        key: str | None = None,
        alone: bool = False,
    ) -> Submitted:
        """Store all of them or none; with a key, at most once. `alone`: one that is no batch, which
        is another request than a batch of one."""
        if not 1 <= len(items) <= MAX_BATCH:
            raise InvalidInput(f"a batch has 1 to {MAX_BATCH} items; this one has {len(items)}")
        checked = [_checked_entry(item, None if alone else at) for at, item in enumerate(items)]
        if key is not None:
            check_text(key, "Idempotency-Key", 255)
        request_hash = _hash_of(items, alone) if key is not None else ""
        call = submitting.Submission(checked, actor, key, request_hash, alone)
        return await self._submitting.ask(call)

    def _submit_all(
        self, tx: Transaction, calls: Sequence[submitting.Submission]
    ) -> Sequence[Submitted | Exception]:
        now = self._now()  # before the ids: an id is never older than its item (see first_id)
        return submitting.submit(tx, calls, self._ids, now)

    # the verbs

    async def apply(self, order: Order) -> Moved:
        """One verb on one item; raises what refused it."""
        order = self._checked(order)
        moves.check_order(order)
        _check_next(order)
        if order.verb is Verb.COMPLETE and order.token is not None:
            (answer,) = await self._finished([order])
            return answer.moved()
        return moves.given(await self._store.transact(lambda tx: self._move(tx, order)))

    def _move(self, tx: Transaction, order: Order) -> Moved | Lost:
        now = self._now()  # not before: a lease begins when the database has us
        return moves.apply(tx, order, self._ids.new(), now)

    async def _heard(self, answer: "asyncio.Future[T]", unheard: Callable[[T], None]) -> T:
        """What comes back; what nobody waits for any more goes to `unheard`."""
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and answer.exception() is None:
                unheard(answer.result())
            raise

    def _leave_next(self, answers: Sequence[Finished]) -> None:
        for answer in answers:
            if answer.next is not None:
                self._give_back(answer.next)

    def _checked(self, order: Order) -> Order:
        intake.check_optional(order.notes, "notes")
        intake.check_optional(order.reason, "reason")
        if order.artifact_url is not None:
            intake.check_url(order.artifact_url)
        if order.agent is not None:
            check_name(order.agent, "agent")
        outcome = moves.checked_outcome(order.outcome)
        available_at = intake.check_moment(order.available_at, "available_at")
        if outcome == order.outcome and available_at == order.available_at:
            return order
        return order._replace(outcome=outcome, available_at=available_at)

    def lease(self, seconds: float, first: float | None = None) -> moves.Lease:
        """A lease to put into an order that starts an item; see `claiming.lease`."""
        return claiming.lease(self._ids, seconds, first)

    async def complete(
        self,
        item_id: str,
        *,
        token: str | None = None,
        outcome: str | None = "success",
        notes: str | None = None,
        actor: str | None = None,
    ) -> WorkItem:
        order = Order(Verb.COMPLETE, item_id, actor, token=token, outcome=outcome, notes=notes)
        return (await self.apply(order)).item

    async def change(
        self,
        order: Order,
        target: Status | None,
        changes: dict[str, Any],
        blocked_by: tuple[str, ...] | None = None,
    ) -> Moved:
        """What a PATCH does: edit fields and, when a status is named, make that one move.

        `order` carries everything but its verb, which follows from where the
        item stands.
        """
        order = self._checked(order)
        if target is None and order.outcome is not None:
            raise InvalidInput(
                "outcome can only be set together with a terminal status", field="outcome"
            )
        wanted = editing.Patch(editing.checked_edits(changes), blocked_by, target)
        dispatch_id = self._ids.new()
        return moves.given(
            await self._store.transact(
                lambda tx: editing.patch(tx, order, wanted, dispatch_id, self._now())
            )
        )

    async def note(
        self, item_id: str, notes: str, *, actor: str | None = None, token: str | None = None
    ) -> WorkItem:
        check_text(notes, "notes", LONGEST["notes"])
        return await self._store.transact(
            lambda tx: editing.note(tx, item_id, notes, actor=actor, token=token, now=self._now())
        )

    async def hold(self, item_id: str, reason: str, *, actor: str | None = None) -> WorkItem:
        """Nobody picks it up until the hold is taken off; its status stays as it is."""
        check_text(reason, "reason", LONGEST["hold_reason"])
        return await self._set_hold(item_id, reason, actor)

    async def unhold(self, item_id: str, *, actor: str | None = None) -> WorkItem:
        return await self._set_hold(item_id, None, actor)

    async def _set_hold(self, item_id: str, reason: str | None, actor: str | None) -> WorkItem:
        return await self._store.transact(
            lambda tx: editing.set_hold(tx, item_id, reason, actor, self._now())
        )

    # claims

    async def claim(self, request: ClaimRequest) -> ClaimResult:
        """Take what is best for this agent now; wait for it when asked to."""
        claiming.check(request)
        deadline = asyncio.get_running_loop().time() + request.wait_seconds
        while True:
            seen = self._store.counter(Topic.READY)
            result = await self._claim_once(request)
            left = deadline - asyncio.get_running_loop().time()
            if result.items or left <= 0:
                return result
            await self._store.wait(Topic.READY, seen, min(left, claiming.look_again(result)))

    async def _claim_once(self, request: ClaimRequest) -> ClaimResult:
        try:
            return await self._heard(self._taking.ask(request), self._give_back)
        except NoFreeSlot:  # others of this agent were quicker, at every try
            return ClaimResult([], NothingClaimed.NO_FREE_SLOT)

    def _take_all(self, tx: Transaction, requests: Sequence[ClaimRequest]) -> Sequence[ClaimResult]:
        return claiming.take(tx, requests, self._ids, self._clock.now())

    def _give_back(self, got: ClaimResult) -> None:
        """What a claimer got that was cancelled while its claim was committed."""
        for claimed in got.items:
            order = Order(
                Verb.RELEASE,
                claimed.item.id,
                claimed.claim.agent,
                token=claimed.claim.token,
                reason="claimer_gone",
                counted=False,
            )
            task = asyncio.ensure_future(self.apply(order))
            task.add_done_callback(lambda finished: finished.cancelled() or finished.exception())

    async def heartbeat(
        self,
        item_id: str,
        token: str,
        *,
        notes: str | None = None,
        progress: str | None = None,
        actor: str | None = None,
    ) -> Claim:
        """Push the lease out by its own length; `ClaimLost` tells the caller to stop."""
        intake.check_optional(notes, "notes")
        intake.check_optional(progress, "progress")

        def body(tx: Transaction) -> Claim:
            moment = self._clock.now()  # not before: the lease begins when the database has us
            now = to_text(moment)
            claim = tx.find_claim(item_id, token)
            if claim is None or not claim.live:
                raise moves.claim_lost(moves.find(tx, item_id), claim)
            expires_at = to_text(later(moment, claim.lease_seconds, "lease_seconds"))
            extended = tx.extend_claim(item_id, token, now, expires_at, progress)
            if extended is None:
                raise RunAgain
            if notes is not None:
                by = actor or claim.agent
                editing.note(tx, item_id, notes, actor=by, token=token, now=now)
            return extended

        return await self._store.transact(body)

    async def complete_many(
        self, entries: Sequence[Completion], *, actor: str | None = None
    ) -> list[Finished]:
        """Complete a batch in one transaction; one entry's refusal does not touch the others.
        What is wrong in form refuses them all."""
        check_completions(entries)
        refused: dict[int, Finished] = {}
        orders: list[Order] = []
        room = MAX_BATCH
        for index, entry in enumerate(entries):
            try:
                orders.append(_order_of(entry, entry.actor or actor, room))
            except InvalidInput as error:
                refused[index] = Finished(entry.id, error=error)
            else:
                room -= entry.next.limit if entry.next is not None else 0
        answers = iter(await self._finished(orders) if orders else ())
        return [refused.get(index) or next(answers) for index in range(len(entries))]

    async def _finished(self, orders: Sequence[Order]) -> list[Finished]:
        nothing = ClaimResult([])
        try:
            answers = await self._heard(self._finishing.ask(orders), self._leave_next)
        except NoFreeSlot:  # others of this agent were quicker, at every try: done is done
            alone = [order._replace(next=None) for order in orders]
            answers = await self._heard(self._finishing.ask(alone), self._leave_next)
            nothing = ClaimResult([], NothingClaimed.NO_FREE_SLOT)
        for order, answer in zip(orders, answers, strict=True):
            if order.next is not None and answer.item is not None:
                answer.next = answer.next or nothing
        return answers

    def _finish_all(
        self, tx: Transaction, calls: Sequence[Sequence[Order]]
    ) -> Sequence[list[Finished]]:
        orders = [order for call in calls for order in call]
        answers = iter(claiming.finish_and_take(tx, orders, self._ids, self._clock))
        return [list(islice(answers, len(call))) for call in calls]


def _weight(orders: Sequence[Order]) -> int:
    """What is taken weighs as much as what is completed."""
    return sum(1 if order.next is None else max(1, order.next.limit) for order in orders)


def _check_next(order: Order) -> None:
    request = order.next
    if request is None:
        return
    claiming.check(request)
    if order.verb is not Verb.COMPLETE or order.token is None:
        raise InvalidInput(
            "next: only the holder of a claim goes on to its next item; give the claim's token",
            field="next",
        )
    if request.wait_seconds:
        raise InvalidInput(
            "next: it is not waited for; claim without it when there is nothing", field="next"
        )


def _checked_entry(item: NewItem, index: int | None) -> NewItem:
    try:
        return intake.checked(item)
    except InvalidInput as error:
        if index is None:
            raise
        raise intake.in_batch(error, index) from None


def check_completions(entries: Sequence[Completion]) -> None:
    if not 1 <= len(entries) <= MAX_BATCH:
        raise InvalidInput(f"a batch has 1 to {MAX_BATCH} entries; this has {len(entries)}")
    for index, entry in enumerate(entries):
        try:
            intake.check_optional(entry.notes, "notes")
            if entry.artifact_url is not None:
                intake.check_url(entry.artifact_url)
            moves.checked_outcome(entry.outcome)
        except InvalidInput as error:
            raise intake.in_batch(error, index) from None


def _order_of(entry: Completion, actor: str | None, room: int) -> Order:
    order = Order(
        Verb.COMPLETE,
        entry.id,
        actor,
        token=entry.token,
        outcome=moves.checked_outcome(entry.outcome),
        notes=entry.notes,
        artifact_url=entry.artifact_url,
        version=entry.version,
        next=entry.next,
    )
    _check_next(order)
    if entry.next is not None and entry.next.limit > room:
        raise InvalidInput(
            f"next: a batch takes at most {MAX_BATCH} items, all its limits together", field="next"
        )
    return order


def _hash_of(items: Sequence[NewItem], alone: bool) -> str:
    found = [item._asdict() for item in items]
    text = json.dumps(found[0] if alone else found, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
