"""`rota watch` by WebSocket: the feed of a running server, resumed where it broke off."""

import json
import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rota.client._sync.calls import plain_token
from rota.client.errors import error_of
from rota.client.retries import Retries
from rota.client.transport import Answer
from rota.model.errors import RotaError, Unauthenticated

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

Json = dict[str, Any]

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
# A reader that stops early has unread frames, and the server's farewell is queued behind them.
FAREWELL_SECONDS = 0.2
LONGEST_FRAME = 16 * 1024 * 1024
_REFUSED = frozenset({401, 403, 421})  # by our server, and for good
_PASSING = frozenset({429, 503})


class NoFeed(Exception):
    """The server, or something on the way to it, does not support WebSockets."""


class _Broken(Exception):
    said = ""  # by a server that answers, and refuses for now


def follow(
    url: str,
    token: str | None,
    after: int | None,
    wanted: Mapping[str, Any],
    sleep: Callable[[float], object] = time.sleep,
    *,
    tell: Callable[[str], object] = log.info,
) -> Generator[Json, None, None]:
    """Events as they happen, without end; after `after`, or from now on.

    A broken connection is opened again after the last event seen, and `tell` is called.
    """
    attempt, retries = 0, Retries()
    while True:
        told = f"{url} does not answer; trying again until it does"
        try:
            with _connected(url, token) as connection:
                after = _subscribe(connection, after, wanted)
                if attempt:
                    tell(f"{url} answers again")
                attempt = 0
                for event in _events(connection):
                    after = event["seq"]
                    yield event
        except _Broken as error:
            log.info("the event feed broke: %s", error)
            if error.said:
                told = f"{url}: {error.said}; trying again"
        if not attempt:
            tell(told)
        attempt += 1
        sleep(retries.pause(attempt))


@contextmanager
def _connected(url: str, token: str | None) -> "Iterator[ClientConnection]":
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    address = url.rstrip("/").replace("http", "ws", 1) + "/ws"
    headers = {"Authorization": f"Bearer {plain_token(token)}"} if token else {}
    try:
        with connect(
            address,
            additional_headers=headers,
            open_timeout=CONNECT_SECONDS,
            close_timeout=FAREWELL_SECONDS,
            max_size=LONGEST_FRAME,
            compression=None,
            user_agent_header=None,
        ) as connection:
            yield connection
    except InvalidStatus as refused:
        answer = refused.response
        if answer.status_code in _REFUSED:
            raise error_of(Answer(answer.status_code, {}, bytes(answer.body or b""))) from None
        if answer.status_code in _PASSING:
            broken = _Broken(f"status {answer.status_code}")
            told = Answer(answer.status_code, {}, bytes(answer.body or b""))
            broken.said = error_of(told).message
            raise broken from None
        raise NoFeed from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise _Broken(str(error)) from None


def _subscribe(connection: "ClientConnection", after: int | None, wanted: Mapping[str, Any]) -> int:
    payload = {name: value for name, value in wanted.items() if value}
    if after is not None:
        payload["after"] = after
    frame = {"request_id": "watch", "type": "subscribe", "payload": payload}
    connection.send(json.dumps(frame))
    answer = json.loads(connection.recv(timeout=CONNECT_SECONDS))
    if not answer["ok"]:
        error = _told(answer["error"])
        if isinstance(error, Unauthenticated):  # its message is about frames, which no user sends
            raise Unauthenticated("this server wants a token: set ROTA_TOKEN", **error.details)
        raise error
    begun: int = answer["result"]["after"]
    return begun


def _told(failure: Json) -> RotaError:
    return error_of(Answer(failure["status"], {}, json.dumps(failure).encode()))


def _events(connection: "ClientConnection") -> Iterator[Json]:
    for text in connection:
        frame: Json = json.loads(text)
        if "event_id" in frame:
            del frame["subscription"]
            yield frame
