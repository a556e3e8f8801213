"""The contract of a runtime: how its program is started, and how its output is read."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from rota.model.runs import Usage
from rota.runner.port import RunRequest
from rota.runner.scratch import Scratch

Event = dict[str, Any]  # a line of the log: `type`, `text`, and more

MOST = 2**31  # of any count; larger numbers would not fit everywhere, and are ignored

# A session's id comes from an agent's output and goes into the arguments of the next run: it must
# not look like an option there.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


@dataclass(frozen=True, slots=True)
class Launch:
    argv: tuple[str, ...]
    stdin: bytes = b""
    notes: tuple[str, ...] = ()  # settings that this runtime ignores


@dataclass(slots=True)
class Report:
    """What a run has reported so far."""

    said: str = ""  # its last message
    result: str | None = None
    session_id: str | None = None
    usage: Usage = field(default_factory=Usage)
    failed: bool = False
    error: str | None = None
    # It was refused for its quota, and when the quota is available again.
    refused: bool = False
    resets_at: datetime | None = None


class Listener(Protocol):
    report: Report

    def hear(self, line: str) -> Iterator[Event]:
        """One line of stdout. Unknown events are skipped; a line that is no JSON is text."""

    def finish(self) -> Iterator[Event]:
        """There is no more output."""


class Runtime(Protocol):
    streams: bool  # its output must be read to the end, even when the log is full

    def launch(self, request: RunRequest, scratch: Scratch) -> Launch:
        """Files that the program reads go into the scratch."""

    def listener(self) -> Listener: ...


class Stream(ABC):
    """A stream of JSON objects, one per line. `on_event` skips events that it does not know."""

    def __init__(self) -> None:
        self.report = Report()

    def hear(self, line: str) -> Iterator[Event]:
        if not line.strip():
            return
        event = parsed(line)
        if event is None:
            yield {"stream": "stdout", "text": line}
            return
        try:
            yield from self.on_event(event)
        except (AttributeError, KeyError, TypeError, ValueError):
            yield {"stream": "stdout", "type": "unreadable", "text": line}

    @abstractmethod
    def on_event(self, event: Mapping[str, Any]) -> Iterator[Event]:
        """Each runtime has its own events."""

    def finish(self) -> Iterator[Event]:
        return iter(())


def parsed(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def text_event(text: str) -> Event:
    return {"stream": "stdout", "type": "text", "text": text}


def tool_event(name: str, call: object) -> Event:
    return {"stream": "stdout", "type": "tool", "tool": name, "text": in_words(call)}


def in_words(value: object) -> str:
    """A text as it is; any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def session(value: object) -> str | None:
    return value if isinstance(value, str) and _SESSION.fullmatch(value) else None


def number(value: object) -> int:
    """0 for anything that is not a plausible count: streams do not always follow their
    documentation."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < MOST else 0  # type: ignore[operator, return-value]


def money(value: object) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e9 else None  # type: ignore[operator, arg-type]


def with_system_prompt(request: RunRequest) -> bytes:
    """For programs that have no option for a system prompt."""
    system = request.settings.system_prompt
    prompt = f"{system}\n\n{request.prompt}" if system else request.prompt
    return encoded(prompt)


def encoded(text: str) -> bytes:
    """A prompt may contain a lone surrogate, where a text was cut."""
    return text.encode(errors="replace")


def unused(runtime: str, **given: object) -> tuple[str, ...]:
    """Notes on settings that the runtime does not support."""
    return tuple(
        f"{runtime} has nothing like {name}; it is not applied"
        for name, value in given.items()
        if value
    )
