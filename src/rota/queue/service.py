"""Every change of an item goes through here, whichever face asked for it."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from rota.model.agents import Agent
from rota.model.claims import (
    MAX_LEASE_SECONDS,
    MAX_SLOTS,
    Claim,
    ClaimRequest,
    ClaimResult,
    Completion,
)
from rota.model.clock import Clock, IdFactory, SystemClock, later, to_text
from rota.model.errors import (
    ClaimLost,
    InvalidInput,
    NotFound,
    Refused,
)
from rota.model.events import EventType, NewEvent
from rota.model.status import TERMINAL, Status, Verb, verb_for
from rota.model.work import MAX_BATCH, NewItem, Project, WorkItem, check_name, check_text
from rota.queue import claiming, intake, moves, submitting
from rota.queue.claiming import Finished
from rota.queue.gathering import Gathering
from rota.queue.intake import LONGEST
from rota.queue.moves import Lost, Moved, Order
from rota.queue.submitting import Submitted, add_blockers
from rota.storage.port import Edit, RunAgain, Store, Take, Topic, Transaction

T = TypeVar("T")


class WorkQueue:
    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._ids = IdFactory(self._clock)
        self._submitting = Gathering(store, self._submit_all)
        self._taking = Gathering(store, self._take_all)
        self._finishing = Gathering(store, self._finish_all)

    def _now(self) -> str:
        return to_text(self._clock.now())

    # projects

    async def create_project(
        self, name: str, external_ref: str | None = None, *, actor: str | None = None
    ) -> Project:
        check_text(name, "name", LONGEST["name"])
        intake.check_optional(external_ref, "external_ref")
        now = self._now()
        project = Project(self._ids.new(), name, external_ref, now, now)

        def body(tx: Transaction) -> Project:
            tx.insert_project(project)
            tx.append([_project_event(EventType.PROJECT_CREATED, project, actor)])
            return project

        return await self._store.transact(body)

    async def update_project(
        self, project_id: str, changes: dict[str, Any], *, actor: str | None = None
    ) -> Project:
        if "name" in changes:
            check_text(changes["name"] or "", "name", LONGEST["name"])
        intake.check_optional(changes.get("external_ref"), "external_ref")
        now = self._now()

        def body(tx: Transaction) -> Project:
            old = tx.get_project(project_id)
            if old is None:
                raise _no_project(project_id)
            project = replace(old, **changes, updated_at=now)
            tx.update_project(project)
            tx.append([_project_event(EventType.PROJECT_UPDATED, project, actor)])
            return project

        return await self._store.transact(body)

    # agents

    async def set_agent(
        self,
        name: str,
        *,
        max_concurrent: int | None = None,
        paused: bool | None = None,
        actor: str | None = None,
    ) -> Agent:
        check_name(name, "agent")
        if max_concurrent is not None and not 1 <= max_concurrent <= MAX_SLOTS:
            raise InvalidInput(
                f"max_concurrent: {max_concurrent} is out of range; use 1 to {MAX_SLOTS}",
                field="max_concurrent",
            )
        now = self._now()

        def body(tx: Transaction) -> Agent:
            old = tx.get_agent(name) or Agent(name, created_at=now)
            agent = replace(
                old,
                max_concurrent=old.max_concurrent if max_concurrent is None else max_concurrent,
                paused=old.paused if paused is None else paused,
                updated_at=now,
            )
            tx.put_agent(agent)
            data = {"max_concurrent": agent.max_concurrent, "paused": agent.paused}
            tx.append([NewEvent(EventType.AGENT_UPDATED, now, actor, agent=name, data=data)])
            tx.wake(Topic.READY)
            return agent

        return await self._store.transact(body)

    # submit

    async def submit(self, item: NewItem, *, actor: str | None = None) -> WorkItem:
        return (await self.submit_many([item], actor=actor)).items[0]

    async def submit_many(
        self, items: Sequence[NewItem], *, actor: str | None = None, key: str | None = None
    ) -> Submitted:
        """Store all of them or none; with a key, at most once."""
        if not 1 <= len(items) <= MAX_BATCH:
            raise InvalidInput(f"a batch has 1 to {MAX_BATCH} items; this one has {len(items)}")
        now = self._now()  # before the ids: an id is never older than its item (see first_id)
        fresh = [(self._ids.new(), intake.checked(item)) for item in items]
        if key is not None:
            check_text(key, "Idempotency-Key", 255)
        request_hash = _hash_of(items) if key is not None else ""
        return await self._submitting.ask(
            submitting.Submission(fresh, actor, key, request_hash, now)
        )

    def _submit_all(
        self, tx: Transaction, calls: Sequence[submitting.Submission]
    ) -> Sequence[Submitted | Exception]:
        return submitting.submit(tx, calls)

    # the verbs

    async def apply(self, order: Order) -> Moved:
        """One verb on one item; raises what refused it."""
        order = self._checked(order)
        moves.check_order(order)
        if order.verb is Verb.COMPLETE and order.token and _is_plain(order):
            entry = Completion(order.item_id, order.token, order.outcome, order.notes, order.actor)
            return Moved(await self._finishing.ask(entry))
        dispatch_id, now = self._ids.new(), self._now()
        return _given(
            await self._store.transact(lambda tx: moves.apply(tx, order, dispatch_id, now))
        )

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
        return replace(order, outcome=outcome, available_at=available_at)

    def lease(self, seconds: float) -> moves.Lease:
        """A lease to put into an order that starts an item."""
        expires_at = self._expiry(seconds)
        return moves.Lease(self._ids.token(), seconds, expires_at)

    def _expiry(self, seconds: float) -> str:
        if not 1 <= seconds <= MAX_LEASE_SECONDS:
            raise InvalidInput(
                f"lease_seconds: {seconds} is out of range; use 1 to {MAX_LEASE_SECONDS}",
                field="lease_seconds",
            )
        return to_text(later(self._clock.now(), seconds, "lease_seconds"))

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
    ) -> WorkItem:
        """What a PATCH does: edit fields and, when a status is named, make that one move.

        `order` carries everything but its verb, which follows from where the
        item stands.
        """
        order = self._checked(order)
        if target is None and order.outcome is not None:
            raise InvalidInput(
                "outcome can only be set together with a terminal status", field="outcome"
            )
        edits = _checked_edits(changes)
        dispatch_id, now = self._ids.new(), self._now()

        def body(tx: Transaction) -> Moved | Lost:
            item = moves.find(tx, order.item_id)
            if order.version is not None and item.version != order.version:
                raise moves.version_mismatch(item, order.version)
            plain = replace(order, version=None)
            late = order.token is not None and item.claim_token != order.token
            if late and target is None:
                raise _lost(item, tx.find_claim(item.id, order.token or ""))
            # A former holder's edits are not believed either; its move says so below.
            edited = edits or blocked_by is not None or (target is None and order.notes is not None)
            if edited and not late:
                item = _edit(tx, item, plain, edits, blocked_by, target, now)
            if target is None:
                return Moved(item)
            verb = verb_for(item.status, target)
            if verb is None:
                if late:
                    verb = _verb_toward(target)
                else:
                    raise moves.transition_refused(item, target)
            ready = replace(plain, verb=verb, outcome=_default_outcome(verb, order.outcome))
            moves.check_order(ready)
            return moves.apply(tx, ready, dispatch_id, now)

        return _given(await self._store.transact(body)).item

    async def note(
        self, item_id: str, notes: str, *, actor: str | None = None, token: str | None = None
    ) -> WorkItem:
        check_text(notes, "notes", LONGEST["notes"])
        order = Order(Verb.RELEASE, item_id, actor, token=token, notes=notes)
        return await self.change(order, None, {})

    async def hold(self, item_id: str, reason: str, *, actor: str | None = None) -> WorkItem:
        """Nobody picks it up until the hold is taken off; its status stays as it is."""
        check_text(reason, "reason", LONGEST["hold_reason"])
        return await self._set_hold(item_id, reason, EventType.HELD, actor)

    async def unhold(self, item_id: str, *, actor: str | None = None) -> WorkItem:
        return await self._set_hold(item_id, None, EventType.UNHELD, actor)

    async def _set_hold(
        self, item_id: str, reason: str | None, kind: EventType, actor: str | None
    ) -> WorkItem:
        now = self._now()

        def body(tx: Transaction) -> WorkItem:
            item = moves.find(tx, item_id)
            if item.status in TERMINAL:
                raise Refused(f"{item.id} is {item.status}; a finished item needs no hold")
            if item.hold_reason == reason:
                return item
            changed = tx.edit(Edit(item_id, now, {"hold_reason": reason}, item.version))
            if changed is None:
                raise RunAgain
            tx.append([_about(changed, kind, now, actor, reason=reason)])
            if reason is None:
                tx.wake(Topic.READY)
            return changed

        return await self._store.transact(body)

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
        """A claimer that is cancelled while its claim commits gives back what it got."""
        wanted = Take(
            request.agent,
            [self._ids.token() for _ in range(request.limit)],
            [self._ids.new() for _ in range(request.limit)],
            request.lease_seconds,
            self._expiry(request.lease_seconds),
            request.types,
            request.labels,
            request.project_id,
        )
        taking = self._taking.ask(wanted)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(self._give_back)
            raise

    def _take_all(self, tx: Transaction, takes: Sequence[Take]) -> Sequence[ClaimResult]:
        return claiming.take(tx, takes, self._now())

    def _give_back(self, done: "asyncio.Future[ClaimResult]") -> None:
        if done.cancelled() or done.exception() is not None:
            return
        for claimed in done.result().items:
            order = Order(
                Verb.RELEASE,
                claimed.item.id,
                claimed.claim.agent,
                token=claimed.claim.token,
                reason="claimer_gone",
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
        moment, now = self._clock.now(), self._now()

        def body(tx: Transaction) -> Claim:
            claim = tx.find_claim(item_id, token)
            if claim is None or not claim.live:
                raise _lost(moves.find(tx, item_id), claim)
            expires_at = to_text(later(moment, claim.lease_seconds, "lease_seconds"))
            extended = tx.extend_claim(item_id, token, now, expires_at, progress)
            if extended is None:
                raise RunAgain
            if notes is not None:
                _note(tx, moves.find(tx, item_id), notes, actor or claim.agent, now)
            return extended

        return await self._store.transact(body)

    async def complete_many(
        self, entries: Sequence[Completion], *, actor: str | None = None
    ) -> list[Finished]:
        """Complete a batch in one transaction; one entry's refusal does not touch the others."""
        if not 1 <= len(entries) <= MAX_BATCH:
            raise InvalidInput(f"a batch has 1 to {MAX_BATCH} entries; this has {len(entries)}")
        checked = []
        for entry in entries:
            intake.check_optional(entry.notes, "notes")
            outcome = moves.checked_outcome(entry.outcome)
            checked.append(
                Completion(entry.id, entry.token, outcome, entry.notes, entry.actor or actor)
            )
        now = self._now()
        return await self._store.transact(lambda tx: claiming.finish(tx, checked, self._ids, now))

    def _finish_all(
        self, tx: Transaction, entries: Sequence[Completion]
    ) -> Sequence[WorkItem | Exception]:
        return [
            answer.item or answer.error or AssertionError("an answer has an item or an error")
            for answer in claiming.finish(tx, entries, self._ids, self._now())
        ]


