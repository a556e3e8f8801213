"""How long a connection is waited for, and how it ends."""

from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from rota.api.http_protocol import HttpProtocol
from rota.api.ws_protocol import WsProtocol, ws_options
from tests.unit.connection_scene import Loop, Transport

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Never called."""


class Client:
    """One connection, from the side that is waited for."""

    def __init__(self) -> None:
        self.loop, self.transport = Loop(), Transport()
        config = uvicorn.Config(app, http=HttpProtocol, lifespan="off", log_config=None)
        loop: Any = self.loop
        self.protocol = HttpProtocol(config, ServerState(), {}, loop)
        transport: Any = self.transport
        self.protocol.connection_made(transport)

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    def after(self, seconds: float) -> str:
        """How the connection has ended by then, if it has."""
        self.loop.advance(seconds)
        return self.transport.ended


@pytest.fixture
def client() -> Client:
    return Client()


def test_who_says_nothing_is_left_after_half_a_minute(client: Client) -> None:
    assert client.after(29) == ""
    assert client.after(2) == "closed"
    assert client.transport.written == b""


def test_a_head_has_half_a_minute_in_all(client: Client) -> None:
    client.after(20)
    client.send(GET)
    for _ in range(29):
        client.send(b"X-A: b\r\n")
        assert client.after(1) == ""
    assert client.after(1) == "refused"
    assert client.transport.written.startswith(b"HTTP/1.1 408 ")


def test_a_body_may_be_slow_but_not_silent(client: Client) -> None:
    client.send(POST)
    for _ in range(10):
        assert client.after(59) == ""
        client.send(b"a")
    assert client.after(61) == "refused"
    assert client.transport.written.startswith(b"HTTP/1.1 408 ")


def test_nobody_is_late_while_we_do_not_read(client: Client) -> None:
    client.send(POST + b"a" * 100_000)
    assert client.protocol.flow.read_paused
    assert client.after(600) == ""
    client.protocol.flow.resume_reading()
    assert client.after(29) == ""
    assert client.after(61) == "refused"


def test_who_waits_for_an_answer_is_not_late(client: Client) -> None:
    client.send(GET + b"\r\n")
    assert client.after(600) == ""


@pytest.mark.parametrize(
    ("unsent", "cut"),
    [
        ([0, 0, 0, 0], 0),
        ([9_000_000] * 4, 90),
        ([10] * 4, 90),
        ([9_000_000, 8_900_000, 8_800_000, 8_700_000], 0),
        ([9_000_000, 8_999_999, 8_999_998, 8_999_997], 90),
        ([10, 0, 10, 10, 10], 150),
    ],
)
def test_whoever_takes_something_of_an_answer_has_time_for_the_rest(
    client: Client, unsent: list[int], cut: int
) -> None:
    client.send(GET + b"\r\n")
    ends = []
    for client.transport.unsent in unsent:
        if client.after(30) == "cut":
            ends.append(int(client.loop.now))
    assert ends[:1] == ([cut] if cut else [])


def test_a_stream_whose_reader_takes_it_is_not_cut(client: Client) -> None:
    client.send(GET + b"\r\n")
    for _ in range(20):
        client.transport.unsent = 70_000
        assert client.after(29) == ""
        client.protocol.resume_writing()


def test_a_request_that_went_wrong_is_answered_once(client: Client) -> None:
    client.send(GET + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n")
    assert client.transport.written.startswith(b"HTTP/1.1 400 ")
    assert client.protocol.cycle.disconnected, "what its handler says is not sent"


def test_who_was_turned_away_has_two_seconds_to_read_why(client: Client) -> None:
    client.send(b"no HTTP at all\r\n\r\n")
    assert client.transport.ended == "refused"
    client.transport.ended = ""  # only our side of the connection has ended
    assert client.after(1.9) == ""
    assert client.after(0.2) == "cut"


def test_a_server_that_stops_does_not_wait_for_half_a_request(client: Client) -> None:
    client.send(POST + b"{")
    client.protocol.shutdown()
    client.after(1)
    client.send(b"a")
    assert client.after(2) == "refused"
    assert client.transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in client.transport.written
    assert client.protocol.cycle.disconnected, "its handler has nothing to wait for"


def test_a_server_that_stops_answers_who_has_sent_all(client: Client) -> None:
    client.send(GET + b"Content-Length: 1\r\n\r\n")
    client.protocol.shutdown()
    client.send(b"a")
    assert client.after(60) == ""


class Lingering(Transport):
    """As a real one does, it first sends what was written, and that may take for ever."""

    def close(self) -> None:
        if not self.unsent:
            super().close()


async def opened(loop: Loop, transport: Transport) -> WsProtocol:
    protocol = WsProtocol(
        uvicorn.Config(app, **ws_options(1000), lifespan="off", log_config=None),
        ServerState(),
        {},
        cast("Any", loop),
    )
    protocol.connection_made(cast("Any", transport))
    protocol.data_received(
        GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    await protocol.send({"type": "websocket.accept"})
    return protocol


@pytest.mark.parametrize("how", ["the server ends it", "no answer to a ping"])
async def test_a_websocket_whose_end_is_not_read_is_cut_after_a_grace(how: str) -> None:
    loop, transport = Loop(), Lingering()
    protocol = await opened(loop, transport)
    transport.keeps = True
    await protocol.send({"type": "websocket.send", "text": "nobody reads this"})
    if how == "the server ends it":
        await protocol.run_asgi()
    else:
        protocol.keepalive_timeout()
    loop.advance(4.9)
    assert transport.ended == "", "it may be slow"
    loop.advance(0.2)
    assert transport.ended == "cut"


async def test_who_pings_is_cut_once_too_much_of_the_answers_is_not_read() -> None:
    loop, transport = Loop(), Transport()
    protocol = await opened(loop, transport)
    transport.keeps = True
    pings = (b"\x89\xfd" + bytes(4) + b"x" * 125) * 100
    for _ in range(1_000):
        protocol.data_received(pings)
    assert transport.ended == "", "uvicorn would be told first that it is to write no more"
    for _ in range(4):
        protocol.pause_writing()
        for _ in range(80):
            protocol.data_received(pings)
        assert transport.ended == "", "a megabyte may be on its way"
        protocol.resume_writing()
    protocol.pause_writing()
    for _ in range(90):
        protocol.data_received(pings)
    assert transport.ended == "cut"
