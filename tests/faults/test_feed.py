"""The feed under load and kill -9: every event, once, to everybody who reads; and to those who do
not, nothing that could hurt the others."""

import asyncio
import itertools
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from rota.api.ws_limits import WsLimits
from rota.cli.feed import follow
from rota.client import SyncWorkQueueClient
from rota.testing.served import serve
from tests.faults.processes import Server, eventually
from tests.integration.wired import Wired, wired

Figure = Callable[[str], None]
PING_SECONDS = 40.0  # from the first of a connection until it is given up
SUBSCRIBE = json.dumps({"request_id": "s", "type": "subscribe", "payload": {}})


# many that read


async def test_every_client_hears_every_event(server: Server, figure: Figure) -> None:
    clients, transitions = 200, 300
    ready = asyncio.Barrier(clients + 1)
    tasks = [asyncio.create_task(listener(server.url, ready, transitions)) for _ in range(clients)]
    await ready.wait()
    began = time.monotonic()
    await asyncio.to_thread(move, server.url, transitions)
    heard = await asyncio.gather(*tasks)
    seconds = time.monotonic() - began
    whole = [one["seq"] for one in await asyncio.to_thread(log_of, server.url)]
    gaps = sum(one != whole for one in heard)
    figure(
        f"{clients} clients × {transitions} transitions: {clients * transitions} events in"
        f" {seconds:.1f} s, clients with a gap or a repeat: {gaps}"
    )
    assert gaps == 0


async def listener(url: str, ready: asyncio.Barrier, count: int) -> list[int]:
    address = url.replace("http", "ws", 1) + "/ws"
    async with connect(address, proxy=None, compression=None, open_timeout=60) as connection:
        await connection.send(SUBSCRIBE)
        await connection.recv()
        await ready.wait()
        async with asyncio.timeout(120):
            return [json.loads(await connection.recv())["seq"] for _ in range(count)]


