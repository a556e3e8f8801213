"""Checks that an agent's program exists."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from rota.config.interpolation import hidden
from rota.config.mistakes import Findings
from rota.config.tree import PlacedMap, find
from rota.model.fleet import AgentSpec, RuntimeKind, Workspace

_PROGRAMS = {
    RuntimeKind.CLAUDE: "claude",
    RuntimeKind.CODEX: "codex",
    RuntimeKind.GEMINI: "gemini",
}


def warn_of_missing_program(
    agent: AgentSpec, layers: PlacedMap, environ: Mapping[str, str], findings: Findings
) -> None:
    named = agent.run.command[0] if agent.run.command else _PROGRAMS.get(agent.run.runtime)
    if not named or _is_there(named, agent, environ):
        return
    where = f"in {agent.run.working_directory}" if "/" in named else "on PATH"
    place, said = find(layers, ("runtime", "command") if agent.run.command else ("runtime",))
    why = f"there is no program {named!r} {where}; install it, or correct the agent's command: runs"
    findings.warning(place, hidden(f"{why} of this agent will fail without it", said))


def _is_there(named: str, agent: AgentSpec, environ: Mapping[str, str]) -> bool:
    """Searches as a run would. A relative path in a worktree can be checked only by the run."""
    run = agent.run
    if "/" not in named:
        found = {"PATH": os.defpath, **environ, **run.env}
        return shutil.which(named, path=found["PATH"]) is not None
    elsewhere = run.workspace is Workspace.WORKTREE or not run.working_directory.is_dir()
    if elsewhere and not Path(named).is_absolute():
        return True
    return (run.working_directory / named).exists()
