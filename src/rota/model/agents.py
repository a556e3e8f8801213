"""Agents, their slots and their limits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """A worker with a name. An agent that nobody configured has one slot and is not paused."""

    name: str
    max_concurrent: int = 1
    paused: bool = False
    created_at: str | None = None
    updated_at: str | None = None
    max_in_review: int | None = None  # None: no limit


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot in use, its item, and since when."""

    agent: str
    number: int
    item_id: str
    title: str
    since: str


@dataclass(frozen=True, slots=True)
class AgentLoad:
    """An agent with the number of its items by status."""

    agent: Agent
    in_progress: int
    dispatched: int
    in_review: int = 0


def room_for_reviews(most: int | None, in_review: int, in_progress: int) -> int | None:
    """How many more items an agent may take; None: no limit by reviews.

    Items in progress may all end in review, so they count too. Otherwise items already in progress
    when the limit is reached would exceed it.
    """
    return None if most is None else max(0, most - in_review - in_progress)
