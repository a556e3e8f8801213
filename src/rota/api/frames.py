"""The frames of `/ws`: what a client may send, what it is sent, and their published schema."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from rota.api.bodies import AgentName, EventName, Id, Strict, whole
from rota.api.schemas import Event, FieldError

# Many clients count their requests. Beyond these numbers JavaScript could not tell them apart.
RequestId = (
    Annotated[str, Meta(min_length=1, max_length=100)]
    | Annotated[int, Meta(ge=-(2**53 - 1), le=2**53 - 1)]
)
TypeName = Annotated[str, Meta(min_length=1, max_length=100)]
LAST_SEQ = 2**63 - 1
Sequence = Annotated[int, Meta(ge=0, le=LAST_SEQ)]
EventId = Annotated[
    str, Meta(max_length=19, pattern=whole("[0-9]+"), extra={"wrong": "is no event of ours"})
]


class Request(Strict, frozen=True):
    """`payload` is read once `type` is known. Without one, or with null, it is empty."""

    request_id: RequestId
    type: TypeName
    payload: Raw = Raw(b"{}")


class Failure(Struct, frozen=True):
    """`code` is for programs and never changes; `detail` is for people. Some have more fields."""

    code: str
    detail: str
    status: int
    allowed: list[str] | UnsetType = UNSET
    errors: list[FieldError] | UnsetType = UNSET


class Refusal(Struct, frozen=True):
    """The answer to a request that was not carried out, or to a frame that was none."""

    request_id: str | int | None
    type: str
    error: Failure
    ok: Literal[False] = False


class EventFrame(Event, frozen=True, kw_only=True):
    """One event of the log, as `GET /events` shows it; `event_id` is where to resume."""

    subscription: str


class ResyncHint(Struct, frozen=True):
    subscription: str
    after: int
    detail: str


class Resync(Struct, frozen=True):
    """The last frame before 1013: subscribe again behind `after`, and nothing is missed."""

    payload: ResyncHint
    type: Literal["feed.resync"] = "feed.resync"


# payloads of requests about the connection itself


class Auth(Strict, frozen=True):
    token: Annotated[str, Meta(min_length=1, max_length=500)]


class Ping(Strict, frozen=True):
    pass


class Subscribe(Strict, frozen=True):
    """`after` is the `seq` of an event, or its `event_id`."""

    after: Sequence | EventId | None = None
    types: Annotated[tuple[EventName, ...], Meta(max_length=100)] | None = ()
    work_item_id: Id | None = None
    project_id: Id | None = None
    agent: AgentName | None = None


class Unsubscribe(Strict, frozen=True):
    subscription: Id


class Welcome(Struct, frozen=True):
    name: str
    scopes: tuple[str, ...]


class Pong(Struct, frozen=True):
    """Nothing but that somebody is there."""


class Subscribed(Struct, frozen=True):
    """`after` is where the subscription begins."""

    subscription: str
    after: int


class Unsubscribed(Struct, frozen=True):
    """`after` is the last event that was sent."""

    subscription: str
    after: int


# the schema


class Kind(Protocol):
    """What the schema needs of a request type. A request has one of its `payloads`."""

    @property
    def name(self) -> str: ...
    @property
    def payloads(self) -> tuple[Any, ...]: ...
    @property
    def gives(self) -> Any: ...


# Some models refer to others by their place in the API document. All references are rewritten
# together, at the end.
_REF, _OURS = "#/components/schemas/{name}", "#/$defs/{name}"


def schema(kinds: Iterable[Kind]) -> dict[str, Any]:
    """JSON Schema of every frame: `Sent` by a client, or `Received` by it."""
    kinds = tuple(kinds)
    types = [one for kind in kinds for one in (*kind.payloads, kind.gives)]
    found, definitions = msgspec.json.schema_components(
        [*types, Refusal, EventFrame, Resync], ref_template=_REF
    )
    shapes = iter(found)
    sent, received = [], []
    for kind in kinds:
        payload = [next(shapes) for _ in kind.payloads]
        sent.append(_request(kind.name, payload[0] if len(payload) == 1 else {"anyOf": payload}))
        received.append(_answer(kind.name, next(shapes)))
    definitions["Failure"]["additionalProperties"] = True
    definitions |= {"Sent": {"anyOf": sent}, "Received": {"anyOf": [*received, *shapes]}}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Frames of /ws",
        "anyOf": [{"$ref": _REF.format(name=name)} for name in ("Sent", "Received")],
        "$defs": definitions,
    }
    text = msgspec.json.encode(whole).replace(_REF[:-6].encode(), _OURS[:-6].encode())
    moved: dict[str, Any] = msgspec.json.decode(text)
    return moved


def _request(name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    return _object(
        {
            "request_id": msgspec.json.schema(RequestId),
            "type": {"const": name},
            "payload": {"anyOf": [payload, {"type": "null"}]},
        },
        ("request_id", "type"),
    )


def _answer(name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "request_id": {"type": ["string", "integer"]},
        "type": {"const": name},
        "ok": {"const": True},
        "result": result,
    }
    return _object(fields, tuple(fields))


def _object(properties: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
