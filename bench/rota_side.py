"""Everything the benchmark knows of Rota, in one place."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.cell import Cell, Gate, Operation, Place, Tally
from bench.lanes import by_tasks
from bench.server import settle
from rota.app import collect_rarely, open_queue
from rota.model.claims import ClaimRequest, ClaimResult, Completion
from rota.model.status import Verb
from rota.model.work import NewItem
from rota.queue import WorkQueue
from rota.queue.moves import Order

COMMAND = str(Path(sys.executable).with_name("rota"))

_START_SECONDS = 30.0
_LEASE_SECONDS = 60
_FILL_BATCH = 1000
_ACTOR = "bench"

Held = list[tuple[str, str]]  # claimed items: id and token


class Rota:
    name = "rota"
    configuration = (
        "WorkQueue in process, as `rota up` opens it: SQLite in WAL with synchronous=FULL and "
        "group commit, or PostgreSQL with synchronous_commit=on; each lane is an agent of its "
        "own, and completes what it has and claims as many again (lease, token, events) in one "
        "commit, as the client's loop does; uvloop, and the cycle collector as rare as there"
    )

    def check(self, cell: Cell) -> None:
        """Rota offers every cell."""

    def prepare(self, place: Place) -> None:
        uvloop.run(_prepare(place))

    def fill(self, place: Place, items: int) -> None:
        uvloop.run(_fill(place, items))
        if place.url:
            settle(place.url)

    def run(self, place: Place, cell: Cell, gate: Gate) -> Tally:
        collect_rarely()
        return uvloop.run(_run(place, cell, gate))


def database_url(place: Place) -> str:
    return place.url or f"sqlite:///{place.directory / 'rota.db'}"


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[WorkQueue]:
    async with open_queue(database_url(place)) as queue:
        yield queue


async def submit(queue: WorkQueue) -> None:
    await queue.submit(NewItem(type="noop", description="x"), actor=_ACTOR)


async def submit_many(queue: WorkQueue, items: int, labels: tuple[str, ...] = ()) -> None:
    await queue.submit_many(
        [NewItem(type="noop", description="x", labels=labels) for _ in range(items)], actor=_ACTOR
    )


async def fill(queue: WorkQueue, items: int) -> None:
    for start in range(0, items, _FILL_BATCH):
        await submit_many(queue, min(_FILL_BATCH, items - start))


async def claim(
    queue: WorkQueue,
    agent: str,
    limit: int = 1,
    wait_seconds: float = 0,
    labels: tuple[str, ...] = (),
) -> Held:
    request = ClaimRequest(
        agent=agent,
        limit=limit,
        lease_seconds=_LEASE_SECONDS,
        wait_seconds=wait_seconds,
        labels=labels,
    )
    return _held(await queue.claim(request))


async def complete_and_claim(queue: WorkQueue, agent: str, held: tuple[str, str]) -> Held:
    item_id, token = held
    wanted = ClaimRequest(agent=agent, lease_seconds=_LEASE_SECONDS)
    order = Order(Verb.COMPLETE, item_id, agent, token=token, outcome="success", next=wanted)
    return _held((await queue.apply(order)).next or ClaimResult([]))


def _held(result: ClaimResult) -> Held:
    return [(claimed.item.id, claimed.claim.token) for claimed in result.items]


async def complete(queue: WorkQueue, agent: str, held: Held) -> None:
    for item_id, token in held:
        await queue.complete(item_id, token=token, outcome="success", actor=agent)


async def complete_many(queue: WorkQueue, agent: str, held: Held) -> None:
    await queue.complete_many([Completion(*one) for one in held], actor=agent)


async def complete_and_claim_many(queue: WorkQueue, agent: str, held: Held) -> Held:
    """Claim as many again: the last entry requests all of them."""
    wanted = ClaimRequest(agent=agent, limit=len(held), lease_seconds=_LEASE_SECONDS)
    entries = [*(Completion(*one) for one in held[:-1]), Completion(*held[-1], next=wanted)]
    answers = await queue.complete_many(entries, actor=agent)
    return _held(answers[-1].next or ClaimResult([]))


async def allow(queue: WorkQueue, agent: str, slots: int) -> None:
    await queue.set_agent(agent, max_concurrent=slots)


@dataclass(frozen=True)
class Server:
    """A running `rota up`."""

    port: int
    process: subprocess.Popen[bytes]

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def answers(self) -> bool:
        with suppress(OSError):
            return request(self.port, "GET", "/health")[0] == 200
        return False


class ServerFailed(Exception):
    """`rota up` ended or did not answer; the text is the end of its output."""


@contextmanager
def up(place: Place, state: Path) -> Iterator[Server]:
    """`rota up` with its own state directory, until the block ends."""
    port = _free_port()
    surroundings = {
        **os.environ,
        "DATABASE_URL": database_url(place),
        "PORT": str(port),
        "ROTA_STATE_DIR": str(state / ".rota"),
    }
    log = state / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [COMMAND, "up"], cwd=state, env=surroundings, stdout=output, stderr=output
        )
    server = Server(port, process)
    try:
        _wait_until_up(server, log)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_until_up(server: Server, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.answers():
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise ServerFailed(log.read_text(errors="replace")[-1000:])
        time.sleep(0.05)


def request(port: int, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(
            method, path, json.dumps(body), headers={"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def fill_over_http(port: int, items: int) -> None:
    item = {"type": "noop", "description": "x"}
    for start in range(0, items, _FILL_BATCH):
        batch = [item] * min(_FILL_BATCH, items - start)
        status, text = request(port, "POST", "/work/batch", batch)
        if status != 201:
            raise ServerFailed(f"POST /work/batch: {status} {text[:300]!r}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _prepare(place: Place) -> None:
    async with opened(place):
        pass


async def _fill(place: Place, items: int) -> None:
    async with opened(place) as queue:
        await fill(queue, items)


async def _run(place: Place, cell: Cell, gate: Gate) -> Tally:
    async with opened(place) as queue:
        # Rota connects on first use; this opens the connections before the start, as for the peers.
        await queue.claim(ClaimRequest("early", types=("nothing",)))
        turns = [await _turn(queue, cell, lane) for lane in range(cell.concurrency)]
        return await by_tasks(turns, cell, gate)


async def _turn(queue: WorkQueue, cell: Cell, lane: int) -> Callable[[], Awaitable[int]]:
    async def enqueue() -> int:
        await submit(queue)
        return 1

    async def enqueue_batch() -> int:
        await submit_many(queue, cell.batch)
        return cell.batch

    if cell.operation is Operation.ENQUEUE:
        return enqueue if cell.batch == 1 else enqueue_batch
    return await _worker(queue, f"lane-{os.getpid()}-{lane}", cell)


async def _worker(queue: WorkQueue, agent: str, cell: Cell) -> Callable[[], Awaitable[int]]:
    if cell.batch > 1:
        await allow(queue, agent, cell.batch)
    held: Held = []

    async def work() -> int:
        """As the client's loop does it: a completion also claims the next."""
        nonlocal held
        done = held or await claim(queue, agent, cell.batch)
        if not done:
            return 0
        if cell.batch > 1:
            held = await complete_and_claim_many(queue, agent, done)
        else:
            held = await complete_and_claim(queue, agent, done[0])
        return len(done)

    return work
