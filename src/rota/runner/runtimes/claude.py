"""`claude`: Claude Code in its print mode, which streams JSON."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rota.model.fleet import RunSettings
from rota.model.runs import Usage
from rota.runner.port import RunRequest
from rota.runner.runtimes.port import (
    Event,
    Launch,
    Stream,
    encoded,
    in_words,
    money,
    number,
    session,
    text_event,
    tool_event,
)
from rota.runner.scratch import Scratch


class ClaudeRuntime:
    streams = True

    def launch(self, request: RunRequest, scratch: Scratch) -> Launch:
        settings = request.settings
        argv = [*(settings.command or ("claude",)), "-p", "--output-format", "stream-json"]
        argv += ["--verbose", *_options(settings)]
        if settings.mcp_servers:
            argv += ["--mcp-config", str(_mcp_config(settings.mcp_servers, scratch))]
        if resumed := session(request.session_id):
            argv += ["--resume", resumed]
        return Launch((*argv, *settings.arguments), stdin=encoded(request.prompt))

    def listener(self) -> "ClaudeStream":
        return ClaudeStream()


def _options(settings: RunSettings) -> Iterator[str]:
    options = {
        "--model": settings.model,
        "--max-turns": settings.max_turns,
        "--permission-mode": settings.permission_mode,
        "--allowedTools": ",".join(settings.allowed_tools),
        "--disallowedTools": ",".join(settings.denied_tools),
        "--append-system-prompt": settings.system_prompt,
    }
    for name, value in options.items():
        if value:
            yield from (name, str(value))


def _mcp_config(servers: Mapping[str, Any], scratch: Scratch) -> Path:
    """As a file: it may hold secrets, and every user of the machine can read arguments."""
    return scratch.write("mcp.json", json.dumps({"mcpServers": dict(servers)}).encode())


class ClaudeStream(Stream):
    """`system`, `assistant`, `user`, `rate_limit_event`, and one `result` at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._before = Usage()  # of the messages before the current one
        self._message: str | None = None

    def on_event(self, event: Mapping[str, Any]) -> Iterator[Event]:
        if told := session(event.get("session_id")):
            self.report.session_id = told
        match event["type"]:
            case "assistant":
                yield from self._assistant(event)
            case "rate_limit_event":
                self._rate_limit(event["rate_limit_info"])
            case "result":
                yield self._result(event)

    def _assistant(self, event: Mapping[str, Any]) -> Iterator[Event]:
        message = event["message"]
        self._count(message)
        for block in message["content"]:
            if block["type"] == "text":
                if not event.get("parent_tool_use_id"):  # a subagent's words are not the agent's
                    self.report.said = str(block["text"])
                yield text_event(str(block["text"]))
            elif block["type"] == "tool_use":
                yield tool_event(str(block["name"]), block.get("input"))

    def _count(self, message: Mapping[str, Any]) -> None:
        """A message comes in several events, each with its usage so far."""
        if message.get("id") != self._message:
            self._message = message.get("id")
            self._before = self.report.usage
        used = _tokens(message.get("usage") or {})
        self.report.usage = Usage(
            self._before.input_tokens + used.input_tokens,
            self._before.output_tokens + used.output_tokens,
        )

    def _rate_limit(self, info: Mapping[str, Any]) -> None:
        self.report.refused = info.get("status") == "rejected" and not info.get("isUsingOverage")
        if self.report.refused and (reset := number(info.get("resetsAt"))):
            self.report.resets_at = datetime.fromtimestamp(reset, UTC)

    def _result(self, event: Mapping[str, Any]) -> Event:
        report = self.report
        report.result = in_words(event["result"]) if event.get("result") else None
        report.failed = bool(event.get("is_error")) or event.get("subtype") != "success"
        if report.failed:
            report.error = _why(event)
            report.refused |= event.get("api_error_status") == 429
        else:
            report.refused = False
        used = _tokens(event.get("usage") or {})
        report.usage = Usage(
            used.input_tokens or report.usage.input_tokens,
            used.output_tokens or report.usage.output_tokens,
            money(event.get("total_cost_usd")),
            number(event.get("num_turns")) or None,
        )
        return {"stream": "stdout", "type": "result", "text": report.error or report.result or ""}


def _why(event: Mapping[str, Any]) -> str:
    if event.get("subtype") == "error_max_turns":
        return f"it used up its {number(event.get('num_turns'))} turns; raise max_turns"
    if event.get("result"):
        return in_words(event["result"])
    said = "; ".join(str(one) for one in event.get("errors") or [])
    return said or str(event.get("subtype") or "claude reported an error")


def _tokens(usage: Mapping[str, Any]) -> Usage:
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(sum(number(usage.get(part)) for part in parts), number(usage.get("output_tokens")))
