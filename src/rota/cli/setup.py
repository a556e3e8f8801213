"""Making coding agents use Rota."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.output import Column, column
from rota.cli.program import by_name, ledger_options
from rota.cli.session import command
from rota.cli.text import lines

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.setup.plan import Change
    from rota.setup.tools import Place

_NAMES = ("claude", "codex", "gemini", "cursor", "generic")
_COLUMNS = [
    column("deed"),
    Column("file", lambda row: row["path"], lambda row: row["name"], folds=True),
]


@command("setup", example="rota setup claude --agent smith --dry-run")
@click.argument("tool", type=click.Choice(_NAMES))
@click.option("--agent", help="The agent's name in the ledger.  [default: the tool's name]")
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(), help="Directory of the project.  [default: this directory]",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print what would change; change nothing.")
@click.option("--remove", is_flag=True, help="Remove what an earlier call added.")
def setup(
    session: "Session",
    /,
    tool: str,
    *,
    agent: str | None,
    directory: Path,
    dry_run: bool,
    remove: bool,
) -> None:
    """Connect a coding agent to Rota.

    Adds instructions, a skill and the MCP server, and for claude also hooks. Existing files keep
    everything else that they hold. A second call changes nothing more; --remove leaves the files as
    they were. `codex` also writes to $CODEX_HOME/config.toml. `generic` is for any agent that reads
    AGENTS.md, and adds no MCP server.
    """
    from rota.setup.plan import Setup
    from rota.setup.tools import TOOLS

    place = _place(session, agent or tool, directory.resolve())
    work = Setup(tool, TOOLS[tool](place), place.state_dir)
    changes = work.planned_removal() if remove else work.planned()
    if not dry_run:
        (work.apply_removal if remove else work.apply)(changes)
    _show(session, changes, place.directory, dry_run=dry_run)
    if not (dry_run or remove):
        session.output.say(_next_words(tool, place))


def _place(session: "Session", agent: str, directory: Path) -> "Place":
    from rota.model.work import check_name
    from rota.setup.tools import Place

    return Place(
        directory,
        directory / session.settings.state_dir,
        _codex_home(),
        check_name(agent, "agent"),
        by_name(),
        ledger_options(session),
    )


def _codex_home() -> Path | None:
    """None in a container whose user has neither HOME nor a name."""
    try:
        return Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser()
    except RuntimeError:
        return None


def _show(
    session: "Session", changes: "Sequence[Change]", directory: Path, *, dry_run: bool
) -> None:
    rows = [
        {
            "path": str(one.path),
            "name": _short(one.path, directory),
            "deed": one.deed,
            "diff": one.diff,
        }
        for one in changes
    ]
    if session.as_json or not dry_run:
        none = "nothing to change: it is all as it should be already"
        session.output.table(rows, _COLUMNS, none, dry_run=dry_run)
        return
    shown = "".join(one.diff for one in changes)
    sys.stdout.write(lines(shown) if shown else "nothing would change\n")


def _short(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory) if path.is_relative_to(directory) else path)


def _next_words(tool: str, place: "Place") -> str:
    server = " ".join(place.command("mcp"))
    told = {
        "claude": "Next: start claude here, approve the MCP server rota, and say: take an item.",
        "generic": f"Next: if your agent speaks MCP, give it this server: {server}",
    }
    return told.get(tool, f"Next: start {tool} here again, and say: take an item.")
