"""A simple WebSocket client: sends requests, and keeps the events that arrive meanwhile."""

import itertools
import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

Json = dict[str, Any]
SECONDS = 30.0


class Wired:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.heard: list[Json] = []  # every frame, in order
        self.said: list[Json] = []
        self._numbers = itertools.count(1)
        self._told: deque[Json] = deque()

    def ask(self, kind: str, /, **payload: Any) -> Json:
        """The answer, or the refusal."""
        request = {"request_id": f"r{next(self._numbers)}", "type": kind, "payload": payload}
        self.said.append(request)
        return self.say(json.dumps(request), request["request_id"])

    def say(self, text: str | bytes, request_id: str | None) -> Json:
        self.connection.send(text)
        return self.answer(request_id)

    def answer(self, request_id: str | None) -> Json:
        while "ok" not in (frame := self.hear()) or frame["request_id"] != request_id:
            self._told.append(frame)
        return frame

    def get(self, kind: str, /, **payload: Any) -> Any:
        answer = self.ask(kind, **payload)
        assert answer["ok"], answer
        return answer["result"]

    def refused(self, kind: str, /, **payload: Any) -> tuple[str, int]:
        answer = self.ask(kind, **payload)
        assert not answer["ok"], answer
        return answer["error"]["code"], answer["error"]["status"]

    def hear(self) -> Json:
        frame: Json = json.loads(self.connection.recv(timeout=SECONDS))
        self.heard.append(frame)
        return frame

    def events(self, count: int) -> list[Json]:
        return [self._told.popleft() if self._told else self.hear() for _ in range(count)]

    def has_heard_nothing_more(self) -> bool:
        """Whatever was under way arrives before the answer to a ping."""
        self.get("ping")
        return not self._told


@contextmanager
def wired(
    url: str, headers: dict[str, str] | None = None, *, path: str = "/ws", **options: Any
) -> Iterator[Wired]:
    address = url.replace("http", "ws", 1) + path
    # No limit on unread frames: a client that has stopped reading would not receive the answer to
    # its farewell, and would wait ten seconds for it.
    settings = {
        "proxy": None, "compression": None, "open_timeout": SECONDS, "max_queue": None, **options,
    }  # fmt: skip
    with connect(address, additional_headers=headers, **settings) as connection:
        yield Wired(connection)
