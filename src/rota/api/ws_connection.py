"""One WebSocket, from its acceptance to its end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rota.api import problems, strictness
from rota.api.answers import encode
from rota.api.asgi import ClientGone, Headers, Message, Receive, Send
from rota.api.call import Call
from rota.api.frames import (
    Auth,
    Ping,
    Pong,
    Request,
    RequestId,
    Resync,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from rota.api.mistakes import invalid, loosely
from rota.api.problems import TooLarge
from rota.api.ws_limits import WsLimits
from rota.api.ws_problems import BadFrame, TooManyRequests
from rota.api.ws_requests import RequestType, converted
from rota.api.ws_subscriptions import Subscription
from rota.feed import Feed
from rota.model.access import Caller
from rota.model.errors import Forbidden, InvalidInput, NotFound, RotaError, Unauthenticated

NO_FRAME = "error"  # the type of an answer to a frame that is no request
_REQUEST = msgspec.json.Decoder(Request)
_HIDDEN = ("type", "title")  # fields of problem documents that only HTTP needs


@dataclass(frozen=True, slots=True)
class Doors:
    """A connection's ways to the outside."""

    receive: Receive
    send: Send
    call: Callable[[Caller, Receive, Headers], Call]
    explain: Callable[[Exception], RotaError]  # what a caller is told of an error
    admit: Callable[[Headers], Awaitable[Caller]]
    again: Callable[[Headers], Awaitable[Caller]]  # rechecks an admitted caller


@dataclass(frozen=True, slots=True)
class Ending:
    code: int | None = None  # None: the client is gone
    reason: str = ""
    last_words: Resync | None = None


