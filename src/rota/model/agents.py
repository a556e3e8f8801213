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
    max_in_review: int | None = None  # None: as many as come


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
    in_review: int = 0


def room_for_reviews(most: int | None, in_review: int, in_progress: int) -> int | None:
    """How many more items an agent may take; None: its reviews do not limit it.

    All that is worked on may come to be reviewed, so it counts too: else the limit would be
    passed by whatever was already under way when it was reached.
    """
    return None if most is None else max(0, most - in_review - in_progress)
