"""A seat of an agent in a conversation: its access to the ledger, its name, its claims."""

import time
from dataclasses import dataclass, field

from rota.client import WorkQueueClient
from rota.mcp.holdings import Holdings
from rota.model.errors import Forbidden, InvalidInput


@dataclass(slots=True)
class Seat:
    client: WorkQueueClient
    agent: str | None = None  # the conversation's agent; None: its token names one, or nobody
    alone: bool = False  # no server runs on this ledger
    holdings: Holdings = field(default_factory=Holdings)
    called_at: float = field(default_factory=time.monotonic)

    def name(self, given: str | None) -> str:
        agent = given or self.agent
        if agent is None:
            raise InvalidInput("say as which agent you claim: agent", field="agent")
        if self.agent is not None and agent != self.agent:
            raise Forbidden(f"this conversation is {self.agent}'s; it cannot act for {agent[:80]}")
        return agent

    async def token(self, item_id: str, given: str | None) -> str | None:
        """The token to use. One that this conversation did not get itself is accepted only for an
        item of its own agent: to find another agent's token is not to have that agent's claim."""
        held = self.holdings.token(item_id)
        if held is not None and given in (None, held):
            return held
        if self.agent is not None:
            owner = (await self.client.work_get(item_id))["assigned_agent"]
            if owner not in (None, self.agent):
                raise Forbidden(f"{item_id} is {owner}'s; this conversation is {self.agent}'s")
        return given
