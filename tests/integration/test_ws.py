"""The WebSocket: requests like those over HTTP, and events by subscription."""

import asyncio
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from rota import daemon
from rota.api.ws_limits import WsLimits
from rota.api.ws_protocol import ws_options
from rota.testing.served import Served, serve
from tests.integration.wired import Wired, wired

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def ws(served: Served) -> Iterator[Wired]:
    with wired(served.url) as client:
        yield client


def create(ws: Wired, **fields: Any) -> str:
    made: str = ws.get("work.create", type="chore", description="do it", **fields)["id"]
    return made


def wait_for_work(ws: Wired, agent: str) -> None:
    payload = {"agent": agent, "wait_seconds": 30}
    frame = {"request_id": agent, "type": "work.claim", "payload": payload}
    ws.connection.send(json.dumps(frame))


# requests


@on_both_databases
def test_work_is_made_found_claimed_and_moved(ws: Wired, http: httpx2.Client) -> None:
    made = ws.get("work.create", type="chore", description="do it", priority=1)
    assert http.get(f"/work/{made['id']}").json()["priority"] == 1
    assert ws.get("work.list", status=["queued"])["items"] == [made]
    (taken,) = ws.get("work.claim", agent="smith")["items"]
    assert taken["id"] == made["id"]
    done = ws.get(
        "work.transition", work_item_id=made["id"], verb="complete", token=taken["claim"]["token"]
    )
    assert done["status"] == "completed"
    detail = ws.get("work.get", work_item_id=made["id"])
    assert [one["type"] for one in detail["events"]][-1] == "work.completed"
    assert ws.get("work.claim", agent="smith") == {"items": [], "reason": "nothing_ready"}


def test_a_request_may_be_numbered_and_have_no_payload_or_null(ws: Wired) -> None:
    for payload in ("", ', "payload": null', ', "payload": {}'):
        ws.connection.send(f'{{"request_id": 7, "type": "ping"{payload}}}')
        answer = json.loads(ws.connection.recv(10))
        assert answer == {"request_id": 7, "type": "ping", "ok": True, "result": {}}


def test_one_status_or_several_are_listed(ws: Wired) -> None:
    made = create(ws)
    for status in ("queued", "queued,blocked", ["queued"], None):
        listed = ws.get("work.list", status=status)["items"]
        assert [item["id"] for item in listed] == [made]
    assert ws.get("work.list", status="blocked")["items"] == []
    assert ws.refused("work.list", status="done") == ("invalid_input", 422)


def test_a_completion_brings_the_next_item_and_the_socket_goes_on(ws: Wired) -> None:
    first, second = create(ws), create(ws)
    (taken,) = ws.get("work.claim", agent="smith")["items"]
    moved = ws.get(
        "work.transition",
        work_item_id=first,
        verb="complete",
        token=taken["claim"]["token"],
        next={"agent": "smith"},
    )
    assert (moved["status"], [one["id"] for one in moved["next"]]) == ("completed", [second])
    assert ws.get("work.get", work_item_id=second)["status"] == "in_progress"


def test_a_status_names_the_move_and_a_version_guards_it(ws: Wired) -> None:
    item = create(ws, assigned_agent="smith")
    moved = ws.get("work.transition", work_item_id=item, status="dispatched", version=1)
    assert moved["status"] == "dispatched"
    late = ws.ask("work.transition", work_item_id=item, verb="start", version=1)
    assert (late["error"]["code"], late["error"]["status"]) == ("version_mismatch", 412)
    refused = ws.ask("work.transition", work_item_id=item, verb="complete")
    assert refused["error"]["code"] == "transition_refused"
    assert "in_progress" in refused["error"]["allowed"]


def test_the_same_key_gives_the_same_item(ws: Wired) -> None:
    assert create(ws, idempotency_key="k1") == create(ws, idempotency_key="k1")
    reused = ws.refused("work.create", type="x", description="other", idempotency_key="k1")
    assert reused == ("idempotency_key_reused", 409)
    wrong = ws.refused("work.create", type="x", description="x", idempotency_key="a b")
    assert wrong == ("invalid_input", 422)


