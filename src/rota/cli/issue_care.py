"""Looking after the claims of whole repositories: stale claims, and pauses."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.desks import pace_of, refuse_url, run
from rota.cli.ending import NETWORK, exit_code_for
from rota.cli.output import Column, column
from rota.model.errors import MalformedReference, RotaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.claims.pauses import PausedRepos
    from rota.claims.sweep import Finding
    from rota.cli.session import Session
    from rota.config.sources import Forge
    from rota.queue.ledger import Ledger

_STALE = [
    column("repo", whole=True),
    column("number"),
    column("codename"),
    column("firing_id", whole=True, spare=1),
    column("age_hours", "hours", spare=2),
    column("title", folds=True),
]
_SWEPT = [*_STALE[:2], column("deed"), *_STALE[2:]]
_PAUSED = [Column("repository", lambda one: one["repo"], whole=True)]


class Sweeping:
    """Sweeps repositories one after another. A failure of one does not stop the others."""

    def __init__(self, session: "Session", max_age_hours: float | None, dry_run: bool) -> None:
        self._session = session
        self._max_age_hours = max_age_hours
        self._dry_run = dry_run
        self.rows: list[dict[str, Any]] = []
        self.asked_after: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.exit_code = 0

    async def run(self, sources: "Sequence[Forge]") -> None:
        from rota.app import open_ledger

        async with open_ledger(self._session.settings.database) as ledger:
            for source in sources:
                try:
                    await self._sweep(source, ledger)
                except RotaError as error:
                    if len(sources) == 1:
                        raise
                    self._failed(source.repo, error.message, exit_code_for(error))

    async def _sweep(self, source: "Forge", ledger: "Ledger") -> None:
        from rota.app import open_desk
        from rota.sources.lookup import web_host
        from rota.sources.stale_claims import StaleClaims

        async with open_desk(
            source.repo,
            self._session.settings,
            host=web_host(source),
            ledger=ledger,
            pace=pace_of(self._session),
        ) as desk:
            report = await StaleClaims(desk).sweep(self._max_age_hours, dry_run=self._dry_run)
        self.rows += [_row(source.repo, one) for one in report.findings]
        self.asked_after += [_row(source.repo, one) for one in report.asked_after]
        for number in report.disputed:
            self.problems.append(
                f"{source.repo}#{number}: a claim comment was edited, so its log cannot be"
                " believed; delete that comment"
            )
        for number, message in report.errors.items():
            self._failed(f"{source.repo}#{number}", message, NETWORK)

    def _failed(self, where: str, message: str, exit_code: int) -> None:
        self.problems.append(f"{where}: {message}")
        self.exit_code = self.exit_code or exit_code


def _row(repo: str, one: "Finding") -> dict[str, Any]:
    return {
        "repo": repo,
        "number": one.number,
        "title": one.title,
        "deed": str(one.deed),
        "codename": one.codename or None,
        "firing_id": one.firing_id or None,
        "age_hours": round(one.age_hours, 2) if one.firing_id else None,
    }


def sweep(
    session: "Session", repos: "Sequence[str]", max_age_hours: float | None, dry_run: bool
) -> None:
    swept = _swept(session, repos, max_age_hours, dry_run)
    session.output.table(swept.rows, _SWEPT, dry_run=dry_run, problems=swept.problems or None)
    if not swept.rows and not swept.problems:
        waits = "nothing to do yet: claims that were asked after still have time to answer"
        right = "nothing is stale, and all labels are right"
        session.output.say(waits if swept.asked_after else right)
    _leave(session, swept)


def stale(session: "Session", repos: "Sequence[str]", max_age_hours: float | None) -> None:
    swept = _swept(session, repos, max_age_hours, dry_run=True)
    rows = [row for row in swept.rows if row["firing_id"] is not None] + swept.asked_after
    if rows or swept.exit_code:
        session.output.table(rows, _STALE, problems=swept.problems or None)
        _leave(session, swept)
    else:
        _tell(session, swept)
        session.output.negative([], "nothing_stale", "nothing is stale")


def _swept(
    session: "Session", repos: "Sequence[str]", max_age_hours: float | None, dry_run: bool
) -> Sweeping:
    refuse_url(session)
    swept = Sweeping(session, max_age_hours, dry_run)
    run(swept.run(_sources(session, repos)))
    return swept


def _tell(session: "Session", swept: Sweeping) -> None:
    for problem in swept.problems:
        session.output.say(problem)


def _leave(session: "Session", swept: Sweeping) -> None:
    _tell(session, swept)
    if swept.exit_code:
        raise click.exceptions.Exit(swept.exit_code)


def _sources(session: "Session", repos: "Sequence[str]") -> "list[Forge]":
    from rota.app import find_source, repositories
    from rota.config.loading import load_fleet

    if repos:
        return [find_source(repo, session.settings) for repo in repos]
    forges, file = repositories(session.settings), session.settings.config
    if not forges:
        load_fleet(file)  # raises if agents, which may name repositories, cannot be read
        raise click.UsageError(f"no repository is named in {file}; name one: OWNER/REPO")
    # Labels alone do not say whose a claim is, so a sweep could judge nothing there.
    return [one for one in forges if one.claim_mode != "labels"]


def demand_repository(session: "Session", repo: str) -> None:
    """A name without an owner would pause every repository of that name or, mistyped, none."""
    from rota.app import repositories

    if "/" in repo or any(_is_about(one.repo, repo) for one in repositories(session.settings)):
        return
    raise MalformedReference(
        f"{repo[:100]!r} is no OWNER/REPO, and {session.settings.config} names no such repository",
        reference=repo[:100],
    )


def set_paused(session: "Session", repo: str, paused: bool) -> None:
    pauses = _pauses(session)
    if not paused and not pauses.is_paused(repo):
        named = ", ".join(pauses.list()) or "none"
        session.output.negative(
            {"repo": repo, "is_paused": False, "paused": pauses.list()},
            "not_paused",
            f"{repo} was not paused; paused repositories: {named}",
        )
    names = pauses.set(repo, paused)
    session.output.line(
        {"repo": repo, "is_paused": paused, "paused": names},
        f"{repo} is paused: no agent takes its issues" if paused else f"{repo} is resumed",
    )


def list_paused(session: "Session", repo: str | None = None) -> None:
    pauses = _pauses(session)
    if repo is not None and not pauses.is_paused(repo):
        session.output.negative([], "not_paused", f"{repo} is not paused")
    names = [name for name in pauses.list() if repo is None or _is_about(name, repo)]
    session.output.table([{"repo": name} for name in names], _PAUSED, "no repository is paused")


def _is_about(name: str, repo: str) -> bool:
    one, other = name.lower(), repo.lower()
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _pauses(session: "Session") -> "PausedRepos":
    from rota.claims.pauses import FILE_NAME, PausedRepos

    return PausedRepos(session.settings.state_dir / FILE_NAME)
