"""The HTTP face: handles every request from the first check to the answer."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rota import __version__
from rota.api import (
    care,
    claims,
    events,
    fleet,
    projects,
    runs,
    schedules,
    sources,
    statistics,
    verbs,
    work,
)
from rota.api.answers import Reply, empty_answer, problem_answer
from rota.api.asgi import AsgiApp, ClientGone, Headers, Receive, Scope, Send
from rota.api.auth import Gate
from rota.api.browser import FORM, BrowserGuard, check_same_origin
from rota.api.budgets import Known
from rota.api.call import Call, demand_no_query, read_body, read_query
from rota.api.cookies import signed
from rota.api.docs import doc_endpoints
from rota.api.metrics import UNMATCHED, Metrics
from rota.api.problems import Internal, MethodNotAllowed, status_of
from rota.api.routing import Endpoint, Found, Routes
from rota.api.settings import ApiSettings
from rota.api.ws import PATH as WS_PATH
from rota.api.ws import Handshake, Sockets, refuse, socket_endpoints
from rota.api.ws_limits import WsLimits
from rota.feed import Feed
from rota.model.access import ANYONE, Caller, everyone
from rota.model.errors import ClaimLost, NotFound, RotaError
from rota.model.fleet import Fleet
from rota.queue.ledger import Ledger
from rota.tracing import note, span

# What a browser is shown of an error, or None where a problem document is right. A known caller is
# in `scope["rota.caller"]`.
ErrorPage = Callable[[RotaError, Scope, Endpoint | None], Reply | None]


@dataclass(frozen=True, slots=True)
class Mount:
    """Another ASGI app below a path, behind the same checks. It finds the caller in
    `scope["rota.caller"]`. `scope=None` opens it to everyone."""

    path: str
    app: AsgiApp
    scope: str | None

    def holds(self, path: str) -> bool:
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")


def create_app(
    ledger: Ledger,
    settings: ApiSettings | None = None,
    *,
    stopping: asyncio.Event | None = None,
    endpoints: Sequence[Endpoint] = (),
    mounts: Sequence[Mount] = (),
    ws: WsLimits | None = None,
    error_page: ErrorPage | None = None,
    known: Known = Fleet,
) -> "Api":
    """The app on one ledger. Other rooms add `endpoints`, `mounts` and `error_page`; `known`
    returns the configuration, where there is one.

    Once `stopping` is set, long polls, event streams and WebSockets end.
    """
    settings = settings or ApiSettings()
    stopping = stopping or asyncio.Event()
    gate = Gate(ledger.tokens, settings)
    feed = Feed(ledger.views, events.written)
    ours = [
        *care.ENDPOINTS,
        *projects.ENDPOINTS,
        *work.ENDPOINTS,
        *claims.ENDPOINTS,
        *verbs.ENDPOINTS,
        *events.event_endpoints(feed),
        *fleet.agent_endpoints(known),
        *runs.ENDPOINTS,
        *schedules.ENDPOINTS,
        *sources.ENDPOINTS,
        *statistics.ENDPOINTS,
        *fleet.token_endpoints(gate),
        *endpoints,
    ]
    sockets = Sockets(gate, feed, ours, stopping=stopping, limits=ws)
    ours += [*doc_endpoints(ours, __version__, gate), *socket_endpoints(sockets)]
    return Api(
        ledger, settings, gate, Routes(ours), sockets, mounts=mounts, stopping=stopping,
        error_page=error_page,
    )  # fmt: skip


class Api:
    """One ASGI app, made of plain functions.

    No framework: an empty Litestar handler costs four times what a request with all its checks
    costs here, more than the ledger's own part. Importing Litestar would also cost the CLI, which
    opens this face in its own process, half a second.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: ApiSettings,
        gate: Gate,
        routes: Routes,
        sockets: Sockets,
        *,
        mounts: Sequence[Mount],
        stopping: asyncio.Event,
        error_page: ErrorPage | None,
    ) -> None:
        self.metrics = Metrics()
        self.stopping = stopping
        self._ledger = ledger
        self._settings = settings
        self._gate = gate
        self._guard = BrowserGuard(settings)
        self._routes = routes
        self._sockets = sockets
        self.metrics.sockets = lambda: sockets.open
        self._mounts = mounts
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            with contextlib.suppress(ClientGone):
                await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        found = self._routes.find(scope["path"])
        if not found.methods and (mount := self._mount(scope["path"])):
            await self._mounted(mount, scope, receive, send)
            return
        endpoint = found.endpoint(scope["method"])
        route = endpoint.path if endpoint else UNMATCHED
        headers: Headers = dict(scope["headers"])
        with span(f"{scope['method']} {route}", headers.get(b"traceparent")) as current:
            try:
                reply = await self._reply(scope, headers, receive, found, endpoint)
            except ClientGone:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller is answered
                reply = self._problem(error, scope, endpoint)
            note(current, status=reply.status)
        self.metrics.answered(scope["method"], route, reply.status, time.perf_counter() - began)
        await reply.deliver(receive, send)

    async def _reply(
        self,
        scope: Scope,
        headers: Headers,
        receive: Receive,
        found: Found,
        endpoint: Endpoint | None,
    ) -> Reply:
        form = endpoint is not None and endpoint.accepts == FORM
        caller = await self._admit(scope, headers, endpoint.scope if endpoint else "", form=form)
        if endpoint is None:
            return _unrouted(scope, found)
        call = self._call(scope, receive, headers, caller, found.parameters, shown=headers)
        arguments = []
        if endpoint.query is not None:
            arguments.append(read_query(endpoint, scope))
        elif scope["query_string"] and endpoint.scope is not None and not endpoint.hidden:
            demand_no_query(scope)
        if endpoint.decoder is not None:
            limit = self._settings.max_body_bytes
            body = await read_body(endpoint, headers, receive, limit)
            arguments += [] if endpoint.body is None else [body]
        return await endpoint.run(call, *arguments)

    def _call(
        self,
        scope: Scope,
        receive: Receive,
        headers: Headers,
        caller: Caller,
        parts: list[str],
        *,
        shown: Headers,
    ) -> Call:
        return Call(
            self._ledger, self._settings, self.metrics, self.stopping, scope, receive, headers,
            caller, parts, self._gate, shown,
        )  # fmt: skip

    async def _admit(
        self, scope: Scope, headers: Headers, needed: str | None, *, form: bool = False
    ) -> Caller:
        """Check host, origin, token, scope, in this order. An empty scope demands only a token."""
        if not self._settings.trusted:
            # Endpoints open to everyone must answer without a database, too.
            closed = self._gate.closed if needed is None else await self._gate.protected()
            cookie = signed(headers) if closed and needed is not None else None
            self._guard.check(
                scope.get("method", "GET"), headers, protected=closed, cookie=cookie, form=form
            )
        if needed is None:
            return everyone(ANYONE)
        caller = await self._gate.caller(headers, (scope.get("client") or ("",))[0])
        scope["rota.caller"] = caller
        if needed:
            caller.demand(needed)
        return caller

    def _problem(self, error: Exception, scope: Scope, endpoint: Endpoint | None) -> Reply:
        told = self._told(error, scope)
        page = self._error_page(told, scope, endpoint) if self._error_page else None
        return page or problem_answer(told)

    def _told(self, error: Exception, scope: Scope) -> RotaError:
        """The error that the caller is told. Of an internal error, only the log has the details."""
        if isinstance(error, RotaError) and status_of(error) != 500:
            self.metrics.conflicts += isinstance(error, ClaimLost)
            return error
        _log_internal(error, scope)
        return Internal("an error of ours; it is in the server's log")

    # what other rooms add

    def _mount(self, path: str) -> Mount | None:
        return next((one for one in self._mounts if one.holds(path)), None)

    async def _mounted(self, mount: Mount, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers: Headers = dict(scope["headers"])
            scope["rota.caller"] = await self._admit(scope, headers, mount.scope)
        except RotaError as error:
            await problem_answer(error).deliver(receive, send)
            return
        await mount.app(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A page may open a WebSocket to any host, so the origin is checked as for a write."""
        headers: Headers = dict(scope["headers"])
        mount = self._mount(scope["path"])
        try:
            if not self._settings.trusted:
                self._guard.check_origin(headers)
                if (cookie := signed(headers)) is not None:
                    check_same_origin(headers, cookie)
            if mount is not None:
                scope["rota.caller"] = await self._admit(scope, headers, mount.scope)
            elif scope["path"] == WS_PATH:
                await self._ours(scope, headers, receive, send)
            else:
                raise NotFound("there is no such WebSocket")
        except RotaError as error:
            await refuse(error, scope, receive, send)
            return
        if mount is not None:
            await mount.app(scope, receive, send)

    async def _ours(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        """The token may come in the handshake or in a later frame, so only the host is checked."""
        if not self._settings.trusted:
            self._guard.check("GET", headers, protected=await self._gate.protected())
        await self._sockets.serve(
            Handshake(scope, headers, receive, send),
            lambda caller, gone, shown: self._call(scope, gone, {}, caller, [], shown=shown),
            lambda error: self._told(error, scope),
        )

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                self.stopping.set()
                return


def _unrouted(scope: Scope, found: Found) -> Reply:
    if not found.methods:
        bare = " (write it without the slash at its end)" if scope["path"].endswith("/") else ""
        raise NotFound(f"there is nothing at {scope['path'][:200]!r}{bare}; see /docs")
    if scope["method"] == "OPTIONS":
        return empty_answer(204, {"allow": found.allow})
    raise MethodNotAllowed(
        f"{scope['method'][:20]} is no method of this path; there are {found.allow}",
        headers={"allow": found.allow},
    )


def _log_internal(error: Exception, scope: Scope) -> None:
    import structlog  # noqa: PLC0415 - costs the CLI 300 ms that it almost never needs

    from rota.config.logs import configure_logging  # noqa: PLC0415

    if not structlog.is_configured():  # a CLI command
        configure_logging()
    structlog.get_logger().error(
        "internal error", method=scope.get("method"), path=scope["path"], exc_info=error
    )
