"""uvicorn's WebSocket protocol, with limits on clients that do not read, or never begin.

Closing a connection first writes what is still to be sent. If the client does not read, that takes
for ever and keeps a file and buffers open, so the connection is cut after a grace period.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from rota.api.http_protocol import refusal
from rota.api.problems import BadRequest

GRACE_SECONDS = 5.0
MOST_FRAGMENTS = 1_000  # of a message: empty fragments cost the sender nothing
MOST_UNHEARD = 1024 * 1024  # bytes of answers to pings that the client does not read


class WsProtocol(WebSocketsSansIOProtocol):
    _cutting: asyncio.TimerHandle | None = None
    _unheard = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.close_sent:
            self._turn_away()

    def _turn_away(self) -> None:
        """uvicorn's HTTP protocol took this for a handshake, but the WebSocket library did not.
        Without an answer the connection would stay open."""
        self.close_sent = True
        error = BadRequest("this is no handshake of a WebSocket; it is a GET with short headers")
        self.transport.write(refusal(error, self.default_headers))
        self.transport.close()

    # incoming frames

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        else:
            self._fail(1009, f"a message of more than {MOST_FRAGMENTS} frames")

    def send_receive_event_to_app(self) -> None:
        self.frames = [b"".join(self.frames)]
        if self.curr_msg_data_type == "text" and not _is_text(self.frames[0]):
            self.frames = []
            self._fail(1007, "a text frame that is not UTF-8")
            return
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        before = self.transport.get_write_buffer_size()
        super().handle_ping()
        if not self.writable.is_set():
            self._unheard += self.transport.get_write_buffer_size() - before
        if self._unheard > MOST_UNHEARD:
            self.transport.abort()

    def resume_writing(self) -> None:
        self._unheard = 0
        super().resume_writing()

    def _fail(self, code: int, reason: str) -> None:
        if not self.close_sent:  # frames that were read together with it still follow
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    # end of the connection

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            # Refused, with an answer. uvicorn would log an error of ours: no handshake completed.
            self.handshake_complete = True

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


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def ws_options(max_size: int) -> dict[str, Any]:
    """For `uvicorn.Config`. Without compression: it costs each connection a window of memory."""
    return {
        "ws": WsProtocol,
        "ws_max_size": max_size,
        "ws_ping_interval": 20.0,
        "ws_ping_timeout": 20.0,
        "ws_per_message_deflate": False,
    }
