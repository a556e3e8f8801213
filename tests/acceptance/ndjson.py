"""What schemathesis does not know by itself; see test_openapi.py."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context: object, value: object) -> bytes:
    return str(value).encode("utf-8", "replace")
