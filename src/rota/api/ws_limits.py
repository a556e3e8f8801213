"""How much one WebSocket, and all of them together, may ask for."""

from dataclasses import dataclass

from rota.api.settings import RECHECK_SECONDS


@dataclass(frozen=True, slots=True)
class WsLimits:
    connections: int = 12_000  # and never more than three quarters of the files we may open
    subscriptions: int = 20  # of one connection
    requests: int = 32  # of one connection, under way at once
    first_characters: int = 4_096  # of a frame of who has not said a token yet
    auth_seconds: float = 5.0  # for the first frame of who came without a token
    recheck_seconds: float = RECHECK_SECONDS  # of a connection's token
    farewell_seconds: float = 1.0  # for the last words to somebody who may not be reading
