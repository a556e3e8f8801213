"""What is known of a run's end: exit code, result file, last words."""

import json
import os
import re
import signal
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.model.errors import InvalidInput
from rota.model.runs import RunStatus
from rota.model.work import storable
from rota.runner.redaction import Redactor

LONGEST_FILE = 1024 * 1024
LONGEST_SUMMARY = 4000
LONGEST_ERROR = 2000
MOST_ARTIFACTS = 50
LONGEST_ARTIFACT = 2000

_OUTCOMES = {
    "success": RunStatus.SUCCEEDED,
    "failure": RunStatus.FAILED,
    "partial": RunStatus.PARTIAL,
}
# Pull and merge requests and commits, as GitHub, Gitea, Forgejo and GitLab write them.
_ARTIFACT = re.compile(
    r"https?://[^\s<>\"'`()\[\]]+?/"
    r"(?:pulls?/\d+|-/merge_requests/\d+|merge_requests/\d+|(?:-/)?commit/[0-9a-f]{7,64})\b"
)


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent wrote into its result file."""

    outcome: RunStatus | None = None
    summary: str = ""
    artifacts: tuple[str, ...] = ()
    error: str | None = None


def read_result(path: Path, redactor: Redactor) -> Told | None:
    """Without secrets. None when there is none; raises InvalidInput, with the reason, when it
    cannot be used."""
    try:
        raw = _content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"the result file cannot be read: {error.strerror}") from error
    if len(raw) > LONGEST_FILE:
        raise InvalidInput(f"the result file is larger than {LONGEST_FILE} bytes")
    return _told(redactor.value(_decoded(raw))) if raw.strip() else None


def _content(path: Path) -> bytes:
    """An agent can put anything there, also an endless file or a pipe that blocks."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InvalidInput("the result file is not a file")
        return os.read(handle, LONGEST_FILE + 1)
    finally:
        os.close(handle)


def _decoded(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput("the result file does not hold a JSON object")
    return found


def _told(found: Mapping[str, Any]) -> Told:
    outcome = found.get("outcome")
    if outcome is not None and outcome not in tuple(_OUTCOMES):  # an outcome may be unhashable
        raise InvalidInput(
            f"the result file says outcome {str(outcome)[:60]!r}; write success, failure or partial"
        )
    artifacts = found.get("artifacts") or ()
    if not isinstance(artifacts, list | tuple):
        raise InvalidInput("the result file's artifacts are a list of texts")
    parts = [_text(found.get("summary")), _text(found.get("details"))]
    return Told(
        outcome=_OUTCOMES.get(outcome) if outcome else None,
        summary=shortened("\n\n".join(filter(None, parts))),
        artifacts=tuple(_text(one)[:LONGEST_ARTIFACT] for one in artifacts[:MOST_ARTIFACTS]),
        error=_text(found.get("error"))[:LONGEST_ERROR] or None,
    )


def _text(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return storable(text).strip()


def shortened(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """Keeps the end, because that is where an agent sums up."""
    text = text.strip()
    return text if len(text) <= longest else "…" + text[-(longest - 1) :].lstrip()


def artifacts_in(text: str) -> tuple[str, ...]:
    """Addresses of pull requests, merge requests and commits, each once."""
    found = dict.fromkeys(match[0] for match in _ARTIFACT.finditer(text))
    return tuple(one for one in found if len(one) <= LONGEST_ARTIFACT)[:MOST_ARTIFACTS]


def ended_by(exit_code: int | None) -> str:
    """Why a program failed, as far as that is known."""
    if exit_code is None:
        return "its supervisor was killed, and with it whatever the run had come to"
    if exit_code < 0:
        return f"it was killed by {_signal(-exit_code)}"
    return f"it exited with {exit_code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
