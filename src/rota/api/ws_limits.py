"""Limits of one WebSocket, and of all of them together."""

from dataclasses import dataclass

from rota.api.settings import RECHECK_SECONDS


@dataclass(frozen=True, slots=True)
class WsLimits:
    connections: int = 12_000  # and never more than three quarters of the open files allowed
    subscriptions: int = 20  # of one connection
    requests: int = 32  # of one connection, under way at once
    first_characters: int = 4_096  # of a frame before the token was sent
    auth_seconds: float = 5.0  # for the first frame of a client that came without a token
    recheck_seconds: float = RECHECK_SECONDS  # of a connection's token
    farewell_seconds: float = 1.0  # for the last frames to a client that may not be reading
