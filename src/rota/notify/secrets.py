"""The values of a channel's variables, and how they are kept out of all output."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from rota.model.errors import DeliveryFailed
from rota.runner.redaction import SHORTEST, Redactor

LONG_ENOUGH = 16  # shorter parts of an address are ordinary words
_BREAKS = re.compile(r"[/?&=#]")


@dataclass(frozen=True, slots=True)
class Secrets:
    environ: Mapping[str, str]
    redactor: Redactor

    @classmethod
    def of(cls, channel: BaseModel, environ: Mapping[str, str]) -> "Secrets":
        """Every key that ends in `_env` names a secret; an address counts as a whole and in
        parts."""
        named = [
            getattr(channel, key) for key in type(channel).model_fields if key.endswith("_env")
        ]
        held = {environ.get(name, "").strip() for name in named if name}
        known = {part for value in held for part in (value, *_parts(value))}
        return cls(
            environ, Redactor(environ, frozenset(one for one in known if len(one) >= SHORTEST))
        )

    def value(self, name: str) -> str:
        """The value of a variable. If it is not set, the delivery is retried: the server may be
        restarted with it before we give up."""
        found = self.environ.get(name, "").strip()
        if not found:
            raise DeliveryFailed(f"the environment variable {name} is not set")
        return found


def _parts(value: str) -> Iterator[str]:
    """The secret parts of an address: errors and answers may repeat it in pieces."""
    _, scheme, rest = value.partition("://")
    path = rest.partition("/")[2] if scheme else ""
    if len(path) >= SHORTEST:
        yield path
    yield from (part for part in _BREAKS.split(path) if len(part) >= LONG_ENOUGH)
