"""One request, as a handler sees it."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from rota.api import strictness
from rota.api.asgi import ClientGone, Headers, Receive, Scope
from rota.api.mistakes import invalid, loosely
from rota.api.problems import BadJson, TooLarge
from rota.api.settings import ApiSettings
from rota.model.access import READ, Caller
from rota.model.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    RotaError,
    Unauthenticated,
    VersionMismatch,
)
from rota.queue.ledger import Ledger

if TYPE_CHECKING:
    from rota.api.auth import Gate
    from rota.api.metrics import Metrics
    from rota.api.routing import Endpoint

Q = TypeVar("Q")

MAX_PARAMETERS = 200
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_UUID = re.compile(r"[0-9A-F]{8}-(?:[0-9A-F]{4}-){3}[0-9A-F]{12}")
LONGEST_ID = 100


@dataclass(slots=True)
class Call:
    ledger: Ledger
    settings: ApiSettings
    metrics: "Metrics"
    stopping: asyncio.Event
    scope: Scope
    receive: Receive
    headers: Headers
    caller: Caller
    parameters: list[str]
    gate: "Gate"
    shown: Headers  # the headers that its caller was admitted with

    @property
    def actor(self) -> str:
        return self.caller.name

    @property
    def id(self) -> str:
        """The path's parameter. Text that cannot be an id is not looked up in the database. A UUID
        is the same in capitals, as some languages write it."""
        text = self.parameters[0]
        if len(text) > LONGEST_ID or not text.isascii() or not text.isprintable():
            raise NotFound(f"there is no {text[:LONGEST_ID]!r} here", id=text[:LONGEST_ID])
        return text.lower() if _UUID.fullmatch(text) else text

    @property
    def wants_head(self) -> bool:
        """The answer's body is not read, so a wait or a stream would only block the connection."""
        return bool(self.scope.get("method") == "HEAD")

    @property
    def address(self) -> str:
        """Where the request came from."""
        return str((self.scope.get("client") or ("",))[0])

    async def until_refused(self) -> None:
        """Returns once the caller may no longer read. For streaming answers."""
        while True:
            await asyncio.sleep(self.settings.recheck_seconds)
            try:
                await self.demand_again()
            except (Unauthenticated, Forbidden):
                return

    async def demand_again(self) -> None:
        """Raises if the caller may no longer read. For answers after a long wait."""
        try:
            (await self.gate.again(self.shown)).demand(READ)
        except (Unauthenticated, Forbidden):
            raise
        except RotaError:  # the database does not answer; that is no reason to end
            return

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def raw_body(self) -> bytes:
        """The body as received, for checking signatures."""
        return await read_bytes(self.headers, self.receive, self.settings.max_body_bytes)

    def if_match(self) -> int | None:
        """The version in `If-Match`, in any form of an entity tag."""
        text = self.header(b"if-match")
        if text is None or text.strip() == "*":
            return None
        plain = text.strip().removeprefix("W/").strip('"')
        if not (plain.isascii() and plain.isdigit() and len(plain) < 10):
            raise VersionMismatch(f"If-Match: {text[:80]!r} is no version of this item")
        return int(plain)

    def next_page(self, **position: str) -> Mapping[str, str]:
        """A Link header for the next page, with the same filters."""
        pairs = parse_qsl(self.scope["query_string"].decode("latin-1"))
        kept = [(name, value) for name, value in pairs if name not in position]
        query = urlencode([*kept, *position.items()])
        return {"link": f'<{self.scope["path"]}?{query}>; rel="next"'}


def demand_no_query(scope: Scope) -> None:
    """A call with `?dry_run=true` must not be carried out by an endpoint that does not know it."""
    for name, _ in _pairs(scope["query_string"]):
        raise InvalidInput(
            f"{name[:80]}: it is not known here; this call takes no parameters", field=name[:80]
        )


def read_query(endpoint: "Endpoint", scope: Scope) -> Any:
    values: dict[str, Any] = {}
    for name, value in _pairs(scope["query_string"]):
        several = [part for part in value.split(",") if part] if name in endpoint.lists else None
        if not value or several == []:
            if endpoint.hidden:  # a page: a form sends `status=` for any status
                continue
            raise InvalidInput(
                f"{name[:80]}: it is empty; give a value, or leave it out", field=name[:80]
            )
        if several is not None:
            values.setdefault(name, []).extend(several)
        elif name in values:
            raise InvalidInput(f"{name[:80]}: it is given twice", field=name[:80])
        else:
            values[name] = value
    try:
        return msgspec.convert(values, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error, endpoint.query, values) from None


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS
        )
    except ValueError:
        raise InvalidInput(f"at most {MAX_PARAMETERS} parameters are read") from None


async def read_body(endpoint: "Endpoint", headers: Headers, receive: Receive, limit: int) -> Any:
    raw = await read_bytes(headers, receive, limit)
    if not raw:
        if not endpoint.body_optional:
            raise BadJson("the body is empty; send JSON")
        raw = b"{}"
    return decode(endpoint.decoder, raw)


def decode(decoder: "msgspec.json.Decoder[Q]", raw: bytes) -> Q:
    try:
        found = decoder.decode(raw)
        strictness.check(raw.decode())
    except msgspec.ValidationError as error:
        raise invalid(error, decoder.type, loosely(raw)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJson(f"the body is not JSON: {_flaw(error, raw)}") from None
    except RecursionError:
        raise BadJson("the body is nested too deeply") from None
    return found


def _flaw(error: Exception, raw: bytes) -> str:
    if "surrogate" in str(error) or (_HALF.search(raw) and _is_whole(raw)):
        return "a text in it has half a surrogate pair; write both halves, or the character itself"
    return _no_utf_8(raw) or str(error)


def _no_utf_8(raw: bytes) -> str | None:
    """msgspec tells the place within one text."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8; send it in UTF-8"
    return None


def _is_whole(raw: bytes) -> bool:
    """Python's parser accepts half a surrogate pair; msgspec takes it for the end of the text."""
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True


async def read_bytes(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The whole body, refused as soon as it is known to be too large."""
    # `int` raises for more than a few thousand digits, and the HTTP parser accepts leading zeros.
    declared = headers.get(b"content-length", b"").lstrip(b"0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    raw, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        raw += message.get("body", b"")
        more = message.get("more_body", False)
        if len(raw) > limit:
            raise _too_large(limit)
    return bytes(raw)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes", limit=limit)
