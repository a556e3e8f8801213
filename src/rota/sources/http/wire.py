"""One request and its answer, by httpx2. A missing answer is one of two kinds: the request was
never sent, or nobody knows whether it was carried out."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from rota.model.errors import InvalidInput
from rota.sources.http.answers import Answer, one_line

MAX_ANSWER = 64 * 1024 * 1024
MAX_CONNECTIONS = 10  # trackers ask clients to limit concurrent requests

# These errors occur before any part of the request is sent.
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")  # before the words that mean the same


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. `read` is the longest pause within an answer; `total` limits a call with all its
    retries, whatever arrives meanwhile."""

    connect: float = 10.0
    read: float = 30.0
    total: float = 90.0


class NoAnswer(Exception):
    """`sent`: the request may have been carried out. `certificate`: a retry would not help."""

    def __init__(self, why: str, *, sent: bool, certificate: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent
        self.certificate = certificate


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an API. Two addresses of one origin differ in their path at most."""

    url: str  # without a trailing slash
    origin: tuple[str, str, int]
    path: str

    @property
    def secure(self) -> bool:
        return self.origin[0] == "https"

    @property
    def host(self) -> str:
        """As a browser shows it: with the port if it is not the default one."""
        scheme, name, port = self.origin
        shown = f"[{name}]" if ":" in name else name
        return shown if port == _PORTS[scheme] else f"{shown}:{port}"


_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> tuple[str, str, int]:
    """Raises ValueError if the URL is no http or https address."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("not an address on the web")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def address_of(api_url: str) -> Address:
    if "@" in api_url:
        raise InvalidInput(
            "api_url holds a user name or password; name a token's environment variable in"
            " `auth.token_env` instead",
            field="api_url",
        )
    try:
        origin = origin_of(api_url)
    except ValueError:
        origin = None
    if origin is None or "?" in api_url or "#" in api_url:
        raise InvalidInput(
            f"api_url: {api_url[:100]!r} is not the address of an API; write"
            " https://api.github.com or https://git.example.org/api/v1, for example",
            field="api_url",
        )
    return Address(api_url.rstrip("/"), origin, urlsplit(api_url).path.rstrip("/"))


class Wire:
    def __init__(
        self,
        address: Address,
        timeouts: Timeouts,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._address = address
        self._timeouts = timeouts
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, until: float
    ) -> Answer:
        """`until` is a time of the event loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                return await self._exchange(method, url, headers, body)
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._timeouts.total:g} s", sent=True) from None
        except httpx2.RequestError as error:
            raise self._no_answer(error) from error
        except httpx2.InvalidURL as error:
            raise NoAnswer(f"bad address: {one_line(str(error))}", sent=False) from None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        client = self._opened()
        client.cookies.clear()  # a session cookie would authenticate us beside the token
        request = client.build_request(method, url, headers=httpx2.Headers(headers), content=body)
        response = await client.send(request, stream=True)
        try:
            content = await _content(response)
        finally:
            await response.aclose()
        told = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, url, told, content)

    def _opened(self) -> httpx2.AsyncClient:
        """Created at first use: certificates take long to load."""
        if self._client is None:
            secure = self._address.secure and self._transport is None
            self._client = httpx2.AsyncClient(
                # Proxies from the environment only for https: a proxy cannot read encrypted
                # traffic, but over http it would see the token.
                trust_env=secure,
                verify=ssl.create_default_context() if secure else False,
                transport=self._transport,
                timeout=httpx2.Timeout(self._timeouts.read, connect=self._timeouts.connect),
                limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
            )
        return self._client

    def _no_answer(self, error: httpx2.RequestError) -> NoAnswer:
        if (broken := _certificate_error(error)) is not None:
            why = f"its certificate is not accepted: {one_line(broken)}"
            return NoAnswer(why, sent=False, certificate=True)
        if isinstance(error, httpx2.ConnectTimeout):
            why = f"no connection within {self._timeouts.connect:g} s"
        elif isinstance(error, httpx2.TimeoutException):
            why = f"no answer within {self._timeouts.read:g} s"
        else:
            why = _ERRNO.sub("", one_line(str(error))) or type(error).__name__
        return NoAnswer(why, sent=not isinstance(error, _NOT_SENT))


async def _content(response: httpx2.Response) -> bytes:
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER:
            raise NoAnswer(f"the answer is larger than {MAX_ANSWER} bytes", sent=True)
    return bytes(content)


def _certificate_error(error: BaseException | None) -> str | None:
    """httpx2 wraps this error twice."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return getattr(error, "verify_message", "") or str(error)
        error = error.__cause__ or error.__context__
    return None