def test_a_long_list_comes_in_pages(ws: Wired) -> None:
    items = [create(ws) for _ in range(5)]
    first = ws.get("work.list", limit=3)
    rest = ws.get("work.list", limit=3, cursor=first["cursor"])
    assert [one["id"] for one in first["items"] + rest["items"]] == items
    assert rest["cursor"] is None


def test_a_signal_is_made_listed_and_cancelled(ws: Wired) -> None:
    item = create(ws)
    trigger = {"kind": "work_item.status.transition", "to": ["failed"]}
    made = ws.get("work.signal.create", work_item_id=item, trigger=trigger)
    assert ws.get("work.signal.list", work_item_id=item)["signals"] == [made]
    ended = ws.get("work.signal.cancel", signal_id=made["id"])
    assert (ended["status"], ended["firings"]) == ("cancelled", [])
    assert ws.refused("work.signal.cancel", signal_id=made["id"]) == ("refused", 409)
    unknown = ws.refused("work.signal.create", work_item_id=item, trigger={"kind": "nonsense"})
    assert unknown == ("invalid_input", 422)
    assert len(ws.get("work.signal.list")["signals"]) == 1


def test_a_waiting_claim_holds_up_nothing_else(ws: Wired) -> None:
    wait_for_work(ws, "a")
    item = create(ws)
    (taken,) = ws.answer("a")["result"]["items"]
    assert taken["id"] == item


def test_a_claim_whose_claimer_is_gone_is_given_back(http: httpx2.Client, served: Served) -> None:
    with wired(served.url) as ws:
        for agent in ("a", "b"):
            wait_for_work(ws, agent)
        ws.get("ping")
    item = http.post("/work", json={"type": "chore", "description": "x"}).json()["id"]
    assert http.post("/work/claim", json={"agent": "c", "wait_seconds": 25}).json()[0]["id"] == item


def test_errors_are_those_of_http(ws: Wired, http: httpx2.Client) -> None:
    for payload in ({}, {"type": "x"}, {"type": "x", "description": "y", "priority": 9}):
        told = ws.ask("work.create", **payload)["error"]
        document = http.post("/work", json=payload).json()
        assert {**document, **told} == document
        assert {"code", "detail", "status"} <= told.keys()
    assert ws.refused("work.get", work_item_id="nowhere") == ("not_found", 404)
    assert ws.refused("work.get") == ("missing_requirement", 422)
    assert ws.refused("work.transition", work_item_id="x") == ("invalid_input", 422)
    assert ws.refused("work.transition", work_item_id="x", verb="fly") == ("invalid_input", 422)
    told = ws.ask("work.transition", work_item_id="x", verb="fly")["error"]
    assert told["detail"].startswith("verb: 'fly' is unknown; there are dispatch, start, ")


# bad frames


@pytest.mark.parametrize(
    ("frame", "request_id", "code"),
    [
        ("not json", None, "bad_frame"),
        ("[1, 2]", None, "invalid_input"),
        ('"text"', None, "invalid_input"),
        ("", None, "bad_frame"),
        ("[" * 100_000, None, "invalid_input"),
        ('{"request_id": "a", "type": "ping", "payload": ' + "[" * 100_000, "a", "bad_frame"),
        (b"{}", None, "bad_frame"),
        ("{}", None, "missing_requirement"),
        ('{"request_id": "a"}', "a", "missing_requirement"),
        ('{"type": "ping"}', None, "missing_requirement"),
        ('{"request_id": 7.5, "type": "ping"}', None, "invalid_input"),
        ('{"request_id": true, "type": "ping"}', None, "invalid_input"),
        ('{"request_id": 9007199254740992, "type": "ping"}', None, "invalid_input"),
        ('{"request_id": 7, "type": "ping", "more": 1}', 7, "invalid_input"),
        ('{"request_id": "a", "type": "ping", "more": 1}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "ping", "type": "ping"}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "work.create", "payload":'
         ' {"type": "t", "description": "d", "payload": {"y": 1, "y": 1}}}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "no.such"}', "a", "not_found"),
        ('{"request_id": "a", "type": "ping", "payload": []}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "work.create", "payload": [1]}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "work.transition", "payload": 7}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "ping", "payload": {"x": 1}}', "a", "invalid_input"),
        ('{"request_id": "a", "type": "ping", "payload": NaN}', "a", "bad_frame"),
        ('{"request_id": "a", "type": "subscribe", "payload": {"after": -1}}', "a",
         "invalid_input"),
        ('{"request_id": "a", "type": "subscribe", "payload": {"types": ["x"]}}', "a",
         "invalid_input"),
        ('{"request_id": "a", "type": "unsubscribe", "payload": {"subscription": "s9"}}', "a",
         "not_found"),
    ],
)  # fmt: skip
def test_a_wrong_frame_is_answered_and_the_connection_stays(
    ws: Wired, http: httpx2.Client, frame: str | bytes, request_id: str | int | None, code: str
) -> None:
    ws.connection.send(frame)
    answer = ws.hear()
    assert (answer["ok"], answer["error"]["code"]) == (False, code)
    assert "`" not in answer["error"]["detail"]
    assert answer["request_id"] in (request_id, None)
    assert ws.get("ping") == {}
    assert http.get("/events").json() == []


