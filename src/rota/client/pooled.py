"""HTTP on asyncio by httpx2. Only this module imports httpx2."""

import ssl
from collections.abc import AsyncIterator, Mapping

import httpx2

from rota.client.errors import ConnectionFailed
from rota.client.plain import PlainTransport
from rota.client.transport import CONNECT_SECONDS, Answer, Request, address_of

# With these errors nothing of the request was sent.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class PooledTransport:
    def __init__(self, url: str) -> None:
        self._address = address_of(url)
        self._client = httpx2.AsyncClient(
            # No proxy from the environment: it must not see the token for this server.
            trust_env=False,
            verify=ssl.create_default_context() if self._address.secure else False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def send(self, request: Request) -> Answer:
        try:
            response = await self._client.send(self._built(request))
        except httpx2.RequestError as error:
            raise self._no_answer(request, error) from error
        return Answer(response.status_code, _headers(response), response.content)

    async def open(self, request: Request) -> "PooledStream":
        try:
            response = await self._client.send(self._built(request), stream=True)
        except httpx2.RequestError as error:
            raise self._no_answer(request, error) from error
        return PooledStream(response, self, request)

    async def aclose(self) -> None:
        await self._client.aclose()

    def beside(self) -> PlainTransport:
        """On threads, not on the event loop: a body that blocks the loop keeps its lease."""
        return PlainTransport(self._address.url)

    def _built(self, request: Request) -> httpx2.Request:
        return self._client.build_request(
            request.method,
            self._address.url + request.path,
            headers=[
                (name.encode(), value.encode("latin-1")) for name, value in request.headers.items()
            ],
            content=request.body,
            timeout=httpx2.Timeout(request.timeout, connect=CONNECT_SECONDS),
        )

    def _no_answer(self, request: Request, error: httpx2.RequestError) -> ConnectionFailed:
        why = str(error) or type(error).__name__
        if isinstance(error, _NOT_SENT):
            return ConnectionFailed(
                f"cannot reach {self._address.url}: {why}; is the server running, and is the"
                " address right?",
                sent=False,
            )
        if isinstance(error, httpx2.TimeoutException):
            why = f"no answer within {request.timeout:g} s"
        return ConnectionFailed(
            f"{self._address.url}: {why}; whether the request was carried out is not known",
            sent=True,
        )


class PooledStream:
    def __init__(
        self, response: httpx2.Response, transport: PooledTransport, request: Request
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = _headers(response)
        self._response = response
        self._transport = transport
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except httpx2.RequestError as error:
            raise self._transport._no_answer(self._request, error) from error

    async def aclose(self) -> None:
        await self._response.aclose()


def _headers(response: httpx2.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}