class Connection:
    def __init__(
        self,
        doors: Doors,
        feed: Feed,
        types: Mapping[str, RequestType],
        limits: WsLimits,
        *,
        caller: Caller | None,
        headers: Headers,
    ) -> None:
        self._doors = doors
        self._feed = feed
        self._types = types
        self._limits = limits
        self._caller = caller
        self._headers = headers
        self._subscriptions: dict[str, tuple[Subscription, asyncio.Task[None]]] = {}
        self._numbered = 0
        self._requests: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    # lifecycle

    async def run(self) -> None:
        await self._doors.receive()
        await self._doors.send({"type": "websocket.accept"})
        listener = self._start(self._listen())
        late = asyncio.get_running_loop().call_later(self._limits.auth_seconds, self._is_nobody)
        try:
            ending = await self._ending
        finally:
            late.cancel()
            self._gone.set()
            pumps = [task for _, task in self._subscriptions.values()]
            await _cancelled(listener, *pumps)
        await self._take_leave(ending)
        await self._let_finish()

    def end(self, code: int | None = None, reason: str = "", words: Resync | None = None) -> None:
        if not self._ending.done():
            self._ending.set_result(Ending(code, reason, words))

    async def check(self) -> None:
        """End the connection if its token is no longer valid."""
        if self._caller is None:
            return
        try:
            self._caller = await self._doors.again(self._headers)
        except (Unauthenticated, Forbidden) as error:
            self.end(1008, error.code)
        except RotaError:  # the database does not answer; that is no reason to end
            return

    def _is_nobody(self) -> None:
        if self._caller is None:
            self.end(1008, f"no token within {self._limits.auth_seconds:g} s")

    async def _take_leave(self, ending: Ending) -> None:
        if ending.code is None:
            return
        closing = {"type": "websocket.close", "code": ending.code, "reason": ending.reason}
        with contextlib.suppress(TimeoutError, OSError, RuntimeError):
            async with asyncio.timeout(self._limits.farewell_seconds):
                if ending.last_words is not None:
                    await self._doors.send(_text(encode(ending.last_words).decode()))
                await self._doors.send(closing)

    async def _let_finish(self) -> None:
        """Requests that were accepted are finished even when the client is gone."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=self._limits.farewell_seconds * 5)
            await _cancelled(*self._requests)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, ClientGone):
            self.end()
        elif isinstance(error, Exception):
            self._doors.explain(error)
            self.end(1011, "an error of ours; it is in the server's log")

    # incoming frames

    async def _listen(self) -> None:
        while True:
            message = await self._doors.receive()
            if message["type"] == "websocket.disconnect":
                self.end()
                return
            if self._caller is None and _length(message) > self._limits.first_characters:
                await self._too_long()
                return
            try:
                request = _read(message)
            except RotaError as error:
                await self._refuse(_request_id(message), NO_FRAME, error)
            else:
                await self._heard(request)

    async def _too_long(self) -> None:
        """The sender is still unknown, so the frame is not even parsed."""
        most = self._limits.first_characters
        error = TooLarge(f"a frame before `auth` has at most {most} characters", limit=most)
        await self._refuse(None, NO_FRAME, error)
        self.end(1009, f"more than {most} characters before the token")

    async def _heard(self, request: Request) -> None:
        try:
            if not await self._own(request):
                self._serve(request)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is answered
            await self._refuse(request.request_id, request.type, self._doors.explain(error))
            if isinstance(error, Unauthenticated):
                self.end(1008, error.code)

    async def _own(self, request: Request) -> bool:
        """Carry out a request about the connection itself, in its order. False for any other."""
        match request.type:
            case "auth":
                await self._answer(request, await self._auth(_payload(request)))
            case "ping":
                converted(_payload(request), Ping)
                await self._answer(request, Pong())
            case "subscribe":
                await self._subscribe(request)
            case "unsubscribe":
                await self._answer(request, await self._unsubscribe(_payload(request)))
            case _:
                return False
        return True

    def _serve(self, request: Request) -> None:
        kind = self._types.get(request.type)
        if kind is None:
            known = sorted([*self._types, "auth", "ping", "subscribe", "unsubscribe"])
            raise NotFound(
                f"{request.type!r} is no request type; there are {', '.join(known)}", allowed=known
            )
        if len(self._requests) >= self._limits.requests:
            raise TooManyRequests(
                f"{self._limits.requests} requests of this connection are under way; wait for one"
            )
        self._requests.add(self._start(self._carry_out(request, kind)))

    async def _carry_out(self, request: Request, kind: RequestType) -> None:
        try:
            caller = await self._who()
            call = self._doors.call(caller, self._until_gone, self._headers)
            result = await kind.run(call, _payload(request))
        except Exception as error:  # noqa: BLE001 - as above
            if not self._gone.is_set():
                await self._refuse(request.request_id, request.type, self._doors.explain(error))
            if isinstance(error, Unauthenticated):
                self.end(1008, error.code)
            return
        if not self._gone.is_set():
            await self._answer(request, result)

    async def _until_gone(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    # authentication

    def _demand_caller(self) -> Caller:
        if self._caller is None:
            raise Unauthenticated("this server wants a token: send it in an `auth` frame first")
        return self._caller

    async def _who(self) -> Caller:
        """Checked for each request, as over HTTP: the token may have been revoked meanwhile."""
        self._demand_caller()
        self._caller = await self._doors.admit(self._headers)
        return self._caller

    async def _auth(self, payload: Any) -> Welcome:
        token = converted(payload, Auth).token
        headers = {**self._headers, b"authorization": b"Bearer " + token.encode()}
        self._caller = await self._doors.admit(headers)
        self._headers = headers
        return Welcome(self._caller.name, tuple(sorted(self._caller.scopes)))

    # subscriptions

    async def _subscribe(self, request: Request) -> None:
        asked: Subscribe = converted(_payload(request), Subscribe)
        await self._who()
        if len(self._subscriptions) >= self._limits.subscriptions:
            raise TooManyRequests(
                f"a connection has {self._limits.subscriptions} subscriptions at most"
            )
        self._numbered += 1
        made = Subscription(f"s{self._numbered}", asked, self._say, self._too_slow)

        async def begun(what: Subscribed) -> None:
            await self._answer(request, what)

        async def follow() -> None:
            try:
                await made.run(self._feed, begun)
            except RotaError as error:
                self._subscriptions.pop(made.id, None)
                await self._refuse(request.request_id, request.type, self._doors.explain(error))

        self._subscriptions[made.id] = made, self._start(follow())

    async def _unsubscribe(self, payload: Any) -> Unsubscribed:
        name = converted(payload, Unsubscribe).subscription
        if name not in self._subscriptions:
            raise NotFound(f"this connection has no subscription {name!r}", id=name)
        made, task = self._subscriptions.pop(name)
        await _cancelled(task)
        return Unsubscribed(made.id, made.after)

    def _too_slow(self, subscription: Subscription) -> None:
        hint = subscription.hint
        self.end(1013, f"too slow; subscribe again after {subscription.after}", hint)

    # outgoing frames

    async def _say(self, text: str) -> None:
        try:
            await self._doors.send(_text(text))
        except (OSError, RuntimeError):  # what uvicorn raises then
            raise ClientGone from None

    async def _answer(self, request: Request, result: Any) -> None:
        frame = {
            "request_id": request.request_id, "type": request.type, "ok": True, "result": result,
        }  # fmt: skip
        await self._say(encode(frame).decode())

    async def _refuse(self, request_id: str | int | None, kind: str, error: RotaError) -> None:
        document = problems.document(error)
        failure = {name: value for name, value in document.items() if name not in _HIDDEN}
        frame = {"request_id": request_id, "type": kind, "ok": False, "error": failure}
        await self._say(encode(frame).decode())


def _text(text: str) -> Message:
    return {"type": "websocket.send", "text": text}


def _length(message: Message) -> int:
    return len(message.get("text") or message.get("bytes") or "")


def _read(message: Message) -> Request:
    text = message.get("text")
    if text is None:
        raise BadFrame("a binary frame; requests are text frames of JSON")
    try:
        request = _REQUEST.decode(text)
        strictness.check(text)
    except msgspec.ValidationError as error:
        raise invalid(error, Request, loosely(text)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadFrame(f"the frame is not JSON: {error}") from None
    except RecursionError:
        raise BadFrame("the frame is nested too deeply") from None
    return request


def _request_id(message: Message) -> str | int | None:
    """The id as far as it can be read, so that the client knows which request was wrong."""
    try:
        loose = msgspec.json.decode(message.get("text") or "")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    found = loose.get("request_id") if isinstance(loose, dict) else None
    try:
        given: str | int | None = msgspec.convert(found, RequestId | None)
    except msgspec.ValidationError:
        return None
    return given


def _payload(request: Request) -> Any:
    try:
        payload = msgspec.json.decode(request.payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadFrame(f"the payload is not JSON: {error}") from None
    if payload is None:
        return {}
    if not isinstance(payload, dict):
        raise InvalidInput("payload: has to be an object", field="payload")
    return payload


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
