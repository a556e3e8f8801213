"""The shape of signals in `rota.yaml`. `rota.signals` checks their meaning."""

from typing import Annotated, Any, Literal

from pydantic import Field

from rota.config.sources import Section
from rota.config.variables import Lax

Unlimited = Literal["unlimited"]


class SignalConfig(Section):
    """A condition, and the action that follows when it is met."""

    when: dict[str, Any] = Field(
        description="The condition: `kind`, and the keys of that kind. For example"
        " `{kind: work_item.status.transition, to: failed}`."
    )
    then: dict[str, Any] | None = Field(
        None,
        description="The action: `kind`, and the keys of that kind. For example"
        " `{kind: hold, reason: it failed}`. Default: a follow-up, or after the end of an item a"
        " new item.",
    )
    max_fires: Annotated[int, Field(ge=1), Lax] | Unlimited = Field(
        "unlimited", description="How often the signal may fire: a number, or `unlimited`."
    )
    max_depth: Annotated[int, Field(ge=0, le=100), Lax] = Field(
        3,
        description="How deep the items that this signal made, and its own moves, may fire it"
        " again. This ends loops.",
    )
