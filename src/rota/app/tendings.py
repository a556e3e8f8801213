"""Which repositories a server looks after, and which of them may wake it by a webhook."""

from collections.abc import Iterable
from functools import partial

import structlog

from rota.api.hooks import Receiver
from rota.config.sources import AnySource, Forge
from rota.model.errors import InvalidInput, RotaError
from rota.queue.ledger import Ledger
from rota.sources.assembly import make_tracker, open_desk
from rota.sources.registry import SourceContext
from rota.sources.tending import Rhythm, Tending
from rota.surroundings import environ

log = structlog.get_logger()


def make_tendings(
    sources: Iterable[AnySource], context: SourceContext, ledger: Ledger
) -> dict[str, Tending]:
    """One for each repository that the file lists."""
    tendings: dict[str, Tending] = {}
    for source in sources:
        if isinstance(source, Forge):
            made = _tending(source, context, ledger)
            if made.source in tendings:
                raise InvalidInput(f"sources: {made.source} is there twice; keep one")
            tendings[made.source] = made
    return tendings


def add_tending(
    tendings: dict[str, Tending], source: Forge, context: SourceContext, ledger: Ledger
) -> None:
    """For an agent's own source. What is wrong with it is that agent's trouble, and stands in its
    schedules; nobody else waits for it."""
    try:
        made = _tending(source, context, ledger)
    except RotaError as error:
        log.warning("source is not tended", repo=source.repo, error=error.message)
        return
    tendings.setdefault(made.source, made)


def _tending(source: Forge, context: SourceContext, ledger: Ledger) -> Tending:
    tracker = make_tracker(source, context)
    desk = partial(open_desk, source, context, tracker=tracker)
    return Tending(tracker, source, ledger, desk, Rhythm(source.poll_seconds))


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
