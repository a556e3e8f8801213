"""How much one WebSocket, and all of them together, may ask for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WsLimits:
    connections: int = 12_000  # and never more than three quarters of the files we may open
    subscriptions: int = 20  # of one connection
    requests: int = 32  # of one connection, under way at once
    auth_seconds: float = 5.0  # for the first frame of who came without a token
    recheck_seconds: float = 10.0  # a revoked token is noticed by then, also by who only listens
    farewell_seconds: float = 1.0  # for the last words to somebody who may not be reading
