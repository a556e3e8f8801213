"""The files that each coding agent reads."""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.model.errors import InvalidInput
from rota.setup import words
from rota.setup.blocks import Block, TomlBlock
from rota.setup.json_files import JsonFile, ListEntry, Member
from rota.setup.own_files import OwnFile
from rota.setup.parts import Part

_HOOK = re.compile(r"\bhook agent (?:start|stop|tool)\b")
_TOOL_SECONDS, _STOP_SECONDS, _START_SECONDS = 10, 30, 30


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works, its name, and how it calls us."""

    directory: Path
    state_dir: Path
    codex_home: Path | None  # None where no variable names it
    agent: str
    program: Sequence[str]
    options: Sequence[str] = ()  # that choose the ledger, if given

    @property
    def rota(self) -> str:
        return shlex.join([*self.program, *self.options])

    def command(self, *words: str) -> list[str]:
        return [*self.program, *self.options, *words, "--agent", self.agent]


def _server(place: Place) -> dict[str, Any]:
    command, *arguments = place.command("mcp")
    return {"command": command, "args": arguments}


def _is_our_server(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("args"), list):
        return False
    command, arguments = Path(str(value.get("command"))).name, value["args"]
    return "mcp" in arguments and (command == "rota" or arguments[:2] == ["-m", "rota"])


def _servers(path: Path, place: Place, *more: ListEntry) -> JsonFile:
    return JsonFile(path, (Member(("mcpServers", "rota"), _server(place), _is_our_server), *more))


def _block(path: Path, place: Place, told: str = words.BLOCK) -> Block:
    return Block(path, told.format(rota=place.rota, agent=place.agent))


def _skill(folder: Path, place: Place) -> OwnFile:
    return OwnFile(folder / "skills" / "rota" / "SKILL.md", words.skill(place.rota, place.agent))


# hooks of Claude Code


def _hook(place: Place, event: str, moment: str, seconds: int, **more: str) -> ListEntry:
    """A hook's working directory may be anywhere below the project."""
    called = shlex.join(place.command("hook", "agent", moment))
    command = f'cd "$CLAUDE_PROJECT_DIR" && {called}'
    deed = {"type": "command", "command": command, "timeout": seconds}
    return ListEntry(("hooks", event), {**more, "hooks": [deed]}, _without_our_hooks)


def _without_our_hooks(entry: Any) -> list[Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get("hooks"), list):
        return [entry]
    left = [one for one in entry["hooks"] if not _is_our_hook(one)]
    if len(left) == len(entry["hooks"]):
        return [entry]
    return [{**entry, "hooks": left}] if left else []


def _is_our_hook(one: Any) -> bool:
    return isinstance(one, dict) and bool(_HOOK.search(str(one.get("command", ""))))


# tools


def claude(place: Place) -> list[Part]:
    folder = place.directory / ".claude"
    hooks = (
        _hook(place, "SessionStart", "start", _START_SECONDS),
        _hook(place, "PostToolUse", "tool", _TOOL_SECONDS, matcher="*"),
        _hook(place, "Stop", "stop", _STOP_SECONDS),
    )
    return [
        _block(place.directory / "CLAUDE.md", place),
        _servers(place.directory / ".mcp.json", place),
        JsonFile(folder / "settings.json", hooks),
        _skill(folder, place),
    ]


def codex(place: Place) -> list[Part]:
    """Its configuration is shared by all projects, so it names the ledger by its directory."""
    if place.codex_home is None:
        raise InvalidInput("nothing tells where Codex has its files; set CODEX_HOME or HOME")
    ledger = place.options or ("--state-dir", str(place.state_dir))
    command, *arguments = [*place.program, *ledger, "mcp", "--agent", place.agent]
    table = (
        "[mcp_servers.rota]\n"
        f"command = {json.dumps(command)}\n"
        f"args = [{', '.join(json.dumps(one) for one in arguments)}]"
    )
    return [
        _block(place.directory / "AGENTS.md", place),
        TomlBlock(place.codex_home / "config.toml", table),
        _skill(place.directory / ".agents", place),
    ]


def gemini(place: Place) -> list[Part]:
    folder = place.directory / ".gemini"
    return [
        _block(place.directory / "GEMINI.md", place),
        _servers(folder / "settings.json", place),
        _skill(folder, place),
    ]


def cursor(place: Place) -> list[Part]:
    folder = place.directory / ".cursor"
    return [
        OwnFile(folder / "rules" / "rota.mdc", words.rule(place.rota, place.agent)),
        _servers(folder / "mcp.json", place),
        _skill(folder, place),
    ]


def generic(place: Place) -> list[Part]:
    return [
        _block(place.directory / "AGENTS.md", place, words.COMMANDS),
        _skill(place.directory / ".agents", place),
    ]


TOOLS: dict[str, Callable[[Place], list[Part]]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "cursor": cursor,
    "generic": generic,
}
