"""What a channel's variables hold, and what must never be shown of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from rota.model.errors import DeliveryFailed
from rota.runner.redaction import SHORTEST, Redactor


@dataclass(frozen=True, slots=True)
class Secrets:
    environ: Mapping[str, str]
    redactor: Redactor

    @classmethod
    def of(cls, channel: BaseModel, environ: Mapping[str, str]) -> "Secrets":
        """Every key that ends in `_env` names one, and an address is one as a whole."""
        named = [
            getattr(channel, key) for key in type(channel).model_fields if key.endswith("_env")
        ]
        held = {environ.get(name, "") for name in named if name}
        # The path alone too: errors of HTTP libraries show an address in parts.
        held |= {value.partition("://")[2].partition("/")[2] for value in held}
        return cls(
            environ, Redactor(environ, frozenset(one for one in held if len(one) >= SHORTEST))
        )

    def value(self, name: str) -> str:
        """Of a variable; whoever forgot it may start the server again before we give up."""
        found = self.environ.get(name, "").strip()
        if not found:
            raise DeliveryFailed(f"the environment variable {name} is not set")
        return found
