"""A tracker that answers by a script: for answers that no well-behaved server gives."""

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx2

from rota.testing.clock import ManualClock

API = "https://api.example.org"
TOKEN = "ghp_canary0123456789"

Reply = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


def reply(
    content: Any = None, status: int = 200, headers: dict[str, str] | None = None
) -> httpx2.Response:
    body = b"" if content is None else json.dumps(content).encode()
    return httpx2.Response(status, headers=headers, content=body)


class Script(httpx2.AsyncBaseTransport):
    """Returns the replies in order, the last one for ever, and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = iter(replies)
        self._last: Reply | None = None
        self.asked: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.asked.append(request)
        self._last = given = next(self._replies, self._last)
        if given is None:
            raise AssertionError(f"nothing is scripted for {request.method} {request.url}")
        if isinstance(given, Exception):
            raise given
        if isinstance(given, httpx2.Response):
            return httpx2.Response(
                given.status_code, headers=given.headers, content=given.content, request=request
            )
        return given(request)

    @property
    def paths(self) -> list[str]:
        return [f"{one.method} {one.url.raw_path.decode()}" for one in self.asked]


class Pauses:
    """Takes no time, and moves the clock by the requested seconds."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._clock.advance(seconds)


Pause = Callable[[float], Awaitable[None]]


def pages(*bodies: Any) -> Iterator[httpx2.Response]:
    """A list in pages, linked as GitHub links them."""
    for number, body in enumerate(bodies, start=1):
        more = f'<{API}/repositories/1/list?page={number + 1}>; rel="next"'
        yield reply(body, headers={"link": more} if number < len(bodies) else None)


def account(number: int = 7, login: str = "ada") -> dict[str, Any]:
    return {"id": number, "login": login, "type": "User"}


def issue(number: int = 5, **fields: Any) -> dict[str, Any]:
    return {
        "id": 1000 + number,
        "number": number,
        "title": "Mend the mill",
        "body": "It turns backwards.",
        "state": "open",
        "labels": [{"id": 1, "name": "ready"}],
        "user": account(),
        "html_url": f"https://example.org/ada/engine/issues/{number}",
        "created_at": "2026-05-01T10:00:00Z",
        "updated_at": "2026-05-01T11:00:00Z",
        **fields,
    }


def comment(number: int, body: str | None = "hello", **fields: Any) -> dict[str, Any]:
    return {
        "id": number,
        "user": account(),
        "body": body,
        "created_at": "2026-05-01T10:00:00Z",
        "updated_at": "2026-05-01T10:00:00Z",
        **fields,
    }


def repository(**fields: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "full_name": "ada/engine",
        "private": False,
        "owner": account(),
        "default_branch": "main",
        **fields,
    }
