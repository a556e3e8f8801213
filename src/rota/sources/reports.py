"""The reports that people read on an issue after work on it, and the pull request it made."""

import re
from collections.abc import Iterable

from rota.model.work import storable
from rota.sources.port import WorkResult

LONGEST_REPORT = 60_000  # GitHub accepts 65,536 characters in a comment
LONGEST_ADDRESS = 2_000
_PART = "[!-.0-;=?-~]+"  # goes into a marker, which an angle bracket could end
_PULL_REQUEST = re.compile(
    rf"(https?://{_PART}(?:/{_PART}){{2,}}/(?:pull|pulls)/[0-9]{{1,18}})(?:[/?#]\S*)?"
)

_HEADINGS = {
    "success": "✅ Work completed",
    "failure": "❌ Work failed",
    "partial": "⚠️ Work partially completed",
}


def report(result: WorkResult) -> str:
    """Outcome, summary, details, artifacts and error, as Markdown."""
    parts = [
        f"## {_HEADINGS[result.outcome]}",
        f"**Outcome:** {result.outcome}",
        f"**Summary:** {result.summary}",
        f"### Details\n\n{result.details}" if result.details else "",
        _list(result.artifacts),
        f"### Error\n\n{_code(result.error)}" if result.error else "",
    ]
    return _fit("\n\n".join(part for part in parts if part))


def released(reason: str | None) -> str:
    return _fit(f"**Released:** {reason or 'given back'}")


def pull_request(artifacts: Iterable[str]) -> str | None:
    """The first artifact that is the address of a pull request, whatever page of it was named."""
    short = (one for one in artifacts if len(one) <= LONGEST_ADDRESS)
    return next((found[1] for one in short if (found := _PULL_REQUEST.fullmatch(one))), None)


def _list(artifacts: Iterable[str]) -> str:
    lines = [f"- {artifact}" for artifact in artifacts]
    return "\n".join(["### Artifacts", "", *lines]) if lines else ""


def _code(text: str) -> str:
    """A fence longer than any in the text, so that the text cannot end it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _fit(text: str) -> str:
    """Removes what no tracker accepts: an agent's mistake must not cost its report."""
    text = storable(text)
    if len(text) <= LONGEST_REPORT:
        return text
    return f"{text[:LONGEST_REPORT]}\n\n[cut: {len(text) - LONGEST_REPORT} more characters]"
