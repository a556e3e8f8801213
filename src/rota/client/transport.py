"""How a request gets to a server: the protocols that transports implement.

`plain` speaks HTTP by the standard library, `pooled` does so on asyncio by httpx2, and `inprocess`
calls the application itself, without a socket. Each raises `ConnectionFailed` when there is no
answer, and no other error of its own.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlsplit

from rota.model.errors import InvalidInput

CONNECT_SECONDS = 5.0

_HOST = re.compile(r"[\w.:%-]+")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # with its query
    headers: Mapping[str, str]
    body: bytes | None = None
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class SyncStream(Protocol):
    """An answer whose body arrives in chunks, until the server ends it."""

    status: int
    headers: Mapping[str, str]

    def __iter__(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class SyncTransport(Protocol):
    """Safe to use from several threads."""

    def send(self, request: Request) -> Answer: ...
    def open(self, request: Request) -> SyncStream: ...
    def close(self) -> None: ...
    def beside(self) -> "SyncTransport":
        """A way to the same server for the heartbeat threads."""


class AsyncStream(Protocol):
    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class AsyncTransport(Protocol):
    async def send(self, request: Request) -> Answer: ...
    async def open(self, request: Request) -> AsyncStream: ...
    async def aclose(self) -> None: ...
    def beside(self) -> SyncTransport:
        """A way to the same server for the heartbeat threads."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is; `prefix` is the path under which a proxy may have put it."""

    secure: bool
    host: str
    port: int
    prefix: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.prefix}"


def address_of(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    except ValueError:
        raise _no_address(url) from None
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or port == 0:
        raise _no_address(url)
    if parts.username or parts.password:
        raise InvalidInput("the server's address holds a password; put a token in ROTA_TOKEN")
    secure = parts.scheme == "https"
    return Address(secure, host, port or (443 if secure else 80), prefix)


def _no_address(url: str) -> InvalidInput:
    return InvalidInput(
        f"{url[:100]!r} is not a server's address; write http://127.0.0.1:8080, for example"
    )
