"""A load generator that costs less than the server it drives.

It uses raw sockets, with one request in flight per connection and requests built beforehand. It
runs as its own process:

    python -m bench.http_load PORT health|submit|work|going_on CONNECTIONS SECONDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import cast

import msgspec
import uvloop

from bench.lanes import cpu_seconds

_PATIENCE = 30.0  # seconds beyond the run's own, for the last answers

Answer = tuple[int, bytes]  # status and body
Script = Generator[bytes, Answer, None]  # yields requests, is sent answers, returns when done


@dataclass
class Score:
    """What all connections of a run have done together."""

    deadline: float
    latencies: list[float] = field(default_factory=list)
    errors: int = 0
    first_error: str = ""

    def running(self) -> bool:
        return time.perf_counter() < self.deadline

    def record(self, started: float, answer: Answer) -> None:
        if answer[0] < 400:
            self.latencies.append(time.perf_counter() - started)
            return
        self.errors += 1
        self.first_error = self.first_error or f"{answer[0]} {answer[1][:200]!r}"


class _Token(msgspec.Struct):
    token: str


class _Claimed(msgspec.Struct):
    id: str
    claim: _Token


class _Completed(msgspec.Struct):
    next: list[_Claimed]


_CLAIMED = msgspec.json.Decoder(list[_Claimed])
_COMPLETED = msgspec.json.Decoder(_Completed)


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _repeated(request: bytes, score: Score) -> Script:
    while score.running():
        started = time.perf_counter()
        answer = yield request
        score.record(started, answer)


def health(score: Score, number: int) -> Script:
    return _repeated(_request("GET", "/health"), score)


def submit(score: Score, number: int) -> Script:
    body = b'{"type":"noop","description":"x"}'
    return _repeated(_request("POST", "/work", body), score)


def work(score: Score, number: int) -> Script:
    """One turn is a claim and its completion; each connection is its own agent."""
    claim = _request("POST", "/work/claim", _wanted(number))
    while score.running():
        started = time.perf_counter()
        answer = yield claim
        if answer[0] >= 400:
            score.record(started, answer)
            continue
        held = _CLAIMED.decode(answer[1])
        if not held:
            return
        answer = yield _completion(held[0])
        score.record(started, answer)


def going_on(score: Score, number: int) -> Script:
    """As the client's loop does it: one turn is a completion that also claims the next item."""
    wanted = _wanted(number)
    answer = yield _request("POST", "/work/claim", wanted)
    held = _CLAIMED.decode(answer[1])
    while held and score.running():
        started = time.perf_counter()
        answer = yield _completion(held[0], b',"next":' + wanted)
        score.record(started, answer)
        held = _COMPLETED.decode(answer[1]).next if answer[0] < 400 else []


def _wanted(number: int) -> bytes:
    return json.dumps({"agent": f"lane-{number}", "limit": 1, "lease_seconds": 60}).encode()


def _completion(held: _Claimed, more: bytes = b"") -> bytes:
    body = f'{{"token":"{held.claim.token}","outcome":"success"'.encode() + more + b"}"
    return _request("POST", f"/work/{held.id}/complete", body)


SCRIPTS: dict[str, Callable[[Score, int], Script]] = {
    "health": health,
    "submit": submit,
    "work": work,
    "going_on": going_on,
}


class Connection(asyncio.Protocol):
    """Plays one script: sends what it yields, and passes back the answers."""

    def __init__(self, script: Script, ended: asyncio.Future[None]) -> None:
        self._script = script
        self._ended = ended
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(next(self._script))

    def data_received(self, data: bytes) -> None:
        self._received += data
        answer = self._whole_answer()
        if answer is None:
            return
        try:
            self._transport.write(self._script.send(answer))
        except StopIteration:
            self._end(None)
        except Exception as error:  # noqa: BLE001 - the future raises it
            self._end(error)

    def connection_lost(self, reason: Exception | None) -> None:
        self._end(reason or ConnectionResetError("the server closed a connection"))

    def _end(self, error: Exception | None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
        self._transport.close()

    def _whole_answer(self) -> Answer | None:
        """With one request in flight, the received bytes are one answer or a part of it."""
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < _content_length(head):
            return None
        self._received = b""
        return int(head[9:12]), body


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0] or 0)


async def load(port: int, script: str, connections: int, seconds: float) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    cpu = cpu_seconds()
    started = time.perf_counter()
    score = Score(started + seconds)
    ends = []
    for number in range(connections):
        ended = loop.create_future()
        playing = SCRIPTS[script](score, number)
        await loop.create_connection(_player(playing, ended), "127.0.0.1", port)
        ends.append(ended)
    await asyncio.wait_for(asyncio.gather(*ends), seconds + _PATIENCE)
    elapsed = time.perf_counter() - started
    return _summary(score, elapsed, cpu_seconds() - cpu)


def _player(script: Script, ended: asyncio.Future[None]) -> Callable[[], Connection]:
    return lambda: Connection(script, ended)


def _summary(score: Score, elapsed: float, cpu: float) -> dict[str, object]:
    taken = sorted(score.latencies) or [0.0]
    return {
        "turns": len(score.latencies),
        "seconds": round(elapsed, 3),
        "rate": round(len(score.latencies) / elapsed, 1),
        "p50_ms": round(taken[len(taken) // 2] * 1e3, 3),
        "p99_ms": round(taken[int(len(taken) * 0.99)] * 1e3, 3),
        "errors": score.errors,
        "first_error": score.first_error,
        "generator_cpu": round(cpu / elapsed, 2),  # near 1, the generator was the limit
    }


def main() -> None:
    port, script, connections, seconds = sys.argv[1:5]
    summary = uvloop.run(load(int(port), script, int(connections), float(seconds)))
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