def test_a_frame_that_is_too_large_ends_the_connection(ws: Wired, http: httpx2.Client) -> None:
    with pytest.raises(ConnectionClosedError) as closed:
        ws.ask("work.create", type="chore", description="x" * (1024 * 1024))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    assert http.get("/work").json() == []


def test_there_is_a_limit_to_what_one_connection_may_ask(database: str) -> None:
    limits = WsLimits(subscriptions=2, requests=2)
    with serve(database, ws=limits) as served, wired(served.url) as ws:
        first = ws.get("subscribe")["subscription"]
        ws.get("subscribe")
        assert ws.refused("subscribe") == ("too_many_requests", 429)
        ws.get("unsubscribe", subscription=first)
        ws.get("subscribe")
        for agent in ("a", "b"):
            wait_for_work(ws, agent)
        assert ws.refused("work.list") == ("too_many_requests", 429)
        assert ws.get("ping") == {}


# events


@on_both_databases
def test_a_subscription_begins_now_unless_it_is_told_where(ws: Wired) -> None:
    old = create(ws)
    begun = ws.get("subscribe")
    new = create(ws)
    (event,) = ws.events(1)
    assert (event["work_item_id"], event["subscription"]) == (new, begun["subscription"])
    assert event["event_id"] == str(event["seq"])
    ws.get("unsubscribe", subscription=begun["subscription"])
    whole = ws.get("subscribe", after=0)
    assert [one["work_item_id"] for one in ws.events(2)] == [old, new]
    assert ws.get("unsubscribe", subscription=whole["subscription"])["after"] == event["seq"]
    create(ws)
    assert ws.has_heard_nothing_more()


@on_both_databases
def test_a_filter_lets_through_what_was_asked_for(ws: Wired, http: httpx2.Client) -> None:
    project = http.post("/projects", json={"name": "p"}).json()["id"]
    mine, other = create(ws, project_id=project), create(ws)
    wanted: list[dict[str, Any]] = [
        {"work_item_id": mine},
        {"project_id": project, "types": ["work.noted", "work.dispatched"]},
        {"agent": "smith"},
        {"types": ["work.cancelled"]},
    ]
    names = [ws.get("subscribe", **one)["subscription"] for one in wanted]
    ws.get("work.transition", work_item_id=other, verb="cancel")
    ws.get("work.transition", work_item_id=mine, verb="dispatch", assigned_agent="smith")
    http.post(f"/work/{mine}/note", json={"notes": "n"}).raise_for_status()
    told = ws.events(7)
    heard = sorted((one["subscription"], one["type"]) for one in told)
    assert heard == sorted(
        [
            (names[0], "work.dispatched"), (names[0], "work.noted"),
            (names[1], "work.dispatched"), (names[1], "work.noted"),
            (names[2], "work.dispatched"), (names[2], "work.noted"), (names[3], "work.cancelled"),
        ]
    )  # fmt: skip
    for one in wanted:
        with_past = ws.get("subscribe", after=0, **one)["subscription"]
        live = [e["seq"] for e in told if e["subscription"] == names[wanted.index(one)]]
        again = [e["seq"] for e in ws.events(len(live) + ("work_item_id" in one))]
        assert again[-len(live) :] == live
        ws.get("unsubscribe", subscription=with_past)
    assert ws.has_heard_nothing_more()


