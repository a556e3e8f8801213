"""The shape of `rota.yaml` as a whole."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from rota.config.agents import AgentConfig, AgentSettings
from rota.config.limits import BudgetConfig
from rota.config.notify import NotifyConfig
from rota.config.scalars import Name, Text
from rota.config.signals import SignalConfig
from rota.config.sources import AnySource, Section, is_address
from rota.config.variables import Lax, Switch

PathText = Annotated[Text, Field(min_length=1)]


def _public_url(value: str) -> str:
    if "@" in value or not is_address(value):
        raise ValueError("is not an address like https://rota.example.org")
    return value.rstrip("/")


class FleetIdentity(Section):
    """The name of the fleet."""

    name: Text | None = Field(
        None,
        description="The name, for people. In a fleet within another fleet, the first part of the"
        " names of its agents.",
    )
    description: Text | None = Field(None, description="What the fleet is for; for people.")


class AgentReference(Section):
    """An agent that is configured in a file of its own."""

    path: PathText = Field(
        description="The file with the keys of one agent, relative to this file:"
        " `agents/reviewer.yaml`."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Keys of the agent that replace those of its file."
    )


class FleetReference(Section):
    """Another fleet, whose agents become agents of this one."""

    path: PathText = Field(
        description="The file of the other fleet, relative to this one: `../mill/rota.yaml`."
    )
    name: Name | None = Field(
        None,
        description="The first part of the names of its agents: `mill` makes `mill.weaver`. No"
        " dots. Default: the `fleet.name` of that file, else its directory.",
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Keys of that file that replace what the file says."
    )


class Web(Section):
    """Where the server listens. Options and environment variables win over these keys."""

    enabled: Switch = Field(True, description="Whether the server serves the board.")
    host: Text | None = Field(
        None,
        description="The address that the server listens on, for example `127.0.0.1`. Default:"
        " `ROTA_HOST`.",
    )
    port: Annotated[int, Field(ge=0, le=65_535), Lax] | None = Field(
        None,
        description="The port that the server listens on; `0` takes a free one. Default: `PORT`.",
    )
    public_url: Annotated[str, AfterValidator(_public_url)] | None = Field(
        None,
        description="The address by which people reach the server: `https://rota.example.org`."
        " Links in notifications begin with it. Default: the address that the server listens on.",
    )


class FleetFile(Section):
    """A fleet for Rota: its agents, when they wake, and where their work comes from."""

    version: Literal[1] = Field(1, description="The version of the file format. Always 1.")
    fleet: FleetIdentity = Field(FleetIdentity(), description="The name of the fleet.")
    defaults: AgentSettings = Field(
        AgentSettings(),
        description="Settings for every agent that does not set them itself: all keys of an agent"
        " but `name`.",
    )
    agents: tuple[AgentConfig | AgentReference, ...] = Field(
        (),
        strict=False,
        description="The agents: each with its keys here, or with the `path` of its own file.",
    )
    fleets: tuple[FleetReference, ...] = Field(
        (), strict=False, description="Other fleets, whose agents become agents of this one."
    )
    sources: tuple[AnySource, ...] = Field(
        (), strict=False, description="Places that work comes from, which the server looks after."
    )
    budgets: BudgetConfig = Field(
        BudgetConfig(),
        description="Limits of the whole fleet: `per_day` for all agents together, `per_run` for"
        " each of their runs.",
    )
    signals: dict[Name, SignalConfig] = Field(
        default_factory=dict,
        description="Signals by name: when something happens, an action follows.",
    )
    notify: NotifyConfig = Field(
        NotifyConfig(), description="Notifications for people: what is told, and where."
    )
    web: Web = Field(Web(), description="Where the server listens, and whether it has the board.")
