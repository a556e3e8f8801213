"""The shape of `rota.yaml` as a whole."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from rota.config.agents import AgentConfig, AgentSettings
from rota.config.limits import BudgetConfig
from rota.config.notify import NotifyConfig
from rota.config.scalars import Lax, Name, Switch, Text
from rota.config.signals import SignalConfig
from rota.config.sources import AnySource, Section, is_address

PathText = Annotated[Text, Field(min_length=1)]


def _public_url(value: str) -> str:
    if "@" in value or not is_address(value):
        raise ValueError("is not an address like https://rota.example.org")
    return value.rstrip("/")


class FleetIdentity(Section):
    """What the fleet is called."""

    name: Text | None = None
    description: Text | None = None


class AgentReference(Section):
    """An agent that stands in a file of its own."""

    path: PathText
    overrides: dict[str, Any] = Field(default_factory=dict)


class FleetReference(Section):
    """Another fleet, whose agents become ours."""

    path: PathText
    name: Name | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)


class Web(Section):
    """Where the server listens, unless an option or the environment says otherwise."""

    enabled: Switch = True
    host: Text | None = None
    port: Annotated[int, Lax] | None = Field(None, ge=0, le=65_535)
    public_url: Annotated[str, AfterValidator(_public_url)] | None = None


class FleetFile(Section):
    """Agents, when they wake, and where their work comes from."""

    version: Literal[1] = 1
    fleet: FleetIdentity = FleetIdentity()
    defaults: AgentSettings = AgentSettings()
    agents: tuple[AgentConfig | AgentReference, ...] = Field((), strict=False)
    fleets: tuple[FleetReference, ...] = Field((), strict=False)
    sources: tuple[AnySource, ...] = Field((), strict=False)
    budgets: BudgetConfig = BudgetConfig()
    signals: dict[Name, SignalConfig] = Field(default_factory=dict)
    notify: NotifyConfig = NotifyConfig()
    web: Web = Web()
