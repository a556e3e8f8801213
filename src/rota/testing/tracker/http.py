"""Requests, answers and routes, as the dialects of the stub use them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from rota.testing.tracker.hub import Token

Json = dict[str, Any]
NO_CONTENT: Final = object()
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(slots=True)
class Request:
    method: str
    segments: list[str]
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    base: str  # the address that the client called
    token: Token | None = None
    token_is_bad: bool = False

    @classmethod
    def of(cls, scope: Mapping[str, Any], body: bytes) -> "Request":
        # The raw path, because a label's name may contain a slash.
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        return cls(
            scope["method"],
            [unquote(one) for one in raw.decode("ascii").split("?")[0].split("/")[1:]],
            dict(parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True)),
            headers,
            body,
            f"{scope.get('scheme', 'http')}://{headers.get('host', 'localhost')}",
        )

    @property
    def path(self) -> str:
        return "/" + "/".join(self.segments)

    @property
    def credentials(self) -> str | None:
        scheme, _, text = self.headers.get("authorization", "").partition(" ")
        return text.strip() if scheme.lower() in ("bearer", "token") else None

    def json(self) -> Any:
        try:
            return msgspec.json.decode(self.body) if self.body else {}
        except msgspec.DecodeError:
            raise Rejection(400, "Problems parsing JSON") from None


@dataclass(slots=True)
class Answer:
    status: int = 200
    content: Any = NO_CONTENT  # JSON (None is null), or text
    headers: dict[str, str] = field(default_factory=dict)
    _encoded: bytes | None = None

    def body(self) -> bytes:
        if self.content is NO_CONTENT or self.status == 304:
            return b""
        if self._encoded is None:
            text = isinstance(self.content, str)
            self._encoded = self.content.encode() if text else msgspec.json.encode(self.content)
        return self._encoded

    @property
    def media_type(self) -> str:
        text = isinstance(self.content, str)
        return "text/html" if text else "application/json; charset=utf-8"


class Rejection(Exception):
    """A refused request; the dialect gives it its own form."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Json] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}


class Routes:
    """Patterns like `/repos/{owner}/{name}`; `{rest*}` at the end matches all that follows."""

    def __init__(self) -> None:
        self._known: list[tuple[str, list[str], Callable[..., Any]]] = []

    def __call__(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self._known.append((method, pattern.split("/")[1:], handler))
            return handler

        return add

    def find(
        self, method: str, segments: list[str]
    ) -> tuple[Callable[..., Any], dict[str, str]] | None:
        for known_method, pattern, handler in self._known:
            if known_method == method and (values := _match(pattern, segments)) is not None:
                return handler, values
        return None


def _match(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    if pattern[-1] == "{rest*}" and len(segments) >= len(pattern):
        segments = [*segments[: len(pattern) - 1], "/".join(segments[len(pattern) - 1 :])]
    if len(pattern) != len(segments):
        return None
    values = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            values[wanted.strip("{*}")] = given
        elif wanted != given:
            return None
    return values