def move(url: str, count: int) -> None:
    with SyncWorkQueueClient(url) as client:
        for _ in range(count // 3):
            item = client.work_add("chore", "x")["id"]
            client.dispatch(item, "smith")
            client.cancel(item)


def log_of(url: str) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    with SyncWorkQueueClient(url) as client:
        while page := client.events(found[-1]["seq"] if found else 0, limit=1_000):
            found += page
    return found


# kill -9


def test_a_reader_of_a_killed_server_goes_on_where_it_was(server: Server, figure: Figure) -> None:
    """By the very loop of `rota watch`: writers go on, the server is killed again and again."""
    items, kills = 200, 4
    written: list[str] = []
    seen: list[int] = []

    def write() -> None:
        with SyncWorkQueueClient(server.url) as client:
            while len(written) < items:
                written.append(client.work_add("chore", f"{len(written)}")["id"])

    def read() -> None:
        for event in follow(server.url, None, 0, {}):
            seen.append(event["seq"])
            if event["type"] == "work.cancelled":
                return

    threads = [threading.Thread(target=one) for one in (_patiently(write), read)]
    for thread in threads:
        thread.start()
    for kill in range(kills):
        eventually(
            lambda kill=kill: min(len(written), len(seen)) > items * kill // (kills + 1),
            "the writer and the reader go on",
        )
        server.kill()
        server.start()
    threads[0].join(120)
    with SyncWorkQueueClient(server.url) as client:
        client.cancel(written[-1])
    threads[1].join(120)
    whole = [one["seq"] for one in log_of(server.url)]
    figure(f"{len(whole)} events × {kills} kills of the server: gap or repeat: {seen != whole}")
    assert seen == whole


def _patiently(write: Callable[[], None]) -> Callable[[], None]:
    """A submission whose answer was lost is tried again by the client; a server that is away for
    longer than it has patience for is asked again here."""

    def run() -> None:
        while True:
            try:
                write()
            except Exception:  # noqa: BLE001 - the server is being killed
                continue
            return

    return run


# those who do not read


@pytest.fixture
def small() -> Iterator[Callable[[str], socket.socket]]:
    """Sockets that take little before somebody reads from them."""
    with ExitStack() as opened:

        def make(url: str) -> socket.socket:
            made = opened.enter_context(socket.socket())
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.connect(("127.0.0.1", int(url.rpartition(":")[2])))
            return made

        yield make


def in_the_log(http: httpx2.Client) -> list[int]:
    """Page by page: large ones have few."""
    found = [0]
    while page := http.get("/events", params={"limit": 1000, "after": found[-1]}).json():
        found += [one["seq"] for one in page]
    return found[1:]


def test_a_reader_that_is_too_slow_is_told_where_to_begin_again(
    tmp_path: Path, small: Callable[[str], socket.socket]
) -> None:
    notes = 150
    limits = WsLimits(farewell_seconds=600)  # longer than it takes until the slow one reads
    with (
        serve(f"sqlite:///{tmp_path}/rota.db", ws=limits) as served,
        httpx2.Client(base_url=served.url) as http,
        wired(served.url, sock=small(served.url), max_queue=1) as slow,
        wired(served.url) as quick,
    ):
        item = http.post("/work", json={"type": "chore", "description": "x"}).json()["id"]
        slow.get("subscribe")
        quick.get("subscribe")
        heard: list[int] = []
        for _ in range(notes):
            http.post(f"/work/{item}/note", json={"notes": "n" * 90_000}).raise_for_status()
            heard.append(quick.events(1)[0]["seq"])
        assert heard == in_the_log(http)[1:]
        told, hint = until_dropped(slow)
        assert 0 < len(told) < notes
        assert hint["after"] == told[-1]
        with wired(served.url) as again:
            again.get("subscribe", after=hint["after"])
            rest = [one["seq"] for one in again.events(notes - len(told))]
        assert told + rest == heard


def test_a_slow_reader_of_the_stream_gets_the_rest_from_the_log(
    tmp_path: Path, small: Callable[[str], socket.socket]
) -> None:
    """Server-sent events have no last word: nobody is dropped, and nothing is kept for him."""
    notes = 150
    with (
        serve(f"sqlite:///{tmp_path}/rota.db") as served,
        httpx2.Client(base_url=served.url) as http,
    ):
        item = http.post("/work", json={"type": "chore", "description": "x"}).json()["id"]
        raw = small(served.url)
        raw.sendall(
            b"GET /events?after=1 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )
        lines = raw.makefile("rb")
        while lines.readline() != b"id: 1\n":
            pass
        for _ in range(notes):
            http.post(f"/work/{item}/note", json={"notes": "n" * 90_000}).raise_for_status()
        seen = [int(line[4:]) for line in _ids(lines, notes)]
        assert seen == in_the_log(http)[1:]
        lines.close()


def _ids(lines: BinaryIO, count: int) -> Iterator[bytes]:
    return itertools.islice((line for line in lines if line.startswith(b"id: ")), count)


def until_dropped(ws: Wired) -> tuple[list[int], dict[str, int]]:
    seqs: list[int] = []
    while "event_id" in (frame := ws.hear()):
        seqs.append(frame["seq"])
    assert frame["type"] == "feed.resync"
    with pytest.raises(ConnectionClosed) as closed:
        ws.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    assert str(frame["payload"]["after"]) in closed.value.rcvd.reason
    return seqs, frame["payload"]


def test_clients_that_do_not_read_cost_little_and_hurt_nobody(
    server: Server, small: Callable[[str], socket.socket], figure: Figure
) -> None:
    clients, notes = 60, 200
    with SyncWorkQueueClient(server.url) as client, ExitStack() as opened:
        item = client.work_add("chore", "x")["id"]
        unanswered_at = time.monotonic() + PING_SECONDS
        for _ in range(clients):
            sock = small(server.url)
            opened.enter_context(wired_forever(server.url, sock)).get("subscribe")
        before, files = memory(server), open_files(server)
        taken = []
        for _ in range(notes):
            began = time.monotonic()
            client.note(item, "n" * 90_000)
            taken.append(time.monotonic() - began)
        grown = memory(server) - before
        slowest = max(taken)
        left = unanswered_at - time.monotonic()  # before they have left a ping unanswered
        eventually(lambda: open_files(server) <= files - clients, "they are cut off", left)
        figure(
            f"{clients} clients that do not read, {notes} events of 90 KB: {grown / 1e6:.0f} MB"
            f" more, the slowest write {slowest * 1e3:.0f} ms"
        )
        # Kept for each of them, the events would be a gigabyte.
        assert grown < 150e6
        assert slowest < 10  # who waited for them would wait for their pings


# many that are only there


class Idle(asyncio.Protocol):
    """A client that says nothing but that it is still there."""

    def __init__(self) -> None:
        self.greeted: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("peername")
        wanted = {
            "Host": f"{host}:{port}", "Connection": "Upgrade", "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }  # fmt: skip
        heads = "".join(f"{name}: {value}\r\n" for name, value in wanted.items())
        transport.write(f"GET /ws HTTP/1.1\r\n{heads}\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.greeted.done():
            self.greeted.set_result(data[:12])
        elif data[:1] == b"\x89":  # a ping; what answers it is masked, here by nothing
            said = data[2 : 2 + data[1]]
            self._transport.write(bytes([0x8A, 0x80 | len(said)]) + bytes(4) + said)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_gone = True

    def close(self) -> None:
        self._transport.abort()


@pytest.mark.parametrize("clients", [300, pytest.param(10_000, marks=pytest.mark.long)])
async def test_clients_that_are_only_there_cost_little_and_hurt_nobody(
    server: Server, figure: Figure, clients: int
) -> None:
    # Some files are the server's own, and it keeps a quarter for other things than clients.
    clients = min(clients, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4 - 100)
    loop, port = asyncio.get_running_loop(), int(server.url.rpartition(":")[2])
    for _ in range(2):  # the first ones meet a server that has just begun
        alone = await asyncio.to_thread(slowest_of_a_hundred, server.url)
    before, idle = memory(server), list[Idle]()
    try:
        for _ in range(clients):
            idle.append((await loop.create_connection(Idle, "127.0.0.1", port))[1])
            assert await idle[-1].greeted == b"HTTP/1.1 101"
        beside = await asyncio.to_thread(slowest_of_a_hundred, server.url)
        grown = memory(server) - before
        assert not any(one.is_gone for one in idle)
    finally:
        for one in idle:
            one.close()
    figure(
        f"{clients} clients that are only there: {grown / clients / 1e3:.0f} KB each, the slowest"
        f" of a hundred writes takes {beside / alone:.1f} times as long as without them"
    )
    assert grown < clients * 100e3
    assert beside < 1


def slowest_of_a_hundred(url: str) -> float:
    taken = []
    with SyncWorkQueueClient(url) as client:
        for number in range(100):
            began = time.monotonic()
            client.work_add("chore", f"item {number}")
            taken.append(time.monotonic() - began)
    return max(taken)


def wired_forever(url: str, sock: socket.socket) -> ExitStack:
    """Left without a word: whoever does not read does not say goodbye."""
    from contextlib import contextmanager

    @contextmanager
    def opened() -> Iterator[Wired]:
        context = wired(url, sock=sock, max_queue=1, close_timeout=0, ping_interval=None)
        ws = context.__enter__()
        try:
            yield ws
        finally:
            sock.close()

    return opened()


def memory(server: Server) -> int:
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError("VmRSS")


def open_files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
