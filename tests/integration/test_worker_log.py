"""The log of a worker's run on its way to the server, and from there to who follows it."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rota.api import runs
from rota.client import SyncWorkQueueClient, WorkQueueClient
from rota.client.errors import ConnectionFailed
from rota.client.retries import Retries
from rota.client.shipping import LONGEST_LINE, PIECE, LogShipping
from rota.client.transport import Answer, Request, SyncTransport
from rota.model.errors import NotFound
from rota.model.runs import RunEnd, RunStatus
from rota.model.schedules import TriggerKind
from rota.testing.served import Served

Json = dict[str, Any]


@pytest.fixture
async def run(client: WorkQueueClient) -> str:
    await client.work_add("chore", "Mend the gate")
    [item] = await client.claim("ann")
    begun = await client.begin_run("ann", item["id"], item["claim"]["token"], node="box")
    return str(begun["id"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "here.jsonl"


def line(text: str) -> str:
    return json.dumps({"ts": "2026-05-01T12:00:00Z", "text": text}) + "\n"


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def arrived(client: WorkQueueClient, run: str) -> list[str]:
    return [one["text"] async for one in client.read_log(run)]


async def test_whole_lines_are_sent_and_half_ones_wait(
    client: WorkQueueClient, run: str, path: Path
) -> None:
    shipping = LogShipping(client, run, path)
    assert not await shipping.step(), "there is no file yet"
    add(path, line("one") + line("two")[:10])
    assert await shipping.step()
    assert not await shipping.step()
    assert await arrived(client, run) == ["one"]
    add(path, line("two")[10:])
    assert await shipping.finish()
    assert await arrived(client, run) == ["one", "two"]


async def test_a_long_log_goes_in_pieces(client: WorkQueueClient, run: str, path: Path) -> None:
    texts = [f"{number} {'x' * 10_000}" for number in range(2 * PIECE // 10_000)]
    add(path, "".join(map(line, texts)))
    assert await LogShipping(client, run, path).finish()
    assert await arrived(client, run) == texts


async def test_a_line_that_is_too_long_is_left_out_and_said_to_be(
    client: WorkQueueClient, run: str, path: Path
) -> None:
    large = line("y" * (PIECE + 10))
    add(path, line("one") + large + line("x" * LONGEST_LINE) + line("three"))
    assert await LogShipping(client, run, path).finish()
    first, whole, left_out, last = await arrived(client, run)
    assert (first, whole, last) == ("one", "y" * (PIECE + 10), "three")
    assert "was left out" in left_out


async def test_a_log_that_nobody_wants_any_more_is_not_sent(
    client: WorkQueueClient, run: str, path: Path
) -> None:
    shipping = LogShipping(client, run, path)
    add(path, line("one"))
    await shipping.step()
    await client.end_run(run, {"status": "lost"})
    add(path, line("two"))
    assert not await shipping.finish()
    await asyncio.wait_for(shipping.follow(), 30)
    assert await arrived(client, run) == ["one"]


async def test_a_log_that_is_full_stays_as_it_is(
    client: WorkQueueClient, run: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LARGEST_LOG", len(line("one")) + 5)
    add(path, line("one") + line("two"))
    assert not await LogShipping(client, run, path).finish()
    assert await arrived(client, run) == ["one"]


async def test_what_was_sent_without_an_answer_is_not_there_twice(
    client: WorkQueueClient, run: str, path: Path
) -> None:
    add(path, line("one") + line("two"))
    await LogShipping(client, run, path).step()  # and nobody heard the answer
    assert await LogShipping(client, run, path).finish()
    assert await arrived(client, run) == ["one", "two"]


# following it


async def test_a_log_is_followed_line_by_line_to_the_end(
    client: WorkQueueClient, run: str, path: Path
) -> None:
    shipping = LogShipping(client, run, path)
    add(path, line("one"))
    beside = asyncio.ensure_future(shipping.follow())
    heard = client.read_log(run, follow=True)
    assert (await anext(heard))["text"] == "one"
    add(path, line("two"))
    assert (await anext(heard))["text"] == "two"
    beside.cancel()
    await client.end_run(run, {"status": "succeeded"})
    assert [one async for one in heard] == []


def test_the_sync_client_reads_logs_too(served: Served) -> None:
    run = served.run(lambda: served.ledger.runs.begin("ann", TriggerKind.MANUAL))
    log = served.ledger.runs.log(run.id)
    log.parent.mkdir()
    log.write_text(line("one") + line("two"))
    served.run(lambda: served.ledger.runs.end(run, RunEnd(RunStatus.SUCCEEDED)))
    with SyncWorkQueueClient(served.url) as client:
        assert [one["text"] for one in client.read_log(run.id, follow=True)] == ["one", "two"]
        rest = client.read_log(run.id, offset=len(line("one")))
        assert [one["text"] for one in rest] == ["two"]
        with pytest.raises(NotFound):
            list(client.read_log("none-such"))


class Scripted:
    """A way to a server that answers by a script: a log in pieces, a run, or not at all."""

    def __init__(self, *answers: str | Json | None) -> None:
        self._answers = iter(answers)

    def open(self, request: Request) -> "Piece":
        log = self._answer()
        assert isinstance(log, str), request
        return Piece([log.encode()])

    def send(self, request: Request) -> Answer:
        return Answer(200, {}, json.dumps(self._answer()).encode())

    def _answer(self) -> str | Json:
        answer = next(self._answers)
        if answer is None:
            raise ConnectionFailed("nobody is there", sent=False)
        return answer

    def close(self) -> None:
        pass

    def beside(self) -> SyncTransport:
        return self


@dataclass
class Piece:
    chunks: list[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.chunks)

    def close(self) -> None:
        pass


def test_who_follows_a_log_hears_of_a_server_that_is_away_and_of_a_run_that_is_lost() -> None:
    away = [None] * 20
    going = {"status": "running"}
    lost = {"status": "lost", "error": "its server died", "ended_at": "2026-05-01T12:00:09Z"}
    script = Scripted(line("one"), *away, line("two"), going, *away, "", lost)
    said: list[str] = []
    with SyncWorkQueueClient(transport=script, retries=Retries(base_seconds=0)) as client:
        one, two, last = client.read_log("r", follow=True, tell=said.append)
    assert [one["text"], two["text"]] == ["one", "two"]
    assert last == {
        "ts": "2026-05-01T12:00:09Z",
        "stream": "rota",
        "text": "the run is lost: its server died",
        "gone": True,
    }
    gone = "the server does not answer; trying again until it does"
    assert said == [gone, "the server answers again"] * 2
