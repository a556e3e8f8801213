"""Removes secrets where text leaves the run: log, summary, error, hooks. Always before a text is
cut: half a secret would not be recognised."""

import json
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 8  # shorter values are words that also occur elsewhere

_SECRET_NAME = re.compile(r"TOKEN|SECRET|KEY|PASSWORD|PASSWD|CREDENTIAL|DATABASE_URL", re.I)
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")


class Redactor:
    """Hides the values of all variables whose name sounds secret, or is in `names`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        known: frozenset[str] = frozenset(),
        names: frozenset[str] = frozenset(),
    ) -> None:
        self._names = names
        self._secrets = known | _secrets(environ, names)
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._longest = len(longest_first[0]) if longest_first else 0

    def knowing(self, *environs: Mapping[str, str]) -> "Redactor":
        """A redactor that knows these too; several of them may have a variable of the same name."""
        more = frozenset().union(*(_secrets(one, self._names) for one in environs))
        return Redactor({}, self._secrets | more, self._names) if more else self

    def text(self, text: str) -> str:
        return _URL_PASSWORD.sub(HIDDEN, self._pattern.sub(HIDDEN, text))

    def beginning(self, text: str) -> str:
        """Redacts a text that was cut at its end, where half a secret may remain."""
        clean = self.text(text)
        return clean[: max(0, len(clean) - self._longest)]

    def end(self, text: str) -> str:
        """Redacts a text that was cut at its beginning."""
        return self.text(text)[self._longest :]

    def value(self, value: Any) -> Any:
        """Redacts all texts in a structure, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(one) for one in value]
        return value


def variables_named_in(config: Any) -> frozenset[str]:
    """The values of all keys in a configuration that name a variable: `token_env`."""
    if isinstance(config, Mapping):
        own = {one for key, one in config.items() if str(key).endswith("_env")}
        names = {one for one in own if isinstance(one, str)}
        return frozenset(names).union(*map(variables_named_in, config.values()))
    if isinstance(config, (list, tuple)):
        return frozenset().union(*map(variables_named_in, config))
    return frozenset()


def _secrets(environ: Mapping[str, str], names: frozenset[str]) -> set[str]:
    """Each line of a multi-line value (a private key) too, because it may be printed alone."""
    found: set[str] = set()
    for name, value in environ.items():
        if name in names or _SECRET_NAME.search(name):
            lines = value.splitlines() if "\n" in value else []
            texts = {text.strip() for text in (value, *lines) if len(text.strip()) >= SHORTEST}
            found |= texts.union(*map(_in_json, texts))
    return found


def _in_json(text: str) -> set[str]:
    """As it appears in a tool call's arguments: quotes are escaped there, and so may be all
    characters that are not ASCII."""
    return {json.dumps(text, ensure_ascii=plain)[1:-1] for plain in (True, False)}


NOTHING = Redactor({})  # has no secrets to hide
