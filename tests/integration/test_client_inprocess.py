"""The transport without a socket: the app on a database, opened by the caller's own process."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from rota.app import local_asgi
from rota.client import ConnectionFailed, SyncWorkQueueClient, WorkQueueClient
from rota.client.inprocess import AsgiApp, InProcessTransport
from rota.client.threaded import InProcess
from rota.client.transport import Request
from rota.config import Settings
from rota.model.errors import InvalidInput, NotFound, StorageUnavailable


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "rota.db")


def opened(database: str) -> SyncWorkQueueClient:
    return SyncWorkQueueClient(
        transport=InProcessTransport(
            lambda: local_asgi(Settings.from_environment({}, database=database))
        ),
        actor="me",
    )


@pytest.fixture
def client(database: str) -> Iterator[SyncWorkQueueClient]:
    with opened(database) as client:
        yield client


async def test_who_stops_waiting_for_a_claim_is_given_nothing(database: str) -> None:
    asked = threading.Event()

    @asynccontextmanager
    async def observed() -> AsyncIterator[AsgiApp]:
        async with local_asgi(Settings.from_environment({}, database=database)) as app:

            async def told(scope: Any, receive: Any, send: Any) -> None:
                if scope["path"] == "/work/claim":
                    asked.set()
                await app(scope, receive, send)

            yield told

    transport = InProcess(InProcessTransport(observed))
    async with WorkQueueClient(transport=transport, actor="me") as client:
        waiting = asyncio.ensure_future(client.claim("ann", wait_seconds=30))
        assert await asyncio.to_thread(asked.wait, 30)
        waiting.cancel()
        item = await client.work_add("chore", "Mend the gate")
        [claimed] = await client.claim("bob", wait_seconds=30)
        assert claimed["id"] == item["id"]


def test_answers_are_dated_as_those_of_a_server_are(database: str) -> None:
    transport = InProcessTransport(
        lambda: local_asgi(Settings.from_environment({}, database=database))
    )
    for path in ("/work", "/nowhere"):
        date = parsedate_to_datetime(transport.send(Request("GET", path, {})).headers["date"])
        assert abs(date - datetime.now(UTC)) < timedelta(minutes=1)
    transport.close()


def test_calls_reach_the_database_and_stay_there(
    client: SyncWorkQueueClient, database: str
) -> None:
    item = client.work_add("chore", "Zoë's gate", {"n": 1})
    with opened(database) as another:
        found = another.work_get(item["id"])
    assert (found["description"], found["created_by"]) == ("Zoë's gate", "me")
    with pytest.raises(NotFound):
        client.work_get("nothing")
    with pytest.raises(InvalidInput):
        client.work_add("chore", "Too urgent", priority=9)


def test_tokens_are_not_asked_of_one_who_can_open_the_file(client: SyncWorkQueueClient) -> None:
    client.create_token("boss", ["admin"])
    assert client.work_list() == []


def test_a_claim_waits_for_work_of_another_process(
    client: SyncWorkQueueClient, database: str
) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(client.claim("ann", wait_seconds=60)))
    thread.start()
    with opened(database) as another:
        item = another.work_add("chore", "For you")
    thread.join(60)
    assert [one["id"] for one in found] == [item["id"]]


def test_events_are_streamed_also_those_of_another_process(
    client: SyncWorkQueueClient, database: str
) -> None:
    first = client.work_add("chore", "Before")
    events = client.watch(0)
    assert next(events)["work_item_id"] == first["id"]
    with opened(database) as another:
        second = another.work_add("chore", "After")
    assert next(events)["work_item_id"] == second["id"]
    events.close()  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput):
        next(client.watch(types=["no.such.type"]))


def test_the_claim_loop_works_on_a_database_alone(client: SyncWorkQueueClient) -> None:
    client.work_add("chore", "Longer than its lease")
    with client.work(agent="ann", lease_seconds=3) as work:
        for item in work:
            time.sleep(3.6)  # a body that is longer than its lease
            client.sweep()
            assert not item.lost
            work.stop_taking()
    assert [item["status"] for item in client.work_list()] == ["completed"]


def test_a_database_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, but it is long enough to look like one")
    with pytest.raises(StorageUnavailable):
        opened(str(tmp_path / "no.db"))
    with pytest.raises(InvalidInput):
        opened("mysql://localhost/rota")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (":memory:", "a ledger is a file"),
        ("sqlite:///:memory:", "a ledger is a file"),
        ("sqlite://:memory:", "a ledger is a file"),
        ("sqlite:rota.db", "write sqlite:///path"),
        ("file:rota.db", "write sqlite:///path"),
        ("sqlite://", "is empty"),
    ],
)
def test_what_is_no_file_is_not_opened_as_one(
    url: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=told):
        opened(url)
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_no_error(database: str) -> None:
    client = opened(database)
    client.close()
    client.close()


def transport_on(app: AsgiApp) -> InProcessTransport:
    @asynccontextmanager
    async def open_app() -> AsyncIterator[AsgiApp]:
        yield app

    return InProcessTransport(open_app)


def test_an_answer_that_never_comes_ends_with_the_time() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await receive()

    transport = transport_on(silent)
    with pytest.raises(ConnectionFailed, match="no answer"):
        transport.send(Request("GET", "/", {}, timeout=0.05))
    with pytest.raises(ConnectionFailed, match="did not begin"):
        transport.open(Request("GET", "/", {}, timeout=0.05))
    transport.close()


def test_the_app_sees_a_request_as_a_server_would_give_it() -> None:
    seen: dict[str, Any] = {}

    async def curious(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, body=(await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"X-A", b"1")]})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    transport = transport_on(curious)
    answer = transport.send(Request("POST", "/a%2Fb?c=%C3%A4", {"Accept": "x"}, b"body"))
    transport.close()
    assert (answer.status, answer.headers, answer.body) == (200, {"x-a": "1"}, b"ab")
    assert (seen["path"], seen["query_string"], seen["body"]) == ("/a/b", b"c=%C3%A4", b"body")
    assert dict(seen["headers"]) == {
        b"accept": b"x",
        b"content-length": b"4",
        b"host": b"localhost",
    }


def test_an_app_that_fails_in_a_stream_ends_it() -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        raise RuntimeError("boom")

    transport = transport_on(breaks)
    stream = transport.open(Request("GET", "/", {}))
    assert b"".join(stream) == b"a"
    transport.close()


def test_the_sync_client_over_http_needs_neither_asyncio_nor_httpx() -> None:
    program = (
        "import sys\n"
        "from rota.client import SyncWorkQueueClient\n"
        "SyncWorkQueueClient('http://127.0.0.1:1')\n"
        "print(sorted({'asyncio', 'httpx2', 'litestar', 'rich', 'click'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
