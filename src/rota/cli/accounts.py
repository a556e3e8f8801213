"""Accounts on a tracker, by name."""

from typing import TYPE_CHECKING

import click

from rota.cli.desks import refuse_url, run
from rota.model.errors import NotFound

if TYPE_CHECKING:
    from rota.claims.port import Account
    from rota.cli.session import Session
    from rota.config.sources import Forge


def find_account(session: "Session", login: str, repo: str | None) -> "tuple[Account, str]":
    """The account and its host: an account's number is only valid on its own tracker."""
    refuse_url(session)
    return run(_found(session, login, _source(session, repo)))


async def _found(session: "Session", login: str, source: "Forge") -> "tuple[Account, str]":
    from rota.app import source_context
    from rota.sources.assembly import make_tracker

    tracker = make_tracker(source, source_context(session.settings))
    try:
        found = await tracker.find_account(login)
    finally:
        await tracker.aclose()
    if found is None:
        raise NotFound(f"{tracker.host} knows nobody called {login[:100]!r}")
    return found, tracker.host


def _source(session: "Session", repo: str | None) -> "Forge":
    from rota.app import find_source, repositories
    from rota.sources.lookup import web_host

    if repo is not None:
        return find_source(repo, session.settings)
    hosts = {web_host(one): one for one in repositories(session.settings)}
    if len(hosts) > 1:
        raise click.UsageError(f"there are accounts on {' and '.join(hosts)}; say --repo which")
    # Without any source, the default tracker: an account does not depend on a repository.
    return next(iter(hosts.values())) if hosts else find_source("any/repository", session.settings)
