"""What may be asked of a database about runs, limits of agents, and the outbox."""

from typing import Protocol


class RunVerbs(Protocol):
    """Part of `Transaction`."""
