"""An answer of a tracker's API, and what can be read from any answer."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_SAID = 300

_LINK = re.compile(r"<([^>]*)>([^<]*)")
_NEXT = re.compile(r""";\s*rel\s*=\s*(?:"[^"]*\bnext\b[^"]*"|next\b)""", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    url: str
    headers: Mapping[str, str] = field(repr=False)  # names in lower case
    body: bytes = field(repr=False)
    unchanged: bool = False  # the tracker answered 304: this is its earlier answer

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Raises ValueError when the body is no JSON."""
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    @property
    def said(self) -> str:
        """The tracker's own explanation of a refusal, in one short line."""
        try:
            told = self.json()
        except ValueError:
            return ""
        return one_line(_words(told) if isinstance(told, dict) else "")


def _words(told: Mapping[str, Any]) -> str:
    errors = told.get("errors")
    reasons = [_reason(one) for one in errors if one] if isinstance(errors, list) else []
    return ": ".join(filter(None, [str(told.get("message") or ""), *reasons]))


def _reason(error: object) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("code") or "")
    return str(error)


def one_line(text: str, longest: int = MAX_SAID) -> str:
    """A foreign text, made safe for our messages."""
    return _CONTROL.sub(" ", text).strip()[:longest]


def next_link(header: str | None) -> str | None:
    """The address of the next page in a `Link` header. Addresses may contain commas."""
    for address, parameters in _LINK.findall(header or ""):
        if _NEXT.search(parameters):
            return str(address)
    return None
