"""Numbers and switches that may come from the environment: `port: ${PORT}`."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from rota.config.interpolation import FromEnvironment


def unquoted(value: Any) -> Any:
    """A variable is always text; where a number or a switch is wanted, it is converted."""
    if isinstance(value, FromEnvironment):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        return {"true": True, "false": False}.get(value.lower(), str(value))
    return value


# Comes last: bounds that follow a validator are lost to the JSON Schema.
Lax = BeforeValidator(unquoted)
Switch = Annotated[bool, Lax]
