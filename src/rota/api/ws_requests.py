"""Requests over a WebSocket: the same services, rules and errors as over HTTP.

A request is passed to the handler of its route. What HTTP has in the path or a header is a field of
the payload here, and likewise in the answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Raw, Struct

from rota.api.answers import Answer
from rota.api.asgi import Headers
from rota.api.bodies import Change, Id, Nothing, StatusName, Strict, WorkQuery
from rota.api.call import Call
from rota.api.mistakes import invalid
from rota.api.routing import Endpoint
from rota.api.schemas import Item, ItemAndNext, ItemDetail
from rota.api.signal_wire import Signal, SignalDetail
from rota.model.errors import InvalidInput, MissingRequirement
from rota.model.status import Verb

Payload = dict[str, Any]
Run = Callable[[Call, Payload], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class RequestType:
    name: str
    payloads: tuple[Any, ...]
    gives: Any
    run: Run


class ItemPage(Struct, frozen=True):
    """`cursor` leads to the next page; null on the last one."""

    items: list[Item]
    cursor: str | None


class SignalPage(Struct, frozen=True):
    """`cursor` leads to the next page; null on the last one."""

    signals: list[Signal]
    cursor: str | None


class Claimed(Struct, frozen=True):
    """`reason` says why there are no items."""

    items: list[Item]
    reason: str | None


class ItemNamed(Strict, frozen=True):
    work_item_id: Id


class SignalNamed(Strict, frozen=True):
    signal_id: Id


def request_types(endpoints: Sequence[Endpoint]) -> tuple[RequestType, ...]:
    """The request types whose routes this server has."""
    routes = {one.name: one for one in endpoints}
    found = [*_of_work(routes)]
    if "create_signal" in routes:
        found += _of_signals(routes)
    return tuple(found)


def _of_work(routes: dict[str, Endpoint]) -> list[RequestType]:
    create, claim = routes["submit_work"], routes["claim_work"]
    transitions = (_BY_STATUS, *(_by_verb(verb, routes) for verb in Verb))
    new = _with("WorkCreate", create.body, ("idempotency_key", str | None, None))
    return [
        RequestType("work.create", (new,), Item, _created(create)),
        RequestType("work.get", (ItemNamed,), ItemDetail, _about(routes["show_work"])),
        _paged("work.list", routes["list_work"], ItemPage, _STATUSES),
        RequestType("work.claim", (claim.body,), Claimed, _claimed(claim)),
        RequestType("work.transition", transitions, ItemAndNext, _moved(routes)),
    ]


def _of_signals(routes: dict[str, Endpoint]) -> list[RequestType]:
    create, show, cancel = (routes[f"{verb}_signal"] for verb in ("create", "show", "cancel"))

    async def cancelled(call: Call, payload: Payload) -> Raw:
        named = named_in(call, payload, "signal_id")
        await handed(named, cancel, payload)
        return Raw((await handed(named, show, {})).body)

    return [
        RequestType("work.signal.create", (create.body,), Signal, _plain(create)),
        _paged("work.signal.list", routes["list_signals"], SignalPage),
        RequestType("work.signal.cancel", (SignalNamed,), SignalDetail, cancelled),
    ]


# carrying out a request


def _plain(route: Endpoint) -> Run:
    async def run(call: Call, payload: Payload) -> Raw:
        return Raw((await handed(call, route, payload)).body)

    return run


def _about(route: Endpoint) -> Run:
    async def run(call: Call, payload: Payload) -> Raw:
        return Raw((await handed(named_in(call, payload), route, payload)).body)

    return run


def _paged(name: str, route: Endpoint, page: Any, query: Any = None) -> RequestType:
    things = page.__struct_fields__[0]

    async def run(call: Call, payload: Payload) -> dict[str, Any]:
        for several in route.lists & payload.keys():
            payload[several] = _listed(payload[several])
        answer = await handed(call, route, payload)
        query = parse_qs(urlsplit(_header(answer, b"link").strip("<").partition(">")[0]).query)
        return {things: Raw(answer.body), "cursor": query.get("cursor", [None])[0]}

    return RequestType(name, (query or route.query,), page, run)


def _listed(value: Any) -> Any:
    """One value alone is a list of one; a query of `GET /work` has no brackets either."""
    if value is None:
        return ()
    return value.split(",") if isinstance(value, str) else value


def _created(route: Endpoint) -> Run:
    async def run(call: Call, payload: Payload) -> Raw:
        key = payload.pop("idempotency_key", None)
        if key is not None:
            # What HTTP would not let through is refused by the handler, like any wrong key.
            raw = converted(key, str, "idempotency_key").encode("latin-1", "replace")
            call = replace(call, headers={**call.headers, b"idempotency-key": raw})
        return Raw((await handed(call, route, payload)).body)

    return run


def _claimed(route: Endpoint) -> Run:
    async def run(call: Call, payload: Payload) -> dict[str, Any]:
        answer = await handed(call, route, payload)
        return {"items": Raw(answer.body), "reason": _header(answer, b"rota-reason") or None}

    return run


def _moved(routes: dict[str, Endpoint]) -> Run:
    async def run(call: Call, payload: Payload) -> Raw:
        verb = payload.pop("verb", None)
        if (verb is None) == (payload.get("status") is None):
            raise InvalidInput("verb: give either `verb` or `status`", field="verb")
        name = "change_work" if verb is None else f"{converted(verb, Verb, 'verb')}_work"
        return Raw((await handed(named_in(call, payload), routes[name], payload)).body)

    return run


async def handed(call: Call, route: Endpoint, payload: Payload) -> Answer:
    """Call the handler of a route, after demanding its scope."""
    if route.scope:
        call.caller.demand(route.scope)
    asked = route.body or route.query
    arguments = [] if asked is None else [converted(payload, asked)]
    if asked is None:
        converted(payload, Nothing)
    answer: Any = await route.run(call, *arguments)
    return answer  # type: ignore[no-any-return]  # of these routes none gives a stream


def named_in(call: Call, payload: Payload, field: str = "work_item_id") -> Call:
    """The call for the one thing that its payload names."""
    name = payload.pop(field, None)
    if name is None:
        raise MissingRequirement(f"{field}: it is missing", field=field)
    return replace(call, parameters=[converted(name, Id, field)], headers=_fenced(call, payload))


def _fenced(call: Call, payload: Payload) -> Headers:
    version = payload.pop("version", None)
    if version is None:
        return call.headers
    return {**call.headers, b"if-match": b"%d" % converted(version, int, "version")}


def converted(value: Any, kind: Any, at: str | None = None) -> Any:
    """`at` is the field's name, where the value is a single field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise invalid(error, kind, value, at) from None


def _header(answer: Answer, name: bytes) -> str:
    return next((value.decode() for key, value in answer.headers if key == name), "")


# payloads that differ from the bodies of the routes, for the schema


def _with(name: str, body: Any, *fields: Any) -> Any:
    return msgspec.defstruct(
        name, fields, bases=(body,), kw_only=True, frozen=True, forbid_unknown_fields=True
    )


_STATUSES = _with("WorkList", WorkQuery, ("status", tuple[StatusName, ...] | StatusName | None, ()))
_VERSION = ("version", int | None, None)
_BY_STATUS = _with("WorkChange", Change, ("work_item_id", Id), ("status", StatusName), _VERSION)


def _by_verb(verb: Verb, routes: dict[str, Endpoint]) -> Any:
    name = "Work" + str(verb).title().replace("_", "")
    literal: Any = Literal[str(verb)]
    body = routes[f"{verb}_work"].body
    return _with(name, body, ("work_item_id", Id), ("verb", literal), _VERSION)
