"""The event log over HTTP: pages, and a stream that is resumed without gap or repeat."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings
from rota.testing.served import Served, serve

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

STREAM = {"Accept": "text/event-stream"}


def add(http: httpx2.Client, **fields: Any) -> str:
    answer = http.post("/work", json={"type": "chore", "description": "do it", **fields})
    return str(answer.json()["id"])


def cancel(http: httpx2.Client, item: str) -> None:
    http.delete(f"/work/{item}").raise_for_status()


class Frames:
    """Server-sent events as they come, parsed as a browser would."""

    def __init__(self, answer: httpx2.Response) -> None:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        self.last_id = ""
        self._lines = answer.iter_lines()
        self._frames = self._parse()

    def _parse(self) -> Iterator[dict[str, str]]:
        frame: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                frame[name] = value
            else:
                self.last_id = frame.get("id", self.last_id)
                if "data" in frame:
                    yield frame
                frame = {}

    def first_id(self) -> str:
        """Where to resume, as it is said before the first event."""
        for line in self._lines:
            if line.startswith("id: "):
                return line.removeprefix("id: ")
        raise AssertionError

    def take(self, count: int) -> list[dict[str, Any]]:
        found = []
        for _ in range(count):
            frame = next(self._frames)
            event = json.loads(frame["data"])
            assert frame["event"] == event["type"]
            assert frame["id"] == event["event_id"] == str(event["seq"])
            found.append(event)
        return found

    def rest(self) -> list[dict[str, str]]:
        return list(self._frames)


@contextmanager
def stream(
    http: httpx2.Client, query: str = "", last: str | None = None, secret: str | None = None
) -> Iterator[Frames]:
    headers = STREAM | ({"Last-Event-ID": last} if last is not None else {})
    headers |= {"Authorization": f"Bearer {secret}"} if secret else {}
    # Less than the stream's own heartbeat: a missing event is an error, not a wait without end.
    with http.stream("GET", f"/events?{query}", headers=headers, timeout=10) as answer:
        yield Frames(answer)


@on_both_databases
def test_the_log_is_read_in_pages_and_filtered(http: httpx2.Client) -> None:
    items = [add(http) for _ in range(5)]
    cancel(http, items[0])
    found, url = [], "/events?limit=2"
    while url:
        page = http.get(url)
        found += page.json()
        url = page.links.get("next", {}).get("url", "")
    assert [one["work_item_id"] for one in found] == [*items, items[0]]
    assert [one["type"] for one in found] == ["work.submitted"] * 5 + ["work.cancelled"]
    behind = http.get("/events", params={"after": found[3]["seq"]}).json()
    assert behind == found[4:]
    of_one = http.get("/events", params={"work_item_id": items[0]}).json()
    assert [one["type"] for one in of_one] == ["work.submitted", "work.cancelled"]
    both = http.get("/events?type=work.cancelled&type=work.noted").json()
    assert both == http.get("/events?type=work.cancelled,work.noted").json() == found[5:]
    assert found[5]["from_status"] == "queued"
    assert (found[5]["to_status"], found[5]["payload"]) == ("cancelled", {"outcome": "cancelled"})


@on_both_databases
def test_a_stream_begins_now_unless_it_is_told_where(http: httpx2.Client) -> None:
    old = add(http)
    with stream(http) as live:
        new = add(http)
        assert [one["work_item_id"] for one in live.take(1)] == [new]
    with stream(http, "after=0") as whole:
        assert [one["work_item_id"] for one in whole.take(2)] == [old, new]


@on_both_databases
def test_a_resumed_stream_has_no_gap_and_no_repeat(http: httpx2.Client) -> None:
    """Writers go on while the reader loses its connection again and again."""
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(lambda: [add(http) for _ in range(100)]) for _ in range(2)]
        seen: list[int] = []
        last = "0"
        while len(seen) < 200:
            with stream(http, last=last) as frames:
                for event in frames.take(min(23, 200 - len(seen))):
                    seen.append(event["seq"])
                    last = event["event_id"]
        written = {item for one in writers for item in one.result(30)}
    log: list[dict[str, Any]] = http.get("/events?limit=1000").json()
    assert seen == [one["seq"] for one in log]
    assert {one["work_item_id"] for one in log} == written


def test_last_event_id_goes_before_after(http: httpx2.Client) -> None:
    first, second = add(http), add(http)
    seq = http.get("/events").json()[0]["seq"]
    with stream(http, "after=0", last=str(seq)) as frames:
        assert [one["work_item_id"] for one in frames.take(1)] == [second]
    assert first != second


def test_a_stream_that_is_lost_before_its_first_event_can_be_resumed(http: httpx2.Client) -> None:
    add(http)
    with stream(http) as frames:
        missed = add(http)
        frames.take(1)
        position = str(int(frames.last_id) - 1)
    with stream(http, last=position) as again:
        assert [one["work_item_id"] for one in again.take(1)] == [missed]


@on_both_databases
@pytest.mark.parametrize("by", ["last", "after"])
def test_a_number_beyond_the_end_means_from_now_on_and_is_not_given_back(
    http: httpx2.Client, by: str
) -> None:
    add(http)
    beyond = {"last": "1000000"} if by == "last" else {"query": "after=1000000"}
    with stream(http, **beyond) as lost_at_once:
        position = lost_at_once.first_id()
    missed = add(http)
    with stream(http, last=position) as again:
        assert [one["work_item_id"] for one in again.take(1)] == [missed]


@on_both_databases
def test_a_page_beyond_the_end_says_where_the_end_is(http: httpx2.Client) -> None:
    assert "rota-last-event" not in http.get("/events?after=0").headers
    assert http.get("/events?after=1").headers["rota-last-event"] == "0"
    add(http)
    last = http.get("/events").json()[-1]["seq"]
    beyond = http.get("/events?after=1000000")
    assert (beyond.json(), beyond.headers["rota-last-event"]) == ([], str(last))
    for query in (f"after={last}", "after=0", "type=work.cancelled", ""):
        assert "rota-last-event" not in http.get(f"/events?{query}").headers


def test_the_head_of_a_stream_ends(http: httpx2.Client) -> None:
    answer = http.head("/events", headers=STREAM)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    assert "content-length" not in answer.headers
    assert http.head("/events?type=work.unknown", headers=STREAM).status_code == 422
    assert http.get("/health").status_code == 200


@on_both_databases
def test_a_filtered_stream_shows_only_what_was_asked_for(http: httpx2.Client) -> None:
    mine = add(http)
    with stream(http, f"work_item_id={mine}&type=work.cancelled,work.noted&after=0") as frames:
        for _ in range(3):
            cancel(http, add(http))
        http.post(f"/work/{mine}/note", json={"notes": "one"})
        assert [one["type"] for one in frames.take(1)] == ["work.noted"]
        cancel(http, mine)
        assert [one["type"] for one in frames.take(1)] == ["work.cancelled"]


def test_a_long_past_is_streamed_page_by_page(http: httpx2.Client) -> None:
    http.post("/work/batch", json=[{"type": "chore", "description": "x"}] * 450)
    with stream(http, "after=0") as frames:
        seqs = [one["seq"] for one in frames.take(450)]
    assert seqs == sorted(set(seqs))


def test_a_quiet_stream_says_that_it_is_still_there(database: str) -> None:
    with (
        serve(database, ApiSettings(heartbeat_seconds=0.02)) as served,
        httpx2.Client(base_url=served.url) as http,
        http.stream("GET", "/events", headers=STREAM) as answer,
    ):
        assert ": still here" in answer.iter_lines()


def test_a_stream_ends_when_the_server_stops(http: httpx2.Client, served: Served) -> None:
    with stream(http) as frames:
        add(http)
        frames.take(1)
        served.stop()
        assert frames.rest() == []


def test_a_revoked_token_ends_its_streams_and_no_others(database: str) -> None:
    settings = ApiSettings(recheck_seconds=0.05, remember_seconds=0.01, auth_failures=2)
    with (
        serve(database, settings) as served,
        httpx2.Client(base_url=served.url) as http,
        ExitStack() as open_streams,
    ):
        tokens = served.ledger.tokens
        spy, theirs = served.run(lambda: tokens.create("spy", ["read"]))
        _, ours = served.run(lambda: tokens.create("us", ["work"]))
        ending = [open_streams.enter_context(stream(http, secret=theirs)) for _ in range(4)]
        beside = open_streams.enter_context(stream(http, secret=ours))
        served.run(lambda: tokens.revoke(spy.id))
        assert [frames.rest() for frames in ending] == [[]] * 4
        http.headers["Authorization"] = f"Bearer {ours}"
        item = add(http)
        assert beside.take(1)[0]["work_item_id"] == item
        _, fresh = served.run(lambda: tokens.create("fresh", ["read"]))
        answer = http.get("/work", headers={"Authorization": f"Bearer {fresh}"})
        assert answer.status_code == 200, "none of them was a guess"


def test_a_reader_that_does_not_read_holds_up_nobody(http: httpx2.Client, served: Served) -> None:
    """Its events stay in the database, not in memory; others and the shutdown go on."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.sendall(
            b"GET /events?after=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )
        big = {"type": "chore", "description": "x" * 9_000}
        item = add(http)
        for _ in range(40):
            assert http.post(f"/work/{item}/note", json={"notes": "n" * 90_000}).status_code == 200
        assert http.post("/work", json=big).status_code == 201
        with stream(http, "after=0") as other:
            assert len(other.take(42)) == 42
