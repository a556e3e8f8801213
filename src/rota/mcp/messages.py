"""Explains what is wrong with a JSON-RPC message, for the author of its client.

The SDK takes a request with an invalid id for a notification, which nobody answers, and describes
other mistakes by its own classes.
"""

from typing import Any

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602

NO_OBJECT = "a message has to be an object with jsonrpc and method"
NO_REQUEST = 'a request needs "jsonrpc": "2.0" and a method'
NO_ID = "a request needs an id: a text or a whole number"
NO_BATCH = "one message at a time: MCP has no batches"
NO_PARAMS = "params has to be an object"
_TOLD = "notifications/"  # methods without an answer


def flaw(message: Any) -> tuple[int, str] | None:
    """None if the message can be passed to the SDK."""
    if not isinstance(message, dict):
        return INVALID_REQUEST, NO_BATCH if isinstance(message, list) else NO_OBJECT
    if "method" not in message and ("result" in message or "error" in message):
        return None  # an answer to one of our requests
    method = message.get("method")
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
        return INVALID_REQUEST, NO_REQUEST
    if known_id(message) is None and ("id" in message or wants_answer(method)):
        return INVALID_REQUEST, NO_ID
    if not isinstance(message.get("params", {}), dict | None):
        return INVALID_PARAMS, NO_PARAMS
    return None


def wants_answer(method: str) -> bool:
    return not method.startswith(_TOLD)


def known_id(message: Any) -> int | str | None:
    """The id of a message, if an answer can name it."""
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None
