"""The claims of a conversation, so that its agent need not repeat tokens.

Correctness does not depend on this: the ledger checks every token. An agent whose conversation has
lost it (a new process, a stateless request) passes the token that `work_claim` returned.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Holding:
    token: str
    lease_seconds: float
    beaten_at: float


@dataclass(slots=True)
class Holdings:
    monotonic: Callable[[], float] = time.monotonic
    _held: dict[str, Holding] = field(default_factory=dict)
    _lost: list[str] = field(default_factory=list)

    def take(self, item_id: str, token: str, lease_seconds: float) -> None:
        self._held[item_id] = Holding(token, lease_seconds, self.monotonic())

    def token(self, item_id: str) -> str | None:
        held = self._held.get(item_id)
        return held.token if held else None

    def beaten(self, item_id: str) -> None:
        if item_id in self._held:
            self._held[item_id].beaten_at = self.monotonic()

    def forget(self, item_id: str, token: str | None) -> None:
        """The claim has ended. A wrong token ends no claim."""
        if self.token(item_id) == token:
            self._held.pop(item_id, None)

    def lose(self, item_id: str) -> None:
        """The agent does not know it yet; it is told with its next answer."""
        if self._held.pop(item_id, None) is not None:
            self._lost.append(item_id)

    def news(self) -> list[str]:
        lost, self._lost = self._lost, []
        return lost

    def due(self, alive_at: float) -> list[tuple[str, str]]:
        """Ids and tokens of claims to keep: a third of the lease has passed, and the agent has
        shown a sign of life since the last heartbeat."""
        now = self.monotonic()
        return [
            (item_id, one.token)
            for item_id, one in self._held.items()
            if now - one.beaten_at >= one.lease_seconds / 3 and alive_at > one.beaten_at
        ]

    @property
    def shortest_lease(self) -> float:
        return min((one.lease_seconds for one in self._held.values()), default=math.inf)
