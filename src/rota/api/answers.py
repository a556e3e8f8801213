"""What a handler returns: status, body and headers, ready to be sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from rota.api import problems
from rota.api.asgi import Receive, Send
from rota.model.errors import RotaError

RawHeaders = list[tuple[bytes, bytes]]
S = TypeVar("S", bound=msgspec.Struct)

encode = msgspec.json.Encoder().encode

_SAFE: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_PAGE: RawHeaders = [
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
        b" object-src 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
]
# Pages have forms. With `no-referrer` a browser sends `Origin: null` for a form.
_OF_PAGES: RawHeaders = [
    *((name, value) for name, value in _SAFE if name != b"referrer-policy"),
    (b"referrer-policy", b"same-origin"),
    *_PAGE,
]


class Reply(Protocol):
    status: int

    async def deliver(self, receive: Receive, send: Send) -> None: ...


@dataclass(slots=True)
class Answer:
    status: int
    body: bytes = b""
    media_type: bytes | None = None
    headers: RawHeaders = field(default_factory=list)

    async def deliver(self, receive: Receive, send: Send) -> None:
        headers = raw_headers(self.media_type, len(self.body))
        if self.headers:  # a handler's own headers replace the common ones
            own = {name for name, _ in self.headers}
            headers = [*(one for one in headers if one[0] not in own), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(slots=True)
class Beginning:
    """The head of an endless answer, for HEAD requests."""

    media_type: bytes
    status: int = 200

    async def deliver(self, receive: Receive, send: Send) -> None:
        headers = raw_headers(self.media_type, None)
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def raw_headers(media_type: bytes | None, length: int | None) -> RawHeaders:
    is_page = media_type is not None and media_type.startswith(b"text/html")
    found = list(_OF_PAGES if is_page else _SAFE)
    if media_type is not None:
        found.append((b"content-type", media_type))
    if length is not None and media_type is not None:
        found.append((b"content-length", b"%d" % length))
    return found


def shown_as(kind: type[S], record: object, **others: Any) -> S:
    """A record as a model of an answer: its fields by their names, except for the `others`."""
    own = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: getattr(record, name) for name in own}, **others)


def json_answer(
    content: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    return Answer(status, encode(content), b"application/json", raw(headers))


def text_answer(text: str, media_type: str) -> Answer:
    return Answer(200, text.encode(), media_type.encode())


def empty_answer(status: int = 204, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, headers=raw(headers))


def problem_answer(error: RotaError) -> Answer:
    body = encode(problems.document(error))
    return Answer(
        problems.status_of(error),
        body,
        b"application/problem+json",
        raw(problems.headers(error)),
    )


def raw(headers: Mapping[str, str] | None) -> RawHeaders:
    if not headers:
        return []
    return [(name.encode(), value.encode()) for name, value in headers.items()]
