"""Agents: who works, and on how many items at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """A worker by name. An agent nobody configured has one slot and is not paused."""

    name: str
    max_concurrent: int = 1
    paused: bool = False
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot in use: what it is used for, and since when."""

    agent: str
    number: int
    item_id: str
    title: str
    since: str


@dataclass(frozen=True, slots=True)
class AgentLoad:
    """An agent with what is on its hands now."""

    agent: Agent
    in_progress: int
    dispatched: int
