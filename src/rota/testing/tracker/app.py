"""The stub as an ASGI application: on a port of its own, or inside a test."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

import msgspec

from rota.testing.tracker import controls, orders
from rota.testing.tracker.faults import AFTER, CUTS, HANGS, Fault, FaultKind, Plan
from rota.testing.tracker.http import Answer, Rejection, Request
from rota.testing.tracker.world import World

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Under this name the server passes a function that cuts the connection, which ASGI lacks.
CUT = "rota.cut"


class _Unanswered(Exception):
    """The connection ends without an answer."""


class TrackerApp:
    def __init__(self, seed: int | str = 0) -> None:
        self.world = World.new(seed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the stub speaks HTTP only"
        request = Request.of(scope, await _body(receive))
        try:
            answer = await self._answer(request, receive)
        except _Unanswered:
            await _cut(scope, receive)
        else:
            await self._send(answer, send)

    async def _answer(self, request: Request, receive: Receive) -> Answer:
        if request.segments[:2] == ["_control", "reset"]:
            return self._reset(request)
        if request.segments[0] == "_control":
            return await controls.answer(self.world, request)
        return await self._serve(request, receive)

    def _reset(self, request: Request) -> Answer:
        """Start over: nothing stored, the machine's time, and a new seed."""
        try:
            order = msgspec.json.decode(request.body or b"{}", type=orders.Reset)
        except msgspec.DecodeError as error:
            return Answer(422, {"message": str(error)})
        self.world = World.new(order.seed)
        return Answer(content={"seed": order.seed})

    async def _serve(self, request: Request, receive: Receive) -> Answer:
        world = self.world
        world.recognise(request)
        plan = world.faults.plan(request.method, request.path, world.clock.steady())
        entry = world.journal.open(request, world.dialect(request).name, plan.struck)
        if plan.delay:
            await asyncio.sleep(plan.delay)
        answer = await _end(world, request, plan, receive)
        entry.status = answer.status
        return answer

    async def _send(self, answer: Answer, send: Send) -> None:
        body = answer.body()
        headers = {"date": self.world.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if body:
            headers |= {"content-type": answer.media_type}
        if answer.status not in (204, 304):
            headers |= {"content-length": str(len(body))}
        pairs = [
            (name.encode(), text.encode()) for name, text in (headers | answer.headers).items()
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})


async def _end(world: World, request: Request, plan: Plan, receive: Receive) -> Answer:
    """Apply the request, or not, and answer it as the plan says."""
    fault = plan.ending
    if fault is None:
        return world.apply(request, plan)
    if fault.kind in AFTER:
        world.apply(request, plan)
    if fault.kind in HANGS:
        await _hang(receive, fault.seconds)
    if fault.kind in HANGS | CUTS:
        raise _Unanswered
    return _faulty(world, request, fault)


def _faulty(world: World, request: Request, fault: Fault) -> Answer:
    dialect = world.dialect(request)
    if fault.kind in (FaultKind.ERROR_BEFORE, FaultKind.ERROR_AFTER) and fault.status != 500:
        # A proxy's answer, which is not JSON.
        return dialect.signed(Answer(fault.status, "<html><h1>Unicorn!</h1></html>"), request)
    return dialect.signed(dialect.refuse(_refusal(world, fault), request), request)


def _refusal(world: World, fault: Fault) -> Rejection:
    wait = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    match fault.kind:
        case FaultKind.SECONDARY_LIMIT:
            message = "You have exceeded a secondary rate limit. Please wait a few minutes."
            return Rejection(403, message, headers=wait)
        case FaultKind.RATE_LIMIT:
            reset = world.clock.seconds() + int(60 if fault.seconds is None else fault.seconds)
            spent = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(reset)}
            return Rejection(403, "API rate limit exceeded for user ID 1.", headers=spent)
        case FaultKind.TOO_MANY:
            return Rejection(429, "Too many requests", headers=wait or {"retry-after": "1"})
        case _:
            return Rejection(fault.status, "Server Error")


async def _hang(receive: Receive, seconds: float | None) -> None:
    """Until the client disconnects, or `seconds` have passed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass


async def _cut(scope: Scope, receive: Receive) -> None:
    cut = scope.get("extensions", {}).get(CUT)
    if cut is None:
        raise ConnectionResetError("the stub has cut the connection")
    cut()
    await _hang(receive, None)  # returning earlier would be reported as a missing answer


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
