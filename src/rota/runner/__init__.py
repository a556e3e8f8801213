"""The runner: executes an agent once, and leaves nothing behind."""

from rota.runner.executor import LocalRunner
from rota.runner.logs import append, for_people, tail
from rota.runner.orphans import Orphan, end_orphans
from rota.runner.port import Runner, RunRequest
from rota.runner.workspace import Removed, clean_worktrees

__all__ = [
    "LocalRunner",
    "Orphan",
    "Removed",
    "RunRequest",
    "Runner",
    "append",
    "clean_worktrees",
    "end_orphans",
    "for_people",
    "tail",
]