def _is_plain(order: Order) -> bool:
    """Nothing but what a batch completion can say."""
    return not (
        order.force
        or order.version is not None
        or order.reason
        or order.artifact_url
        or order.available_at
        or order.details
    )


def _given(result: Moved | Lost) -> Moved:
    if isinstance(result, Lost):
        raise result.error
    return result


def _hash_of(items: Sequence[NewItem]) -> str:
    text = json.dumps([asdict(item) for item in items], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _default_outcome(verb: Verb, outcome: str | None) -> str | None:
    return "cancelled" if verb is Verb.CANCEL and outcome is None else outcome


def _verb_toward(target: Status) -> Verb:
    """For a former holder's PATCH: the verb it meant when it still was at work."""
    return verb_for(Status.IN_PROGRESS, target) or Verb.RELEASE


def _checked_edits(changes: dict[str, Any]) -> dict[str, Any]:
    """Describing fields as columns. `labels` stays a tuple and is stored by its own verb."""
    edits = dict(changes)
    if "type" in edits:
        check_text(edits["type"] or "", "type", LONGEST["type"])
    if "description" in edits:
        check_text(edits["description"] or "", "description", LONGEST["description"])
    if "body" in edits:
        intake.check_optional(edits["body"], "body")
    if "priority" in edits:
        intake.check_priority(edits["priority"])
    if "max_attempts" in edits:
        intake.check_attempts(edits["max_attempts"])
    if "assigned_agent" in edits and edits["assigned_agent"] is not None:
        check_name(edits["assigned_agent"], "assigned_agent")
    if "payload" in edits:
        payload = intake.check_payload(edits["payload"])
        edits["payload"] = None if payload is None else json.dumps(payload, ensure_ascii=False)
    if "labels" in edits:
        edits["labels"] = intake.check_labels(tuple(edits["labels"] or ()))
    if "available_at" in edits:
        edits["available_at"] = intake.check_moment(edits["available_at"], "available_at")
    return edits


def _edit(
    tx: Transaction,
    item: WorkItem,
    order: Order,
    edits: dict[str, Any],
    blocked_by: tuple[str, ...] | None,
    target: Status | None,
    now: str,
) -> WorkItem:
    columns = _columns(tx, item, edits, target, now)
    if target is None and order.notes is not None:
        columns["notes"] = order.notes
    if blocked_by is not None:  # first of all: it may wait, and must not hold the item meanwhile
        _replace_blockers(tx, item, blocked_by)
    changed = tx.edit(Edit(item.id, now, columns, item.version))
    if changed is None:
        raise RunAgain
    if "labels" in edits:
        tx.set_labels(item.id, edits["labels"])
    changed = moves.find(tx, item.id)
    names = sorted({*edits, *(["blocked_by"] if blocked_by is not None else [])})
    if names:
        tx.append([_about(changed, EventType.EDITED, now, order.actor, data={"fields": names})])
        tx.wake(Topic.READY)
    if "notes" in columns:
        tx.append([_about(changed, EventType.NOTED, now, order.actor, data={"notes": order.notes})])
    return changed


def _columns(
    tx: Transaction, item: WorkItem, edits: dict[str, Any], target: Status | None, now: str
) -> dict[str, object]:
    columns: dict[str, object] = {k: v for k, v in edits.items() if k != "labels"}
    if edits.get("project_id") is not None and tx.get_project(edits["project_id"]) is None:
        raise InvalidInput(
            f"project_id: there is no project {edits['project_id'][:100]!r}", field="project_id"
        )
    if "available_at" in edits:
        columns["deferred"] = int((edits["available_at"] or "") > now)
    if "assigned_agent" in edits:
        if edits["assigned_agent"] != item.assigned_agent and item.status is not Status.QUEUED:
            raise Refused(
                f"{item.id} is {item.status} with '{item.assigned_agent}'; release it before"
                " naming another agent",
                status=item.status,
            )
        if target is Status.DISPATCHED:
            del columns["assigned_agent"]  # the dispatch itself names the agent
        else:
            columns["pinned"] = int(edits["assigned_agent"] is not None)
    return columns


def _replace_blockers(tx: Transaction, item: WorkItem, blocked_by: tuple[str, ...]) -> None:
    blocked_by = intake.check_blockers(blocked_by)
    for blocker in blocked_by:
        if tx.reaches(blocker, item.id):
            raise InvalidInput(
                f"blocked_by: {blocker[:100]} waits for {item.id} itself; that would be a circle",
                field="blocked_by",
            )
    tx.clear_blockers(item.id)
    add_blockers(tx, item.id, blocked_by)


def _note(tx: Transaction, item: WorkItem, notes: str, actor: str | None, now: str) -> None:
    tx.edit(Edit(item.id, now, {"notes": notes}))
    tx.append([_about(item, EventType.NOTED, now, actor, data={"notes": notes})])


def _lost(item: WorkItem, claim: Claim | None) -> ClaimLost:
    known = "has ended" if claim else "was never made here"
    return ClaimLost(
        f"this claim of {item.id} {known}; the item is {item.status}. Stop working on it",
        status=item.status,
    )


def _about(
    item: WorkItem,
    kind: EventType,
    now: str,
    actor: str | None,
    *,
    reason: str | None = None,
    to: Status | None = None,
    data: dict[str, Any] | None = None,
) -> NewEvent:
    return NewEvent(
        kind,
        now,
        actor=actor,
        work_item_id=item.id,
        project_id=item.project_id,
        agent=item.assigned_agent,
        reason=reason,
        to_status=to,
        epoch=item.epoch,
        data=data or {},
    )


def _project_event(kind: EventType, project: Project, actor: str | None) -> NewEvent:
    return NewEvent(
        kind, project.updated_at, actor, project_id=project.id, data={"name": project.name}
    )


def _no_project(project_id: str) -> NotFound:
    return NotFound(f"there is no project {project_id[:100]!r}", id=project_id[:100])
