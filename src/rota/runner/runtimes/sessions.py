"""Recognises that a session to resume does not exist any more."""

import re

from rota.model.runs import RunEnd, RunStatus

_SAID = re.compile(
    r"no (?:conversation|saved session|rollout) found|invalid session identifier"
    r"|error resuming session",
    re.IGNORECASE,
)


def is_gone(end: RunEnd) -> bool:
    """It failed before it did anything, because there is no such session."""
    failed = end.status is RunStatus.FAILED and end.usage.tokens == 0
    return failed and _SAID.search(end.error or "") is not None
