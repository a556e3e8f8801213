"""How the runtimes' programs are called."""

import json
from pathlib import Path
from typing import Any

from rota.model.fleet import RunSettings, RuntimeKind
from rota.runner import RunRequest
from rota.runner.runtimes import RUNTIMES
from rota.runner.runtimes.port import Launch
from rota.runner.scratch import Scratch


def launched(
    tmp_path: Path, kind: RuntimeKind, session_id: str | None = None, **settings: Any
) -> Launch:
    request = RunRequest(
        run_id="run-1",
        agent="a",
        settings=RunSettings(runtime=kind, **settings),
        prompt="do it",
        log=tmp_path / "log",
        session_id=session_id,
    )
    return RUNTIMES[kind].launch(request, Scratch.of(tmp_path, "run-1"))


FULL: dict[str, Any] = {
    "system_prompt": "be brief",
    "model": "m",
    "max_turns": 7,
    "permission_mode": "acceptEdits",
    "allowed_tools": ("Read", "Bash(git log:*)"),
    "denied_tools": ("WebFetch",),
    "mcp_servers": {"docs": {"command": "docs-server", "env": {"KEY": "canary"}}},
    "arguments": ("--extra",),
}


def test_claude_by_default(tmp_path: Path) -> None:
    launch = launched(tmp_path, RuntimeKind.CLAUDE)
    assert launch.argv == ("claude", "-p", "--output-format", "stream-json", "--verbose")
    assert launch.stdin == b"do it"


def test_claude_with_everything(tmp_path: Path) -> None:
    launch = launched(tmp_path, RuntimeKind.CLAUDE, "s-1", command=("npx", "claude"), **FULL)
    config = tmp_path / "scratch" / "run-1-mcp.json"
    assert launch.argv == (
        *("npx", "claude", "-p", "--output-format", "stream-json", "--verbose"),
        *("--model", "m", "--max-turns", "7", "--permission-mode", "acceptEdits"),
        *("--allowedTools", "Read,Bash(git log:*)", "--disallowedTools", "WebFetch"),
        *("--append-system-prompt", "be brief", "--mcp-config", str(config)),
        *("--resume", "s-1", "--extra"),
    )
    assert json.loads(config.read_text()) == {"mcpServers": FULL["mcp_servers"]}
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.parent.stat().st_mode & 0o777 == 0o700
    assert "canary" not in " ".join(launch.argv)


def test_codex_by_default(tmp_path: Path) -> None:
    launch = launched(tmp_path, RuntimeKind.CODEX)
    assert launch.argv == ("codex", "exec", "--json", "--skip-git-repo-check", "-")
    assert launch.stdin == b"do it"


def test_codex_with_everything(tmp_path: Path) -> None:
    launch = launched(tmp_path, RuntimeKind.CODEX, "s-1", **FULL)
    assert launch.argv == (
        *("codex", "exec", "--json", "--skip-git-repo-check", "--model", "m"),
        *("--sandbox", "workspace-write", "--extra", "resume", "s-1", "-"),
    )
    assert launch.stdin == b"be brief\n\ndo it"
    assert [note.split()[4] for note in launch.notes] == [
        *("max_turns;", "allowed_tools;", "denied_tools;", "mcp_servers;")
    ]


def test_codex_without_a_sandbox(tmp_path: Path) -> None:
    launch = launched(tmp_path, RuntimeKind.CODEX, permission_mode="bypassPermissions")
    assert "--dangerously-bypass-approvals-and-sandbox" in launch.argv
    launch = launched(tmp_path, RuntimeKind.CODEX, permission_mode="read-only")
    assert launch.argv[4:6] == ("--sandbox", "read-only")


def test_gemini_with_everything(tmp_path: Path) -> None:
    launch = launched(tmp_path, RuntimeKind.GEMINI, "s-1", **FULL)
    assert launch.argv == (
        *("gemini", "--output-format", "stream-json", "--model", "m"),
        *("--approval-mode", "auto_edit", "--allowed-tools", "Read,Bash(git log:*)"),
        *("--resume", "s-1", "--extra"),
    )
    assert launch.stdin == b"be brief\n\ndo it"


def test_a_session_that_would_be_an_option_is_not_passed_on(tmp_path: Path) -> None:
    for kind in (RuntimeKind.CLAUDE, RuntimeKind.CODEX, RuntimeKind.GEMINI):
        assert "--yolo" not in launched(tmp_path, kind, "--yolo").argv
