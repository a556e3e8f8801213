"""Turns records of the ledger into wire models."""

from typing import Any

from msgspec import UNSET

from rota.api.answers import shown_as
from rota.api.budgets import UsedUp
from rota.api.schemas import (
    Agent,
    ClaimGrant,
    ClaimView,
    Completed,
    Dispatch,
    EntryError,
    Event,
    Explained,
    Item,
    ItemAndNext,
    ItemDetail,
    LeaseExtended,
    Link,
    Links,
    Project,
    Reason,
    Source,
    Spending,
    Sweep,
    Token,
    TokenWithSecret,
    Way,
)
from rota.api.signal_wire import follow_up_of
from rota.model import access, agents, claims, events, sources, work
from rota.queue.claiming import Finished
from rota.queue.explain import Explanation
from rota.queue.sweeper import Swept
from rota.queue.views import Detail
from rota.runner.admission import Standing


def _facts(item: work.WorkItem) -> tuple[Any, ...]:
    """The values of `schemas.ItemFields`, in its order."""
    return (
        item.id, item.project_id, item.type, item.description, item.payload, item.priority,
        item.status, item.assigned_agent, item.created_by, item.created_at, item.updated_at,
        item.completed_at, item.outcome, item.notes, item.reason, item.body, item.labels,
        item.artifact_url, item.attempts, item.max_attempts, item.available_at, item.hold_reason,
        item.open_blockers, item.epoch, item.version, item.source, item.source_ref,
        item.lease_expires_at,
    )  # fmt: skip


def item_of(item: work.WorkItem, claim: claims.Claim | None = None) -> Item:
    return Item(*_facts(item), claim=UNSET if claim is None else _grant(claim))


def item_and_next(item: work.WorkItem, following: claims.ClaimResult) -> ItemAndNext:
    return ItemAndNext(*_facts(item), next=claimed_of(following))


def claimed_of(result: claims.ClaimResult) -> list[Item]:
    return [item_of(one.item, one.claim) for one in result.items]


def _grant(claim: claims.Claim) -> ClaimGrant:
    return ClaimGrant(claim.token, claim.epoch, _until(claim), claim.lease_seconds)


def _until(claim: claims.Claim) -> str:
    return claim.expires_at or ""  # only a live claim is shown, and a live claim has an end


def detail_of(detail: Detail) -> ItemDetail:
    return ItemDetail(
        *_facts(detail.item),
        dispatch_log=[dispatch_of(one) for one in detail.dispatch_log],
        events=[event_of(one) for one in detail.events],
        claim=None if detail.claim is None else _view(detail.claim),
        links=Links(
            [_blocker(one) for one in detail.blocked_by],
            [*map(_dependent, detail.blocks)],
            [*map(_related, detail.follows)],
            [*map(_related, detail.followed_by)],
        ),
        follow_ups=[follow_up_of(one) for one in detail.follow_ups],
        late_results=[event_of(one) for one in detail.late_results],
    )


def _blocker(link: work.Link) -> Link:
    return Link(link.blocker_id, link.blocker_status, link.blocker_description)


def _dependent(link: work.Link) -> Link:
    return Link(link.item_id, link.blocker_status, link.blocker_description)


def _related(item: work.Related) -> Link:
    return Link(item.id, item.status, item.description)


def _view(claim: claims.Claim) -> ClaimView:
    return shown_as(ClaimView, claim, expires_at=_until(claim))


def project_of(project: work.Project) -> Project:
    return shown_as(Project, project)


def dispatch_of(one: work.Dispatch) -> Dispatch:
    return shown_as(Dispatch, one)


def event_of(event: events.Event) -> Event:
    return Event(
        str(event.seq), event.seq, event.type, event.occurred_at, event.work_item_id,
        event.project_id, event.actor, event.agent, event.reason, event.from_status,
        event.to_status, event.epoch, event.data,
    )  # fmt: skip


def explained_of(explanation: Explanation) -> Explained:
    item = explanation.item
    reasons = [
        shown_as(Reason, one, ways=[shown_as(Way, way) for way in one.ways])
        for one in explanation.reasons
    ]
    return Explained(item.id, item.status, explanation.claimable, explanation.summary, reasons)


def extended_of(claim: claims.Claim) -> LeaseExtended:
    return LeaseExtended(claim.work_item_id, claim.epoch, _until(claim), claim.lease_seconds)


def completed_of(one: Finished) -> Completed:
    if one.error is not None:
        return Completed(one.id, False, error=EntryError(one.error.code, one.error.message))
    item = UNSET if one.item is None else item_of(one.item)
    if one.next is None:
        return Completed(one.id, True, item=item)
    reason = UNSET if one.next.reason is None else one.next.reason
    return Completed(one.id, True, item=item, next=claimed_of(one.next), next_reason=reason)


def agent_of(
    load: agents.AgentLoad, standing: Standing, used: UsedUp | None = None, *, unattended: bool
) -> Agent:
    agent, limits, spent = load.agent, standing.limits, standing.spent
    return Agent(
        agent.name,
        agent.max_concurrent,
        agent.paused,
        load.in_progress,
        load.dispatched,
        load.in_review,
        agent.max_in_review,
        standing.running,
        shown_as(Spending, spent),
        limits.failures,
        limits.breaker_until,
        limits.usage_until,
        limits.note,
        standing.unseen_since,
        unattended,
        used.words if used else None,
        used.until if used else None,
    )


def source_of(state: sources.SourceState) -> Source:
    return shown_as(Source, state)


def sweep_of(swept: Swept) -> Sweep:
    return shown_as(Sweep, swept)


def token_of(token: access.ApiToken) -> Token:
    return shown_as(Token, token)


def token_with(token: access.ApiToken, secret: str) -> TokenWithSecret:
    return shown_as(TokenWithSecret, token, secret=secret)
