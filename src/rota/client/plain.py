"""HTTP by the standard library: quick to import, keeps connections alive, safe for threads."""

import contextlib
import http.client
import select
import socket
import threading
from collections.abc import Iterator, Mapping

from rota.client.errors import ConnectionFailed
from rota.client.forks import renewed_in_children
from rota.client.transport import CONNECT_SECONDS, Address, Answer, Request, address_of

_IDLE_KEPT = 4
_CHUNK = 65_536


class PlainTransport:
    def __init__(self, url: str) -> None:
        self._address = address_of(url)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        renewed_in_children(self)

    def begin_anew(self) -> None:
        self._lock = threading.Lock()
        self.close()  # the parent process still has them open

    def send(self, request: Request) -> Answer:
        with self._exchange(request) as (connection, response):
            body = response.read()
        self._keep(connection, response.will_close)
        return Answer(response.status, _headers(response), body)

    def open(self, request: Request) -> "PlainStream":
        with self._exchange(request) as (connection, response):
            return PlainStream(connection, response, self._address, request)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def beside(self) -> "PlainTransport":
        return PlainTransport(self._address.url)

    @contextlib.contextmanager
    def _exchange(
        self, request: Request
    ) -> Iterator[tuple[http.client.HTTPConnection, http.client.HTTPResponse]]:
        connection = self._connected(request.timeout)
        path = self._address.prefix + request.path
        try:
            connection.request(request.method, path, request.body, dict(request.headers))
            yield connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _no_answer(self._address, request, error) from error
        except BaseException:
            connection.close()  # half an answer is left in it
            raise

    def _connected(self, timeout: float) -> http.client.HTTPConnection:
        connection = self._idle_one() or _connect(self._address, timeout)
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def _idle_one(self) -> http.client.HTTPConnection | None:
        """An idle connection that the server has not closed meanwhile.

        Checked before use: if a request is written to a closed connection, nobody knows whether it
        was carried out.
        """
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not _readable(connection.sock):
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection, will_close: bool) -> None:
        with self._lock:
            if not will_close and len(self._idle) < _IDLE_KEPT:
                self._idle.append(connection)
                return
        connection.close()


class PlainStream:
    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        address: Address,
        request: Request,
    ) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = _headers(response)
        self._connection = connection
        self._response = response
        self._address = address
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := self._response.read1(_CHUNK):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise _no_answer(self._address, self._request, error) from error

    def close(self) -> None:
        self._response.close()
        self._connection.close()


def _connect(address: Address, timeout: float) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if address.secure else http.client.HTTPConnection
    seconds = min(timeout, CONNECT_SECONDS)
    connection = kind(address.host, address.port, timeout=seconds)
    try:
        connection.connect()
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that DNS cannot hold
        connection.close()
        silent = isinstance(error, TimeoutError)
        why = f"no connection within {seconds:g} s" if silent else _why(error)
        raise ConnectionFailed(
            f"cannot reach {address.url}: {why}; is the server running, and is the address right?",
            sent=False,
        ) from error
    # Requests are small and wait for an answer: do not delay the last packet.
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _readable(sock: socket.socket) -> bool:
    """Data before a request was sent: the end of the connection, or garbage."""
    try:
        look = select.poll()
        look.register(sock, select.POLLIN)
        return bool(look.poll(0))
    except (OSError, ValueError):
        return True


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _no_answer(address: Address, request: Request, error: Exception) -> ConnectionFailed:
    if isinstance(error, TimeoutError):
        why = f"no answer within {request.timeout:g} s"
    else:
        why = f"the connection broke ({_why(error)})"
    return ConnectionFailed(
        f"{address.url}: {why}; whether the request was carried out is not known", sent=True
    )


def _why(error: Exception) -> str:
    if getattr(error, "reason", None) == "WRONG_VERSION_NUMBER":  # OpenSSL's words for it
        return "what answers there speaks http, not https"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
