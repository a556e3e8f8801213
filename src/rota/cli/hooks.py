"""The git hook that keeps a push from answering an issue that somebody else works on."""

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.agent_hooks import agent_hook
from rota.cli.desks import run
from rota.cli.ending import NEGATIVE
from rota.cli.program import by_path
from rota.cli.session import config_option, group
from rota.cli.text import lines
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.claims.hook import HookResult, HookStatus
    from rota.cli.session import Session
    from rota.config import Settings
    from rota.sources.operators import Operators

hook = group(
    "hook",
    "Install the git hook that refuses conflicting pushes.\n\nThe hook runs before each `git push`"
    " and reads the commits that are pushed. It refuses the push when a commit closes an issue that"
    " somebody else has claimed or has answered with a pull request.",
    "rota hook install",
)
hook.add_command(agent_hook)

_directory = click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
)


@hook.member("install", example="rota hook install .")
@_directory
@config_option
def install(session: "Session", /, directory: Path) -> None:
    """Install the pre-push hook in a repository.

    A pre-push hook that is already there runs before it. DIRECTORY is inside the repository's work
    tree; the default is the current directory.
    """
    from rota.claims.hook import install as put

    _show(session, put(directory, [*by_path(), *_options(session)]))


def _options(session: "Session") -> list[str]:
    named = ["--config", str(session.settings.config.absolute())] if session.config else []
    return ["hook", "pre-push", *named]


@hook.member("uninstall", example="rota hook uninstall")
@_directory
def uninstall(session: "Session", /, directory: Path) -> None:
    """Remove the hook, and restore the one from before."""
    from rota.claims.hook import uninstall as remove

    _show(session, remove(directory))


@hook.member("status", example="rota hook status")
@_directory
def status(session: "Session", /, directory: Path) -> None:
    """Show whether the hook is installed; exit code 1 if not."""
    from rota.claims.hook import HookState
    from rota.claims.hook import status as look

    found = look(directory)
    _show(session, found)
    if found.state is not HookState.INSTALLED:
        raise click.exceptions.Exit(NEGATIVE)


def _show(session: "Session", found: "HookStatus") -> None:
    data = {
        "path": str(found.path),
        "state": str(found.state),
        "chained": found.chained,
        "shared": found.shared,
    }
    before = "a hook that was here before runs first" if found.chained else None
    shared = "core.hooksPath: other repositories may use it too" if found.shared else None
    session.output.facts(
        data,
        [("hook", found.path), ("state", found.state), ("chained", before), ("shared", shared)],
    )


@hook.member("pre-push", example="rota hook pre-push origin https://github.com/octocat/hello")
@click.argument("remote")
@click.argument("address", metavar="URL")
@config_option
def pre_push(session: "Session", /, remote: str, address: str) -> None:
    """Judge a push; git calls this from the hook.

    Reads the lines of git from standard input. Exit code 1 refuses the push.
    """
    pushed = list(sys.stdin)
    result = run(_judged(session.settings, pushed, remote, address))
    if session.as_json:
        session.output.document(
            {
                "allowed": result.allowed,
                "refusals": [
                    {"issue": one.subject, "reason": one.reason} for one in result.refusals
                ],
                "notes": list(result.notes),
            }
        )
    elif result.text:
        print(lines(result.text), file=sys.stderr)
    if not result.allowed:
        raise click.exceptions.Exit(NEGATIVE)


async def _judged(
    settings: "Settings", pushed: Sequence[str], remote: str, address: str
) -> "HookResult":

    from rota.app import repositories
    from rota.claims.hook import pre_push as judged
    from rota.claims.pushes import claims_in
    from rota.sources.lookup import knows

    sources = repositories(settings)
    async with AsyncExitStack() as opened:
        verdicts = Verdicts(settings, opened, claims_in(pushed))
        return await judged(
            pushed,
            remote,
            address,
            knows=lambda host, repo: knows(host, repo, sources, environ),
            verdict=verdicts.verdict,
        )


class Verdicts:
    """Asks about issues with the token's account; opens each repository's desk once."""

    def __init__(
        self, settings: "Settings", opened: AsyncExitStack, claims: dict[int, int]
    ) -> None:
        self._settings = settings
        self._opened = opened
        self._claims = claims
        self._desks: dict[tuple[str, str], Operators] = {}

    async def verdict(self, host: str, repo: str, number: int) -> str | None:
        from rota.claims.pickup import Asker

        operators = await self._operators(host, repo.lower())
        asker = Asker(self._claims.get(number), (await operators.me()).login)
        found = await operators.conflict(number, asker)
        return None if found is None else found.message

    async def _operators(self, host: str, repo: str) -> "Operators":
        from rota.app import open_window
        from rota.sources.operators import Operators

        if (host, repo) not in self._desks:
            window = open_window(repo, self._settings, host=host)
            desk = await self._opened.enter_async_context(window)
            self._desks[host, repo] = Operators(desk)
        return self._desks[host, repo]
