"""`gemini`: Gemini CLI in its headless mode, which streams JSON."""

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

# Claude's permission modes, and their nearest equivalents; other words are passed on.
MODES = {
    "delegate": "default",
    "dontAsk": "default",
    "acceptEdits": "auto_edit",
    "auto": "auto_edit",
    "bypassPermissions": "yolo",
}
LONGEST_MESSAGE = 1024 * 1024


class GeminiRuntime:
    streams = True

    def launch(self, request: RunRequest, scratch: Scratch) -> Launch:
        settings = request.settings
        argv = [*(settings.command or ("gemini",)), "--output-format", "stream-json"]
        if settings.model:
            argv += ["--model", settings.model]
        if settings.permission_mode:
            mode = settings.permission_mode
            argv += ["--approval-mode", MODES.get(mode, mode)]
        if settings.allowed_tools:
            argv += ["--allowed-tools", ",".join(settings.allowed_tools)]
        if resumed := session(request.session_id):
            argv += ["--resume", resumed]
        notes = unused(
            "gemini",
            max_turns=settings.max_turns,
            denied_tools=settings.denied_tools,
            mcp_servers=settings.mcp_servers,
        )
        return Launch((*argv, *settings.arguments), with_system_prompt(request), notes)

    def listener(self) -> "GeminiStream":
        return GeminiStream()


class GeminiStream(Stream):
    """`init`, `message` (often in pieces), `tool_use`, `tool_result`, `error`, `result`."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces = ""

    def on_event(self, event: Mapping[str, Any]) -> Iterator[Event]:
        if event["type"] != "message":
            yield from self.finish()
        match event["type"]:
            case "init":
                self.report.session_id = session(event["session_id"])
            case "message" if event.get("role") == "assistant":
                yield from self._message(event)
            case "tool_use":
                yield tool_event(str(event["tool_name"]), event.get("parameters"))
            case "error":
                yield {"stream": "stdout", "type": "error", "text": str(event["message"])}
            case "result":
                yield self._result(event)

    def _message(self, event: Mapping[str, Any]) -> Iterator[Event]:
        if not event.get("delta"):
            yield from self.finish()
        if len(self._pieces) < LONGEST_MESSAGE:  # whole pieces: a cut may split a secret
            self._pieces += str(event["content"])

    def finish(self) -> Iterator[Event]:
        """Ends a message that came in pieces."""
        if self._pieces:
            self.report.said, self._pieces = self._pieces, ""
            yield text_event(self.report.said)

    def _result(self, event: Mapping[str, Any]) -> Event:
        stats = event.get("stats") or {}
        self.report.usage = Usage(
            number(stats.get("input_tokens")), number(stats.get("output_tokens"))
        )
        self.report.failed = event.get("status") == "error"
        if self.report.failed:
            error = event.get("error") or {}
            self.report.error = str(error.get("message") or "gemini reported an error")
        text = self.report.error or self.report.said
        return {"stream": "stdout", "type": "result", "text": text}
