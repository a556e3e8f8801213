"""Builds the desk of a repository from its configuration."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from rota.claims.comments import Believed
from rota.claims.labels import NEEDS_SCOPE, LabelSet
from rota.claims.log import ClaimLog
from rota.claims.pauses import PausedRepos
from rota.claims.plain import LabelClaims
from rota.claims.port import Tracker
from rota.claims.protocol import CommentClaims
from rota.claims.strict import RefLog
from rota.claims.timing import Pace, Times
from rota.claims.trust import Approval, ApprovalBook, MemoryBook, TrustGate
from rota.config.sources import Forge, GiteaSource, GitHubSource
from rota.model.clock import from_text, to_text
from rota.model.errors import InvalidInput
from rota.queue.ledger import Ledger
from rota.sources.blockers import Blockers
from rota.sources.desk import Claims, IssueDesk
from rota.sources.gatekeeper import Gatekeeper
from rota.sources.gitea.tracker import GiteaTracker
from rota.sources.github.tracker import GitHubTracker
from rota.sources.http.connection import Connection
from rota.sources.http.limits import RateLimitInfo
from rota.sources.registry import SourceContext
from rota.sources.rights import explained

log = structlog.get_logger()

# Agents by name, each with its configuration of one and the same repository.
AgentSources = Sequence[tuple[str, Forge]]


def make_tracker(
    settings: Forge, context: SourceContext, given: Connection | None = None
) -> Tracker:
    connection: Connection = {
        "environ": context.environ,
        "on_warning": partial(_warn, settings.repo),
        **(given or {}),
    }
    kind: type[GitHubTracker | GiteaTracker]
    if isinstance(settings, GitHubSource):
        kind = GitHubTracker
    elif isinstance(settings, GiteaSource):
        kind = GiteaTracker
    else:
        raise InvalidInput(f"no tracker is known for {type(settings).__name__}")
    return kind(
        settings.repo,
        token_env=settings.auth.token_env,
        api_url=settings.api_url,
        account_id=settings.auth.account_id,
        **connection,
    )


def _warn(repo: str, info: RateLimitInfo) -> None:
    log.warning(
        "few requests to the tracker are left",
        repo=repo,
        resource=info.resource,
        remaining=info.remaining,
        limit=info.limit,
        resets_at=to_text(info.resets_at),
    )


async def open_desk(
    settings: Forge,
    context: SourceContext,
    *,
    tracker: Tracker | None = None,
    connection: Connection | None = None,
    pace: Pace | None = None,
    agents: AgentSources = (),
) -> IssueDesk:
    """Asks the tracker at most for our account and the repository's owner. `agents` may work this
    repository by labels of their own; a desk of one agent has no need to know them."""
    labels = with_agents(settings, agents)
    if tracker is not None:
        return await _open_desk(settings, labels, context, tracker, pace or Pace())
    made = make_tracker(settings, context, connection)
    try:
        return await _open_desk(settings, labels, context, made, pace or Pace())
    except BaseException:
        await made.aclose()  # nothing else has a reference to it
        raise


async def _open_desk(
    settings: Forge, labels: LabelSet, context: SourceContext, tracker: Tracker, pace: Pace
) -> IssueDesk:
    keeper = Gatekeeper(
        settings.repo,
        labels,
        TrustGate(
            tracker,
            labels,
            _book(context.ledger, tracker.source),
            frozenset(settings.trusted),
            settings.trust_required,
        ),
        PausedRepos(context.paused_repos),
        Blockers(tracker, pace),
        pace,
    )
    async with explained(tracker):
        claims = await _claims(settings, tracker, keeper, pace)
    desk = IssueDesk(
        tracker,
        claims,
        keeper,
        await _fleet(context.ledger),
        ledger=context.ledger,
        pace=pace,
        lease_seconds=settings.lease_seconds,
        first_lease_seconds=context.first_lease_seconds,
        parks=not settings.cleanup_on_failure,
        always_closes=settings.claim_mode == "labels",
    )
    await desk.learn_times()
    return desk


def label_set(settings: Forge) -> LabelSet:
    """`exclude_labels` cannot exclude our own lifecycle labels: a claim that sets such a label
    would lose itself by it."""
    names = settings.labels
    stations = {label.lower() for _, label in names}
    return LabelSet(
        ready=names.ready,
        in_flight=names.in_progress,
        pr_open=names.pr_open,
        done=names.done,
        failed=names.failed,
        excluded=(
            *(label for label in settings.exclude_labels if label.lower() not in stations),
            NEEDS_SCOPE,
        ),
    )


def with_agents(settings: Forge, agents: AgentSources) -> LabelSet:
    """All agents are named as soon as one of them has other labels."""
    labels = label_set(settings)
    sets = tuple((name, label_set(source)) for name, source in agents)
    return replace(labels, of_agents=sets) if any(one != labels for _, one in sets) else labels


async def _claims(settings: Forge, tracker: Tracker, keeper: Gatekeeper, pace: Pace) -> Claims:
    times = times_of(settings)
    if settings.claim_mode == "labels":
        return LabelClaims(tracker, keeper.labels, times, pace, keeper.judge)
    log = RefLog if settings.claim_mode == "strict" else ClaimLog
    believed = await _believed(settings, tracker)
    return CommentClaims(log(tracker, believed, times, pace), keeper.labels, keeper.judge)


def times_of(settings: Forge) -> Times:
    given = settings.times
    return Times(
        settle=given.settle,
        settle_jitter=min(2.0, given.settle),
        poll=given.poll,
        grace=given.grace,
        margin=given.margin,
        quiet=given.quiet,
    )


async def _believed(settings: Forge, tracker: Tracker) -> Believed:
    own = (await tracker.account()).id
    owner = await tracker.owner()
    operators = {own, *settings.trusted, *({owner.id} if owner else ())}
    return Believed(frozenset({own, *settings.fleets}), frozenset(operators))


async def _fleet(ledger: Ledger | None) -> str:
    """One database is one fleet, wherever its processes run and whatever their names are."""
    return secrets.token_hex(6) if ledger is None else await ledger.outside.fleet()


def _book(ledger: Ledger | None, source: str) -> ApprovalBook:
    return MemoryBook() if ledger is None else LedgerBook(ledger, source)


@dataclass(frozen=True, slots=True)
class LedgerBook:
    """Approvals in the ledger."""

    ledger: Ledger
    source: str

    async def approval(self, number: int) -> Approval | None:
        kept = await self.ledger.outside.approval(self.source, str(number))
        if kept is None:
            return None
        return Approval(kept.text_hash, kept.approved_by, from_text(kept.approved_at))

    async def approve(self, number: int, approval: Approval) -> None:
        await self.ledger.outside.approve(
            self.source, str(number), approval.text_hash, approval.by, to_text(approval.at)
        )
