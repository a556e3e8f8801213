"""Which repositories a server looks after, and which of them may wake it by a webhook."""

from collections.abc import Iterable, Sequence
from functools import partial

import structlog

from rota.api.hooks import Receiver
from rota.config.sources import AnySource, Forge
from rota.model.errors import InvalidInput, RotaError
from rota.queue.ledger import Ledger
from rota.sources.assembly import make_tracker, open_desk
from rota.sources.lookup import AnyForge, agents_at
from rota.sources.registry import SourceContext
from rota.sources.tending import Rhythm, Tending
from rota.surroundings import environ

log = structlog.get_logger()


def make_tendings(
    sources: Iterable[AnySource],
    agents: Sequence[tuple[str, AnyForge]],
    context: SourceContext,
    ledger: Ledger,
) -> dict[str, Tending]:
    """One for each repository that the file lists, and for each that only agents name."""
    tendings: dict[str, Tending] = {}
    for source in sources:
        if isinstance(source, Forge):
            made = _tending(source, agents, context, ledger)
            if made.source in tendings:
                raise InvalidInput(f"sources: {made.source} is there twice; keep one")
            tendings[made.source] = made
    for _, source in agents:
        _add(tendings, source, agents, context, ledger)
    return tendings


def _add(
    tendings: dict[str, Tending],
    source: AnyForge,
    agents: Sequence[tuple[str, AnyForge]],
    context: SourceContext,
    ledger: Ledger,
) -> None:
    """For an agent's own source. What is wrong with it is that agent's trouble, and stands in its
    schedules; nobody else waits for it."""
    try:
        made = _tending(source, agents, context, ledger)
    except RotaError as error:
        log.warning("source is not tended", repo=source.repo, error=error.message)
        return
    tendings.setdefault(made.source, made)


def _tending(
    source: Forge,
    agents: Sequence[tuple[str, AnyForge]],
    context: SourceContext,
    ledger: Ledger,
) -> Tending:
    tracker = make_tracker(source, context)
    here = agents_at(tracker.source, agents)
    desk = partial(open_desk, source, context, tracker=tracker, agents=here)
    return Tending(tracker, source, ledger, desk, Rhythm(source.poll_seconds), agents=here)


def receivers(tendings: Iterable[Tending]) -> list[Receiver]:
    """Repositories whose secret is named."""
    return [
        Receiver(
            one.tracker.kind,
            one.tracker.repo,
            partial(environ.get, one.settings.webhook_secret_env or ""),
            one.wake,
        )
        for one in tendings
    ]
