"""Runs commands about issues at the desk of a repository: on its tracker and in the ledger, also
beside a running server."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli.destination import missing_file
from rota.cli.text import one_line
from rota.model.errors import MalformedReference

if TYPE_CHECKING:
    from rota.claims.references import IssueRef
    from rota.claims.timing import Pace
    from rota.cli.session import Session
    from rota.sources.desk import IssueDesk

T = TypeVar("T")

_NOTICEABLE_SECONDS = 0.5


def at_issue(
    session: "Session",
    reference: str,
    deed: "Callable[[IssueDesk, int], Awaitable[T]]",
    *,
    only_looks: bool = False,
) -> T:
    """Run `deed` on the issue that `reference` names.

    A reference is `OWNER/REPO#N`, `REPO#N` where that is unambiguous, or the address of the issue's
    page. With `only_looks` no ledger is created where there is none: the tracker knows enough.
    """
    named = issue_named(reference)
    if not only_looks or missing_file(session.settings.database) is None:
        return at_repository(
            session, named.full_name, lambda desk: deed(desk, named.number), host=named.host
        )
    refuse_url(session)

    async def looked() -> T:
        from rota.app import open_window

        async with open_window(named.full_name, session.settings, host=named.host) as desk:
            return await deed(desk, named.number)

    return run(looked())


def at_repository(
    session: "Session",
    repo: str,
    deed: "Callable[[IssueDesk], Awaitable[T]]",
    host: str | None = None,
) -> T:
    refuse_url(session)

    async def done() -> T:
        from rota.app import open_desk

        async with open_desk(repo, session.settings, host=host, pace=pace_of(session)) as desk:
            return await deed(desk)

    return run(done())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine, and log only errors: never to standard output, which programs read."""
    import logging

    from rota.config.logs import configure_logging

    configure_logging(logging.ERROR)
    return asyncio.run(work)


def issue_named(reference: str) -> "IssueRef":
    from rota.claims.references import parse_issue_ref

    named = parse_issue_ref(reference)
    if named.is_pull:
        raise MalformedReference(
            f"{reference[:200]} is a pull request; only issues are work", reference=reference[:200]
        )
    return named


def refuse_url(session: "Session") -> None:
    if session.url:
        raise click.UsageError(
            "--url is not for this command: it speaks to the tracker and opens the database"
            " itself, also beside a running server; name that with --db or --state-dir"
        )


def pace_of(session: "Session") -> "Pace | None":
    """Tells people on a terminal why nothing happens."""
    if session.as_json or not sys.stderr.isatty():
        return None
    from rota.claims.timing import Pace

    return Pace(sleep=_told)


async def _told(seconds: float) -> None:
    if seconds >= _NOTICEABLE_SECONDS:
        why = f"waiting {seconds:.1f} s, until everything written there before can be seen …"
        print(one_line(why), file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
