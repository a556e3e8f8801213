"""Endpoints: a handler with everything that routing and documentation need to know of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import cleandoc
from typing import Any, get_args, get_type_hints

import msgspec

from rota.api.answers import Reply
from rota.api.bodies import Nothing

Handler = Callable[..., Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    run: Handler
    scope: str | None  # None: open to everyone
    name: str
    summary: str
    text: str
    tag: str
    body: Any = None
    decoder: Any = None  # also for endpoints without a body, so that one is refused
    body_optional: bool = False
    query: Any = None
    lists: frozenset[str] = frozenset()
    gives: Any = None
    status: int = 200
    also: tuple[int, ...] = ()  # other statuses of success, with the same answer
    refuses: tuple[int, ...] = ()
    takes: tuple[str, ...] = ()  # request headers that have a meaning here
    sets: tuple[str, ...] = ()  # response headers worth knowing
    media_type: str = "application/json"
    accepts: str | None = None  # the media type of a body that the handler itself reads
    hidden: bool = False  # not part of the API document


def endpoint(
    method: str,
    path: str,
    *,
    scope: str | None,
    tag: str,
    body: Any = None,
    name: str | None = None,
    text: str | None = None,
    **facts: Any,
) -> Callable[[Handler], Endpoint]:
    """Make an endpoint from a handler. Body and query types come from the handler's signature."""

    def made(run: Handler) -> Endpoint:
        hints = get_type_hints(run, include_extras=True)
        accepted = body or hints.get("body")
        read = accepted or (None if method == "GET" or "accepts" in facts else Nothing)
        query = hints.get("query")
        summary, _, rest = cleandoc(text or run.__doc__ or "").partition("\n")
        return Endpoint(
            method,
            path,
            run,
            scope,
            name or run.__name__,
            summary.rstrip("."),
            rest.strip(),
            tag,
            body=accepted,
            decoder=None if read is None else msgspec.json.Decoder(read),
            body_optional=_all_optional(read),
            query=query,
            lists=_lists(query),
            **facts,
        )

    return made


def given(service: object, endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """The endpoints of handlers that take a service of their own before the call."""
    return tuple(replace(one, run=partial(one.run, service)) for one in endpoints)


def _all_optional(body: Any) -> bool:
    if not isinstance(body, type) or not issubclass(body, msgspec.Struct):
        return False
    return not any(one.required for one in msgspec.structs.fields(body))


def _lists(query: Any) -> frozenset[str]:
    """Parameters that may be given several times."""
    if query is None:
        return frozenset()
    fields = msgspec.structs.fields(query)
    return frozenset(one.encode_name for one in fields if _is_list(one.type))


def _is_list(kind: Any) -> bool:
    return getattr(kind, "__origin__", kind) is tuple or any(map(_is_list, get_args(kind)[:1]))


@dataclass(slots=True)
class _Node:
    fixed: dict[str, "_Node"] = field(default_factory=dict)
    any: "_Node | None" = None
    methods: dict[str, Endpoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a path leads to. For an unknown path there are no methods."""

    methods: dict[str, Endpoint]
    parameters: list[str]

    def endpoint(self, method: str) -> Endpoint | None:
        return self.methods.get("GET" if method == "HEAD" else method)

    @property
    def allow(self) -> str:
        others = {"OPTIONS", "HEAD"} if "GET" in self.methods else {"OPTIONS"}
        return ", ".join(sorted({*self.methods, *others}))


_NOTHING = Found({}, [])


class Routes:
    """A tree of path segments. A fixed segment takes precedence over a parameter."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._root = _Node()
        for one in endpoints:
            self._add(one)

    def _add(self, one: Endpoint) -> None:
        node = self._root
        for segment in one.path.split("/")[1:]:
            if segment.startswith("{"):
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.fixed.setdefault(segment, _Node())
        if one.method in node.methods:
            raise ValueError(f"{one.method} {one.path} has two handlers")
        node.methods[one.method] = one

    def find(self, path: str) -> Found:
        return _found(self._root, path.split("/")[1:], 0) or _NOTHING


def _found(node: _Node, segments: list[str], at: int) -> Found | None:
    """A fixed segment that leads nowhere may still be a parameter of another path. The recursion is
    no deeper than the tree, however long the path is."""
    if at == len(segments):
        return Found(node.methods, []) if node.methods else None
    following = node.fixed.get(segments[at])
    if following is not None and (found := _found(following, segments, at + 1)) is not None:
        return found
    if node.any is None or not segments[at]:
        return None
    found = _found(node.any, segments, at + 1)
    if found is not None:
        found.parameters.insert(0, segments[at])
    return found
