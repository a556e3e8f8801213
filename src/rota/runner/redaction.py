"""Secrets are taken out where text leaves the run: log, summary, error, hooks. And before it is cut
anywhere: half a secret is not known as one."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[hidden]"
SHORTEST = 8  # shorter values are words that also stand elsewhere

_SECRET_NAME = re.compile(r"TOKEN|SECRET|KEY|PASSWORD|PASSWD|CREDENTIAL|DATABASE_URL", re.I)
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")


class Redactor:
    """Knows the values of all variables whose name sounds secret, or is one of `names`."""

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
        """One that knows these too."""
        more = {name: value for environ in environs for name, value in environ.items()}
        is_news = bool(_secrets(more, self._names))
        return Redactor(more, self._secrets, self._names) if is_news else self

    def text(self, text: str) -> str:
        return _URL_PASSWORD.sub(HIDDEN, self._pattern.sub(HIDDEN, text))

    def beginning(self, text: str) -> str:
        """Of a text that was cut at its end, where half a secret may stand."""
        clean = self.text(text)
        return clean[: max(0, len(clean) - self._longest)]

    def end(self, text: str) -> str:
        """Of a text that was cut at its beginning."""
        return self.text(text)[self._longest :]

    def value(self, value: Any) -> Any:
        """The same for all texts in a structure, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(one) for one in value]
        return value


def variables_named_in(config: Any) -> frozenset[str]:
    """By all keys of a configuration that say which variable holds something: `token_env`."""
    if isinstance(config, Mapping):
        own = {one for key, one in config.items() if str(key).endswith("_env")}
        names = {one for one in own if isinstance(one, str)}
        return frozenset(names).union(*map(variables_named_in, config.values()))
    if isinstance(config, (list, tuple)):
        return frozenset().union(*map(variables_named_in, config))
    return frozenset()


def _secrets(environ: Mapping[str, str], names: frozenset[str]) -> set[str]:
    """Of a value of many lines (a private key) each line too: that is how it is printed."""
    found: set[str] = set()
    for name, value in environ.items():
        if name in names or _SECRET_NAME.search(name):
            lines = value.splitlines() if "\n" in value else []
            found |= {text.strip() for text in (value, *lines) if len(text.strip()) >= SHORTEST}
    return found


NOTHING = Redactor({})  # has no secrets to hide
