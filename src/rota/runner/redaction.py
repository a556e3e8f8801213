"""Secrets are taken out where text leaves the run: log, summary, error, hooks."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 8  # shorter values are words that also stand elsewhere

_SECRET_NAME = re.compile(r"TOKEN|SECRET|KEY|PASSWORD|PASSWD|CREDENTIAL|DATABASE_URL", re.I)
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")


class Redactor:
    """Knows the values of all variables whose name sounds secret."""

    def __init__(self, environ: Mapping[str, str], known: frozenset[str] = frozenset()) -> None:
        self._secrets = known | _secrets(environ)
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def knowing(self, *environs: Mapping[str, str]) -> "Redactor":
        """One that knows these too."""
        more = {name: value for environ in environs for name, value in environ.items()}
        return Redactor(more, self._secrets) if _secrets(more) else self

    def text(self, text: str) -> str:
        return _URL_PASSWORD.sub(HIDDEN, self._pattern.sub(HIDDEN, text))

    def value(self, value: Any) -> Any:
        """The same for all texts in a structure, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(one) for one in value]
        return value


def _secrets(environ: Mapping[str, str]) -> set[str]:
    """Of a value of many lines (a private key) each line too: that is how it is printed."""
    found: set[str] = set()
    for name, value in environ.items():
        if _SECRET_NAME.search(name):
            lines = value.splitlines() if "\n" in value else []
            found |= {text.strip() for text in (value, *lines) if len(text.strip()) >= SHORTEST}
    return found
