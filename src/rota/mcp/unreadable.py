"""Answers lines that are not messages. The SDK only logs them, and the client would wait."""

from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification
from pydantic import ValidationError

from rota.mcp import messages
from rota.mcp.messages import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR


class Answering:
    """Passes on what can be read, and answers what cannot."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write

    @property
    def last_context(self) -> Any:
        return self._read.last_context

    async def receive(self) -> SessionMessage:
        while True:
            item: SessionMessage | Exception = await self._read.receive()
            answer = refusal(item) if isinstance(item, Exception) else _without_id(item)
            if answer is None and isinstance(item, SessionMessage):
                return item
            if answer is not None:
                await self._write.send(SessionMessage(answer))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._read.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _without_id(item: SessionMessage) -> JSONRPCError | None:
    """A request with an invalid id, which the SDK takes for a notification."""
    message = item.message
    if isinstance(message, JSONRPCNotification) and messages.wants_answer(message.method):
        return _error(INVALID_REQUEST, messages.NO_ID)
    return None


def refusal(error: Exception) -> JSONRPCError | None:
    """None for lines that need no answer: an empty line, or an answer to one of our requests."""
    found = error.errors() if isinstance(error, ValidationError) else []
    unread = next((one["input"] for one in found if one["type"] == "json_invalid"), None)
    if unread is not None:
        return _error(PARSE_ERROR, "this line is not JSON") if str(unread).strip() else None
    # Where a field is missing, the error holds the whole message.
    asked = next((one["input"] for one in found if one["type"] == "missing"), None)
    if not isinstance(asked, dict):
        return _error(INVALID_REQUEST, messages.NO_OBJECT)
    if "method" not in asked and ("result" in asked or "error" in asked):
        return None
    known = messages.known_id(asked)
    if asked.get("jsonrpc") == "2.0" and isinstance(asked.get("method"), str):
        return _error(INVALID_PARAMS, messages.NO_PARAMS, known)
    return _error(INVALID_REQUEST, messages.NO_REQUEST, known)


def _error(code: int, message: str, number: int | str | None = None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))
