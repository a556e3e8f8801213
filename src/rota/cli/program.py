"""How this program can be called again: from a hook, by a coding agent, in another directory."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.cli.session import Session


def by_path() -> list[str]:
    """For callers that do not have this shell's PATH, such as an editor that pushes."""
    here = Path(sys.argv[0])
    if here.name == "rota" and here.is_file():
        return [str(here.absolute())]
    return [sys.executable, "-m", "rota"]


def by_name() -> list[str]:
    """By name where the shell finds it, so that it also works on other machines."""
    import shutil

    return ["rota"] if shutil.which("rota") else by_path()


def ledger_options(session: "Session") -> list[str]:
    """The options as given. Without any, it is the ledger of the project's own directory."""
    if session.url:
        return ["--url", session.url]
    if session.database:
        return ["--db", session.database]
    return ["--state-dir", str(Path(session.state_dir).absolute())] if session.state_dir else []


def with_its_ledger(session: "Session") -> str:
    return shlex.join([*by_name(), *ledger_options(session)])
