"""uvicorn's WebSocket protocol, and an end to those who do not read.

A connection is closed by writing what is still to be sent. Towards a client that does not read
that takes for ever, and holds a file and its buffers as long: after a grace period it is cut.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

GRACE_SECONDS = 5.0


class WsProtocol(WebSocketsSansIOProtocol):
    _cutting: asyncio.TimerHandle | None = None

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._cut_later()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._cut_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
        super().connection_lost(exc)

    def _cut_later(self) -> None:
        if self._cutting is None and not self.disconnected:
            self._cutting = self.loop.call_later(GRACE_SECONDS, self.transport.abort)


def ws_options(max_size: int) -> dict[str, Any]:
    """For `uvicorn.Config`. Without compression: it costs each connection a window of memory."""
    return {
        "ws": WsProtocol,
        "ws_max_size": max_size,
        "ws_ping_interval": 20.0,
        "ws_ping_timeout": 20.0,
        "ws_per_message_deflate": False,
    }
