"""uvicorn's HTTP protocol, with limits on clients that send too much or too slowly, or do not read.

What is refused here never becomes a request, so no handler sees it. uvicorn limits neither headers
nor time, and closes a connection only once the client has taken everything written to it.
"""

import asyncio
import sys
from collections.abc import Sequence
from enum import Enum, auto
from itertools import chain
from typing import Any

from httptools import HttpParserInvalidURLError
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from rota.api.answers import problem_answer, raw_headers
from rota.api.browser import has_body
from rota.api.problems import BadRequest, FaceError, HeadTooLarge, RequestTimeout, Stopping

MOST_HEAD_BYTES = 64 * 1024  # of request line and headers
MOST_HEADERS = 100
# Only one value of each of these can be meant. Of two, a proxy takes the first, Rota the last.
ONCE = frozenset(
    {
        b"host", b"authorization", b"content-type", b"content-encoding", b"origin",
        b"idempotency-key", b"if-match", b"last-event-id", b"rota-actor",
    }
)  # fmt: skip
LEAST_TAKEN = 64 * 1024  # bytes the client must read within `unread_seconds`


class Awaited(Enum):
    """What the client is expected to send next."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()  # its turn is after the answer; uvicorn's keep-alive limits that wait


def refusal(error: FaceError, more: Sequence[tuple[bytes, bytes]]) -> bytes:
    """An error response sent before there is a request. It is the last on its connection."""
    answer = problem_answer(error)
    own = [*raw_headers(answer.media_type, len(answer.body)), *answer.headers]
    headers = [*more, *own, (b"connection", b"close")]
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
    return STATUS_LINE[answer.status] + lines + b"\r\n" + answer.body


class HttpProtocol(HttpToolsProtocol):
    head_seconds = 30.0  # for request line and headers together
    body_seconds = 60.0  # without another byte of the body
    unread_seconds = 60.0  # in which the client reads nothing of what was written
    stop_seconds = 2.0  # for the rest of a body, once the server stops
    linger_seconds = 2.0  # for the client to read a refusal; closing at once would lose it

    _awaited = Awaited.HEAD
    _since = 0.0  # when that wait began, or last made progress
    _begun = False  # the first byte of the head has arrived
    _unread = 0  # bytes since the parser last completed a head or found a body
    _over = False  # the client was turned away: anything more is discarded
    _refusal: FaceError | None = None
    _left_behind = 0  # size of the unread write buffer when last measured
    _left_since = 0.0
    _running: RequestResponseCycle | None = None  # the request being answered, or the last one
    _checking: asyncio.TimerHandle | None = None
    _ending: asyncio.TimerHandle | None = None
    _stopping: asyncio.TimerHandle | None = None

    # life of the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        # One timer checks recorded times: setting a timer for each request costs more.
        self._check_after(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_checking()
        for timer in (self._ending, self._stopping):
            if timer is not None:
                timer.cancel()
        if self._running is not None:
            _tell_gone(self._running)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """A client that has sent half a request would delay the shutdown for as long as requests
        may take, and would then get an internal error."""
        super().shutdown()
        self._stopping = self.loop.call_later(self.stop_seconds, self._stop_waiting)

    def _stop_waiting(self) -> None:
        if self._awaited is Awaited.BODY and not self._over:
            self._turn_away(
                Stopping(
                    "the server stops, and this request is not here as a whole: nothing was done;"
                    " send it again",
                    headers={"retry-after": "1"},
                )
            )

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """On a disconnect uvicorn tells only the last request; earlier ones may still run."""
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        if self._awaited is Awaited.BODY:
            self._since = self.loop.time()
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MOST_HEAD_BYTES and not self._over:
            self._turn_away(_too_large())
        if self._awaited is Awaited.NOTHING and self.timeout_keep_alive_task is None:
            self._expect_more()

    def _expect_more(self) -> None:
        """Bytes arrived that do not begin a request yet, and uvicorn has already stopped its
        keep-alive timer for them."""
        if not self._is_answering() and not self._over:
            self._awaited, self._begun, self._since = Awaited.HEAD, False, self.loop.time()

    # callbacks of the parser

    def on_message_begin(self) -> None:
        self._awaited, self._begun, self._since = Awaited.HEAD, True, self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value.rstrip(b" \t"))  # the parser leaves spaces at the end

    def on_headers_complete(self) -> None:
        self._demand_a_fair_head()
        self._unread = 0
        upgrade = self.parser.should_upgrade()
        if upgrade:
            self._demand_a_fair_upgrade()
        super().on_headers_complete()
        if not (upgrade and self._should_upgrade()):
            self._awaited, self._since = Awaited.BODY, self.loop.time()
            # Trailers arrive the same way, and must not pass for checked headers.
            self.headers = []

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread, self._awaited = 0, Awaited.NOTHING
        super().on_message_complete()

    def _demand_a_fair_head(self) -> None:
        size = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
        if size > MOST_HEAD_BYTES or len(self.headers) > MOST_HEADERS:
            self._refuse(_too_large())
        names = [name for name, _ in self.headers]
        if len(set(names)) < len(names) and (twice := _repeated(names)):
            self._refuse(BadRequest(f"the header {twice} is given twice; send it once"))

    def _demand_a_fair_upgrade(self) -> None:
        """The parser takes what follows for the other protocol, whether or not we speak it."""
        if has_body(dict(self.headers)):
            self._refuse(BadRequest("a request that asks for an upgrade has no body"))
        if self._should_upgrade() and self.parser.get_method() != b"GET":
            self._refuse(BadRequest("a WebSocket is opened by GET"))

    def _refuse(self, error: FaceError) -> None:
        """The parser replaces this error by its own, so it is kept in `_refusal`."""
        self._refusal = error
        raise error

    def handle_websocket_upgrade(self) -> None:
        if self._is_answering():
            self._turn_away(BadRequest("an upgrade has to wait for the answers before it"))
            return
        self._stop_checking()
        super().handle_websocket_upgrade()

    # refusals

    def send_400_response(self, msg: str) -> None:
        self._turn_away(self._refusal or BadRequest(_flaw(sys.exception())))

    def _is_answering(self) -> bool:
        last = self._last_cycle()
        return last is not None and not last.response_complete

    def _last_cycle(self) -> RequestResponseCycle | None:
        return self.cycle  # None at first, though its type says otherwise

    def _turn_away(self, error: FaceError) -> None:
        """Send the refusal if still possible. Discard what arrives until the client has it."""
        self._over = True
        self._unset_keepalive_if_required()
        if self._is_answering():
            if self._awaited is not Awaited.BODY:  # an earlier, valid request is being answered
                self.cycle.keep_alive = False
                return
            if self.pipeline or self.cycle.response_started:
                self.transport.abort()
                return
            _tell_gone(self.cycle)
        self.headers = []
        self._part(refusal(error, self.server_state.default_headers))

    def _part(self, words: bytes) -> None:
        if self.transport.is_closing():
            return
        self.flow.resume_reading()  # unread input would reset the connection
        self.transport.write(words)
        self.transport.write_eof()
        self._ending = self.loop.call_later(self.linger_seconds, self.transport.abort)

    # time

    def _check(self) -> None:
        now = self.loop.time()
        if self._is_not_read(now):
            self.transport.abort()
            return
        left = self._left(now)
        if left <= 0 and not self._over:
            self._too_late()
        self._check_after(left if left > 0 else self.head_seconds)

    def _check_after(self, seconds: float) -> None:
        pause = min(seconds, self.unread_seconds / 2)
        self._checking = self.loop.call_later(pause, self._check)

    def _left(self, now: float) -> float:
        if self._awaited is Awaited.HEAD:
            return self._since + self.head_seconds - now
        if self._awaited is Awaited.BODY:
            if self.flow.read_paused:  # we are the ones who do not read
                self._since = now
            return self._since + self.body_seconds - now
        return self.head_seconds  # nothing is due; this is soon enough for whatever begins next

    def _too_late(self) -> None:
        if self._awaited is Awaited.HEAD and not self._begun:
            self.transport.close()
            return
        self._turn_away(RequestTimeout("the rest of the request did not come in time"))

    def _is_not_read(self, now: float) -> bool:
        """Progress restarts the clock: LEAST_TAKEN bytes were read, or a stream may go on."""
        size = self.transport.get_write_buffer_size()
        if not (size and self._left_behind) or size <= self._left_behind - LEAST_TAKEN:
            self._left_behind, self._left_since = size, now
        return size > 0 and now - self._left_since >= self.unread_seconds

    def resume_writing(self) -> None:
        self._left_behind = 0
        super().resume_writing()

    def _stop_checking(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None


def _tell_gone(cycle: RequestResponseCycle) -> None:
    cycle.disconnected = cycle.disconnected or not cycle.response_complete
    cycle.message_event.set()


def _repeated(names: Sequence[bytes]) -> str:
    found = next((name for name in ONCE if names.count(name) > 1), b"")
    return found.decode().title()


def _flaw(error: BaseException | None) -> str:
    """Explains an address that was typed by hand. For other flaws the parser has no usable text."""
    if isinstance(error, HttpParserInvalidURLError):
        return (
            "the address holds what has to be encoded: write letters beyond ASCII, and spaces, with"
            " percent signs, such as %C3%A9 for é"
        )
    return "this is no HTTP that can be read here"


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(
        f"request line and headers have at most {MOST_HEAD_BYTES} bytes and {MOST_HEADERS} headers",
        limit=MOST_HEAD_BYTES,
    )


def http_options() -> dict[str, Any]:
    """For `uvicorn.Config`."""
    return {"http": HttpProtocol, "timeout_keep_alive": 75}
