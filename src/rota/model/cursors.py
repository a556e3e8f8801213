"""Where a page of a list begins, as a text. Encoded, so that clients do not rely on its form."""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any


def pack(parts: Iterable[object]) -> str:
    text = json.dumps(list(parts), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unpack(cursor: str) -> Any:
    """None if it cannot be read. It comes from a client, so it may contain anything."""
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        return json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, UnicodeError, RecursionError):
        return None