@on_both_databases
def test_a_subscription_begins_behind_an_event_by_its_id_too(ws: Wired) -> None:
    first, second = create(ws), create(ws)
    ws.get("subscribe", after=0)
    one, two = ws.events(2)
    assert [one["work_item_id"], two["work_item_id"]] == [first, second]
    with_id = ws.get("subscribe", after=one["event_id"], types=None)["subscription"]
    (heard,) = ws.events(1)
    assert (heard["seq"], heard["subscription"]) == (two["seq"], with_id)
    ws.get("subscribe", after="9" * 19)  # beyond the end of the log: from now on
    assert ws.has_heard_nothing_more()
    for wrong in ("x", "", "-1", "٣", "1" * 20):
        assert ws.refused("subscribe", after=wrong) == ("invalid_input", 422)


def test_a_resumed_subscription_has_no_gap_and_no_repeat(
    served: Served, http: httpx2.Client
) -> None:
    """Writers go on while the reader loses its connection again and again."""

    def add(_: int) -> str:
        answer = http.post("/work", json={"type": "chore", "description": "x"})
        return str(answer.json()["id"])

    with ThreadPoolExecutor(2) as pool:
        written = pool.map(add, range(200))
        seen: list[int] = []
        while len(seen) < 200:
            with wired(served.url) as ws:
                ws.get("subscribe", after=seen[-1] if seen else 0)
                seen += [one["seq"] for one in ws.events(min(23, 200 - len(seen)))]
        items = set(written)
    log: list[dict[str, Any]] = http.get("/events?limit=1000").json()
    assert seen == [one["seq"] for one in log]
    assert {one["work_item_id"] for one in log} == items


def test_a_long_past_is_told_before_the_present(ws: Wired, http: httpx2.Client) -> None:
    http.post("/work/batch", json=[{"type": "chore", "description": "x"}] * 1000)
    http.post("/work/batch", json=[{"type": "chore", "description": "x"}] * 250)
    ws.get("subscribe", after=0)
    create(ws)
    assert [one["seq"] for one in ws.events(1251)] == list(range(1, 1252))
    assert ws.has_heard_nothing_more()


def test_a_number_beyond_the_end_means_from_now_on(ws: Wired) -> None:
    create(ws)
    ws.get("subscribe", after=1_000_000)
    new = create(ws)
    assert [one["work_item_id"] for one in ws.events(1)] == [new]


def test_who_does_not_answer_a_ping_is_cut_off(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: a library would answer."""
    usual = ws_options(1000)
    assert usual["ws_ping_interval"] == usual["ws_ping_timeout"] == 20
    quick = {**usual, "ws_ping_interval": 0.05, "ws_ping_timeout": 0.05}
    monkeypatch.setattr(daemon, "ws_options", lambda _: quick)
    with serve(database) as served, socket.create_connection(("127.0.0.1", served.port)) as raw:
        raw.settimeout(20)
        raw.sendall(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        heard = b""
        while chunk := raw.recv(1000):
            heard += chunk
    assert heard.startswith(b"HTTP/1.1 101 ")
    frames = heard.partition(b"\r\n\r\n")[2]
    assert frames[0] == 0x89  # a ping
    assert b"keepalive ping timeout" in frames


def test_a_stopping_server_says_so(ws: Wired, served: Served) -> None:
    ws.get("subscribe")
    served.stop()
    with pytest.raises(ConnectionClosed) as closed:
        ws.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


def test_nobody_reads_the_log_while_nobody_follows(served: Served) -> None:
    def readers() -> int:
        return served.run(_readers)

    assert readers() == 0
    with wired(served.url) as ws:
        begun = ws.get("subscribe")
        assert readers() == 1
        ws.get("unsubscribe", subscription=begun["subscription"])
        assert readers() == 0


async def _readers() -> int:
    return sum(task.get_name() == "feed" for task in asyncio.all_tasks())
