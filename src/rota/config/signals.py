"""The shape of signals in `rota.yaml`. `rota.signals` checks their meaning."""

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.config.scalars import Lax
from rota.config.sources import Section

Unlimited = Literal["unlimited"]


class SignalConfig(Section):
    """When this happens, do that."""

    when: dict[str, Any]
    then: dict[str, Any] | None = None
    max_fires: Annotated[int, Lax, Field(ge=1)] | Unlimited = "unlimited"
    max_depth: Annotated[int, Lax, Field(ge=0, le=100)] = 3
