"""`codex`: `codex exec --json`."""

from collections.abc import Iterator, Mapping
from typing import Any

from rota.model.runs import Usage
from rota.runner.port import RunRequest
from rota.runner.runtimes.port import (
    Event,
    Launch,
    Stream,
    number,
    session,
    text_event,
    tool_event,
    unused,
    with_system_prompt,
)
from rota.runner.scratch import Scratch

BYPASS = "--dangerously-bypass-approvals-and-sandbox"
# Claude's permission modes, and their nearest equivalents; other words are passed on.
_WRITING = ("default", "delegate", "dontAsk", "acceptEdits", "auto")
SANDBOXES = {"plan": "read-only", **dict.fromkeys(_WRITING, "workspace-write")}


class CodexRuntime:
    streams = True

    def launch(self, request: RunRequest, scratch: Scratch) -> Launch:
        settings = request.settings
        argv = [*(settings.command or ("codex",)), "exec", "--json", "--skip-git-repo-check"]
        if settings.model:
            argv += ["--model", settings.model]
        argv += [*_permissions(settings.permission_mode), *settings.arguments]
        if resumed := session(request.session_id):
            argv += ["resume", resumed]
        notes = unused(
            "codex",
            max_turns=settings.max_turns,
            allowed_tools=settings.allowed_tools,
            denied_tools=settings.denied_tools,
            mcp_servers=settings.mcp_servers,
        )
        return Launch((*argv, "-"), with_system_prompt(request), notes)

    def listener(self) -> "CodexStream":
        return CodexStream()


def _permissions(mode: str | None) -> list[str]:
    if mode is None:
        return []
    if mode == "bypassPermissions":
        return [BYPASS]
    return ["--sandbox", SANDBOXES.get(mode, mode)]


class CodexStream(Stream):
    """`thread.started`, turns, items. One `error` may be followed by a success."""

    def on_event(self, event: Mapping[str, Any]) -> Iterator[Event]:
        match event["type"]:
            case "thread.started":
                self.report.session_id = session(event["thread_id"])
            case "turn.completed":
                self._completed(event.get("usage") or {})
            case "turn.failed":
                self.report.failed = True
                yield self._error(event["error"]["message"])
            case "error":
                yield self._error(event["message"])
            case "item.started" | "item.completed":
                yield from self._item(event["item"], event["type"] == "item.completed")

    def _completed(self, usage: Mapping[str, Any]) -> None:
        turns = (self.report.usage.turns or 0) + 1
        self.report.usage = Usage(
            number(usage.get("input_tokens")), number(usage.get("output_tokens")), turns=turns
        )
        self.report.failed = False
        self.report.error = None

    def _error(self, message: object) -> Event:
        self.report.error = str(message)
        return {"stream": "stdout", "type": "error", "text": str(message)}

    def _item(self, item: Mapping[str, Any], complete: bool) -> Iterator[Event]:
        kind = item["type"]
        if kind == "agent_message" and complete:
            self.report.said = str(item["text"])
            yield text_event(self.report.said)
        elif kind == "command_execution" and not complete:
            yield tool_event("command", str(item["command"]))
        elif kind == "mcp_tool_call" and not complete:
            yield tool_event(f"{item['server']}.{item['tool']}", item.get("arguments"))
        elif kind == "file_change" and complete:
            yield tool_event("file_change", [one["path"] for one in item["changes"]])
        elif kind == "web_search" and complete:
            yield tool_event("web_search", str(item["query"]))
