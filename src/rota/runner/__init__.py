"""The runner: executes an agent once, and leaves no process behind."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.runner.executor import LocalRunner as LocalRunner
    from rota.runner.logs import append as append
    from rota.runner.logs import for_people as for_people
    from rota.runner.logs import tail as tail
    from rota.runner.orphans import Orphan as Orphan
    from rota.runner.orphans import end_orphans as end_orphans
    from rota.runner.port import Runner as Runner
    from rota.runner.port import RunRequest as RunRequest
    from rota.runner.workspace import Removed as Removed
    from rota.runner.workspace import clean_worktrees as clean_worktrees

# Resolved on first access: the ledger needs the records of runs, but not the code that runs agents.
_HOMES = {
    "LocalRunner": "rota.runner.executor",
    "append": "rota.runner.logs",
    "for_people": "rota.runner.logs",
    "tail": "rota.runner.logs",
    "Orphan": "rota.runner.orphans",
    "end_orphans": "rota.runner.orphans",
    "RunRequest": "rota.runner.port",
    "Runner": "rota.runner.port",
    "Removed": "rota.runner.workspace",
    "clean_worktrees": "rota.runner.workspace",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - the list of names is above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
