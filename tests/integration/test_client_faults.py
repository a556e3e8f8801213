"""What the client does when answers do not come: safe requests are repeated, others are not."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rota.api import ApiSettings
from rota.client import ConnectionFailed, Retries, ServerFailed, SyncWorkQueueClient
from rota.client import WorkQueueClient as AsyncClient
from rota.client.errors import ServerUnavailable
from rota.client.plain import PlainTransport
from rota.client.sse import Parser
from rota.client.transport import Answer, Request
from rota.model.errors import InvalidInput, RotaError, StorageUnavailable, Unauthenticated
from rota.testing.served import Served, serve

QUICK = Retries(attempts=4, base_seconds=0.001, cap_seconds=0.002)


@dataclass
class Faulty:
    """A server that does with each request what the script says next."""

    script: list[str]
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


def _handler(faulty: Faulty) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            faulty.seen.append((self.command, self.path, headers, body))
            act = faulty.script.pop(0) if faulty.script else "ok"
            if act == "cut":
                self.close_connection = True
                self.connection.close()
                return
            status, text = {
                "ok": (200, json.dumps([] if self.command == "GET" else {"id": "x"})),
                "503": (503, json.dumps({"code": "storage_unavailable", "detail": "locked"})),
                "502": (502, "<html>bad gateway</html>"),
                "500": (500, json.dumps({"code": "internal", "detail": "ours"})),
                "302": (302, ""),
                "html": (200, "<html>hello</html>"),
                "list": (200, "[]"),
            }[act]
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            if act == "302":
                self.send_header("location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PATCH = _do  # noqa: N815 - the names http.server looks for

    return Handler


@pytest.fixture
def faulty() -> Iterator[Callable[..., Faulty]]:
    servers = []

    def start(*script: str) -> Faulty:
        made = Faulty(list(script))
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return made

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def client_of(faulty: Faulty) -> SyncWorkQueueClient:
    return SyncWorkQueueClient(faulty.url, retries=QUICK)


@pytest.mark.parametrize("fault", ["cut", "503", "502"])
def test_reads_are_repeated(faulty: Callable[..., Faulty], fault: str) -> None:
    server = faulty(fault, fault)
    with client_of(server) as client:
        assert client.work_list() == []
    assert len(server.seen) == 3


@pytest.mark.parametrize("fault", ["cut", "503", "502"])
async def test_reads_are_repeated_on_asyncio(faulty: Callable[..., Faulty], fault: str) -> None:
    server = faulty(fault, fault)
    async with AsyncClient(server.url, retries=QUICK) as client:
        assert await client.work_list() == []
    assert len(server.seen) == 3


def test_submissions_are_repeated_with_the_same_key(faulty: Callable[..., Faulty]) -> None:
    server = faulty("cut", "503")
    with client_of(server) as client:
        client.work_add("chore", "Once")
        client.work_add("chore", "Another")
    keys = [headers["idempotency-key"] for _, _, headers, _ in server.seen]
    assert len(keys) == 4
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_a_holders_verbs_are_repeated_because_the_token_makes_them_safe(
    faulty: Callable[..., Faulty],
) -> None:
    server = faulty("cut", "cut")
    with client_of(server) as client:
        client.complete("x", "token")
    assert len(server.seen) == 3


@pytest.mark.parametrize("fault", ["cut", "503"])
def test_other_writes_are_unknown_and_not_repeated(
    faulty: Callable[..., Faulty], fault: str
) -> None:
    server = faulty(fault)
    with client_of(server) as client:
        with pytest.raises((ConnectionFailed, StorageUnavailable)) as failed:
            client.work_update("x", "completed", "success")
        assert len(server.seen) == 1
        if isinstance(failed.value, ConnectionFailed):
            assert failed.value.sent
            assert "not known" in failed.value.message
        server.script.append("cut")
        with pytest.raises(ConnectionFailed):
            client.claim("ann")
    assert len(server.seen) == 2


def test_a_server_that_takes_no_connection_is_not_waited_for_longer_than_for_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as after:
        for _ in range(4):  # more than it keeps: the next hears nothing at all
            waiting = after.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        transport = PlainTransport(f"http://127.0.0.1:{full.getsockname()[1]}")
        with pytest.raises(ConnectionFailed, match=r"no connection within 0\.1 s") as failed:
            transport.send(Request("GET", "/", {}, timeout=0.1))
        assert not failed.value.sent


def test_there_is_an_end_to_repeating(faulty: Callable[..., Faulty]) -> None:
    server = faulty(*["cut"] * 10)
    with client_of(server) as client, pytest.raises(ConnectionFailed):
        client.work_list()
    assert len(server.seen) == QUICK.attempts


def test_a_request_that_never_left_is_repeated_whatever_it_is(
    monkeypatch: pytest.MonkeyPatch, faulty: Callable[..., Faulty]
) -> None:
    server = faulty()
    tries = []
    real = PlainTransport.send

    def unreachable_twice(self: PlainTransport, request: Request) -> Answer:
        tries.append(request.method)
        if len(tries) < 3:
            raise ConnectionFailed("refused", sent=False)
        return real(self, request)

    monkeypatch.setattr(PlainTransport, "send", unreachable_twice)
    with client_of(server) as client:
        client.work_update("x", "completed", "success")
    assert tries == ["PATCH"] * 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("500", ServerFailed),
        ("302", ServerFailed),
        ("html", ServerFailed),
        ("list", ServerFailed),
    ],
)
def test_what_is_no_answer_of_ours_is_an_error_that_says_so(
    faulty: Callable[..., Faulty], answer: str, error: type[RotaError]
) -> None:
    server = faulty(answer)
    with client_of(server) as client, pytest.raises(error):
        client.health() if answer != "html" else client.work_list()
    assert len(server.seen) == 1


def test_a_proxys_error_page_does_not_hide_its_status(faulty: Callable[..., Faulty]) -> None:
    with client_of(faulty("502")) as client, pytest.raises(ServerUnavailable) as failed:
        client.create_project("Whatever")
    assert failed.value.details["http_status"] == 502


def test_a_connection_that_the_server_closed_meanwhile_is_not_written_to() -> None:
    """Else a write would be lost on it in a way that leaves open whether it was carried out."""
    answers = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        accepted: list[socket.socket] = []
        closed = threading.Event()

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                accepted.append(connection)
                connection.recv(65_536)
                connection.sendall(answers)
                connection.close()
                closed.set()

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with SyncWorkQueueClient(url, retries=QUICK) as client:
            client.work_update("x", "completed")
            assert closed.wait(30)
            client.work_update("x", "completed")  # would raise ConnectionFailed on the old one
        thread.join(30)
    assert len(accepted) == 2


def test_an_answer_that_never_comes_ends_with_the_time() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = SyncWorkQueueClient(url, timeout=0.05, retries=Retries(attempts=1))
        with client, pytest.raises(ConnectionFailed, match=r"no answer within 0\.05 s"):
            client.work_list()


async def test_an_answer_that_never_comes_ends_with_the_time_on_asyncio() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with AsyncClient(url, timeout=0.05, retries=Retries(attempts=1)) as client:
            with pytest.raises(ConnectionFailed, match=r"no answer within 0\.05 s"):
                await client.work_list()
    async with AsyncClient(url, retries=Retries(attempts=1)) as client:
        with pytest.raises(ConnectionFailed) as failed:
            await client.work_list()
        assert not failed.value.sent


class _LosesAnswers(PlainTransport):
    """Carries the request out, and loses every second answer."""

    lost = 0

    def send(self, request: Request) -> Answer:
        answer = super().send(request)
        self.lost += 1
        if self.lost % 2:
            raise ConnectionFailed("the answer was lost", sent=True)
        return answer


def test_lost_answers_neither_double_an_item_nor_undo_a_completion(served: Served) -> None:
    transport = _LosesAnswers(served.url)
    with SyncWorkQueueClient(transport=transport, retries=QUICK) as client:
        item = client.work_add("chore", "Exactly once")
        with SyncWorkQueueClient(served.url) as agent:
            [claimed] = agent.claim("ann")
        done = client.complete(item["id"], claimed["claim"]["token"], notes="done")
        assert done["status"] == "completed"
        assert [one["id"] for one in client.work_list()] == [item["id"]]
        detail = client.work_get(item["id"])
    assert detail["late_results"] == []
    assert [one["type"] for one in detail["events"]].count("work.completed") == 1


def test_who_brings_too_many_wrong_tokens_is_told_so_at_once(database: str) -> None:
    with serve(database, ApiSettings(auth_failures=1)) as served:
        served.run(lambda: served.ledger.tokens.create("boss", ("admin",)))
        with SyncWorkQueueClient(served.url, "rota_wrong", retries=QUICK) as client:
            with pytest.raises(Unauthenticated, match="rota token create"):
                client.work_list()
            with pytest.raises(ServerUnavailable, match=r"wait \d+ s, and bring a right one"):
                client.work_list()  # else it would wait for the rest of the minute


# pauses between attempts


def test_pauses_grow_are_capped_and_obey_the_server() -> None:
    retries = Retries(base_seconds=1.0, cap_seconds=5.0)
    for attempt, longest in ((0, 1), (1, 2), (2, 4), (3, 5), (100, 5)):
        for _ in range(50):
            assert longest / 2 <= retries.pause(attempt) <= longest
    asked = StorageUnavailable("wait", retry_after="7")
    assert 7 <= retries.pause(0, asked) <= 8
    for nonsense in ("Wed, 21 Oct 2026 07:28:00 GMT", "nan", "-5", None):
        assert retries.pause(0, StorageUnavailable("wait", retry_after=nonsense)) <= 1
    assert retries.pause(0, StorageUnavailable("wait", retry_after="1e9")) <= 31


def test_only_what_passes_is_tried_again() -> None:
    retries = Retries(attempts=3)
    assert retries.again(1, StorageUnavailable("locked"), repeatable=True)
    assert not retries.again(3, StorageUnavailable("locked"), repeatable=True)
    assert not retries.again(1, StorageUnavailable("locked"), repeatable=False)
    assert not retries.again(1, InvalidInput("no"), repeatable=True)
    assert retries.again(1, ConnectionFailed("refused", sent=False), repeatable=False)


# server-sent events


def test_events_are_read_however_they_are_cut() -> None:
    text = (
        b': hi\nretry: 1\nid: 4\n\nid: 5\nevent: x\ndata: {"a":\ndata: 1}\r\n\r\ndata: 2\n\nid: 9\n'
    )
    for size in range(1, len(text)):
        parser = Parser()
        found = []
        for start in range(0, len(text), size):
            found += [(data, parser.last_id) for data in parser.feed(text[start : start + size])]
        assert found == [('{"a":\n1}', "5"), ("2", "5")]
        assert parser.last_id == "5"  # the one after it is not complete


def test_a_stream_without_an_end_of_line_is_given_up() -> None:
    with pytest.raises(ValueError, match="no end"):
        list(Parser().feed(b"x" * 5_000_000))
