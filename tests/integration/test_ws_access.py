"""Who may open a WebSocket, and what they may ask then."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rota.api import ApiSettings, strictness
from rota.api.ws_limits import WsLimits
from rota.model.work import NewItem
from rota.queue.views import Query
from rota.testing.served import Served, serve
from tests.integration.wired import Wired, wired

LIMITS = WsLimits(auth_seconds=30, recheck_seconds=0.05)
SETTINGS = ApiSettings(remember_seconds=0.01, auth_failures=3)


def status_and_code(served: Served, headers: dict[str, str], **options: object) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused, wired(served.url, headers, **options):
        pass
    answer = refused.value.response
    return answer.status_code, json.loads(answer.body)["code"]


def closed_with(ws: Wired) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as closed:
        ws.hear()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost:1", "https://127.0.0.1", ""],
)
def test_a_page_of_another_site_is_refused(served: Served, origin: str) -> None:
    assert status_and_code(served, {"Origin": origin}) == (403, "cross_origin")


def test_a_script_of_another_site_is_refused(served: Served) -> None:
    assert status_and_code(served, {"Sec-Fetch-Site": "cross-site"}) == (403, "cross_origin")


def test_our_own_page_is_let_in(served: Served) -> None:
    with wired(served.url, {"Origin": served.url, "Sec-Fetch-Site": "same-origin"}) as ws:
        assert ws.get("ping") == {}


def test_a_foreign_host_name_is_refused(served: Served) -> None:
    """By hand: the client library knows but one Host."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(
            b"GET /ws HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 421 ")


def test_there_is_no_websocket_elsewhere(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused, wired(served.url, path="/more/ws"):
        pass
    assert refused.value.response.status_code == 404


def test_a_plain_request_to_it_is_told_to_upgrade(http: httpx2.Client) -> None:
    told = http.get("/ws")
    assert (told.status_code, told.headers["upgrade"]) == (426, "websocket")
    assert told.json()["code"] == "upgrade_required"
    assert http.get("/work").status_code == 200, "the connection goes on"


# tokens


@pytest.fixture
def guarded(database: str) -> Iterator[Served]:
    with serve(database, SETTINGS, ws=LIMITS) as served:
        yield served


@pytest.fixture
def token(guarded: Served) -> Callable[..., str]:
    def make(*scopes: str) -> str:
        return guarded.run(lambda: guarded.ledger.tokens.create("t", scopes))[1]

    return make


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_a_token_comes_with_the_handshake(guarded: Served, token: Callable[..., str]) -> None:
    with wired(guarded.url, bearer(token("read"))) as ws:
        ws.get("subscribe")
        assert ws.get("work.list")["items"] == []
        refused = ws.refused("work.create", type="x", description="y")
        assert refused == ("forbidden", 403)


def test_a_wrong_token_is_refused_and_guessing_has_a_limit(
    guarded: Served, token: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    token("read")
    for _ in range(SETTINGS.auth_failures):
        assert status_and_code(guarded, bearer("rota_wrong")) == (401, "unauthenticated")
    assert status_and_code(guarded, bearer("rota_wrong")) == (429, "too_many_failures")
    guarded.run(lambda: asyncio.sleep(0))  # after the refusals, of which none is an error of ours
    assert [one.message for one in caplog.records if one.levelname == "ERROR"] == []


def test_a_token_in_the_address_is_none(guarded: Served, token: Callable[..., str]) -> None:
    secret = token("admin")
    with wired(guarded.url, path=f"/ws?token={secret}") as ws:
        assert ws.refused("work.list") == ("unauthenticated", 401)


def test_a_browser_says_its_token_first(guarded: Served, token: Callable[..., str]) -> None:
    secret = token("work")
    with wired(guarded.url) as ws:
        welcome = ws.get("auth", token=secret)
        assert welcome == {"name": "t", "scopes": ["read", "work"]}
        ws.get("work.create", type="x", description="y")


@pytest.mark.parametrize("kind", ["subscribe", "work.list", "work.create"])
def test_nothing_is_told_before_the_token(
    guarded: Served, token: Callable[..., str], kind: str
) -> None:
    token("read")
    with wired(guarded.url) as ws:
        assert ws.refused(kind) == ("unauthenticated", 401)
        assert closed_with(ws)[0] == 1008


def test_a_wrong_first_frame_ends_it(guarded: Served, token: Callable[..., str]) -> None:
    token("read")
    with wired(guarded.url) as ws:
        assert ws.refused("auth", token="rota_wrong") == ("unauthenticated", 401)
        assert closed_with(ws)[0] == 1008


def test_a_long_frame_before_the_token_is_not_read(
    guarded: Served, token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = token("work")
    read: list[str] = []
    monkeypatch.setattr(strictness, "check", read.append)
    long = json.dumps({"request_id": "1", "type": "ping", "payload": {"x": "x" * 4_096}})
    for frame in (long, long.encode()):
        with wired(guarded.url) as ws:
            told = ws.say(frame, None)
            assert (told["error"]["code"], told["error"]["status"]) == ("too_large", 413)
            assert closed_with(ws) == (1009, "more than 4096 characters before the token")
    assert read == []
    with wired(guarded.url) as ws:
        ws.get("auth", token=secret)
        ws.get("work.create", type="x", description="y", body="z" * 4_096)


def test_who_says_nothing_is_sent_away(database: str) -> None:
    with serve(database, SETTINGS, ws=WsLimits(auth_seconds=0.5)) as served:
        served.run(lambda: served.ledger.tokens.create("t", ("read",)))
        with wired(served.url) as ws:
            assert closed_with(ws) == (1008, "no token within 0.5 s")


def test_a_revoked_token_ends_also_who_only_listens(
    guarded: Served, token: Callable[..., str]
) -> None:
    secret = token("read")
    with ExitStack() as open_sockets:
        sockets = [
            open_sockets.enter_context(wired(guarded.url, bearer(secret)))
            for _ in range(SETTINGS.auth_failures + 2)
        ]
        for ws in sockets:
            ws.get("subscribe")
        tokens = guarded.ledger.tokens
        (known,) = guarded.run(tokens.list)
        guarded.run(lambda: tokens.revoke(known.id))
        assert {closed_with(ws) for ws in sockets} == {(1008, "unauthenticated")}


def test_a_request_by_a_token_that_was_revoked_meanwhile_is_refused(database: str) -> None:
    settings, limits = ApiSettings(remember_seconds=0), WsLimits(recheck_seconds=600)
    with serve(database, settings, ws=limits) as served:
        tokens = served.ledger.tokens
        token, secret = served.run(lambda: tokens.create("t", ["work", "dispatch"]))
        with wired(served.url, bearer(secret)) as ws:
            ws.get("work.create", type="chore", description="By a friend")
            served.run(lambda: tokens.revoke(token.id))
            refused = ws.ask("work.create", type="chore", description="By a stranger")
            assert refused["error"]["code"] == "unauthenticated"
        items = served.run(lambda: served.ledger.views.items(Query())).items
        assert [one.description for one in items] == ["By a friend"]


def test_a_waiting_claim_is_answered_by_the_token_that_was_said_and_not_after_its_end(
    database: str,
) -> None:
    settings, limits = ApiSettings(remember_seconds=0), WsLimits(recheck_seconds=60)
    with serve(database, settings, ws=limits) as served, wired(served.url) as ws:
        tokens, queue = served.ledger.tokens, served.ledger.queue
        token, secret = served.run(lambda: tokens.create("t", ["work"]))
        ws.get("auth", token=secret)

        def waits(agent: str) -> None:
            payload = {"agent": agent, "wait_seconds": 30}
            frame = {"request_id": agent, "type": "work.claim", "payload": payload}
            ws.connection.send(json.dumps(frame))
            ws.get("ping")

        def added() -> str:
            return served.run(lambda: queue.submit(NewItem("chore", "do it"))).id

        waits("a")
        item = added()
        assert [one["id"] for one in ws.answer("a")["result"]["items"]] == [item]
        waits("b")
        served.run(lambda: tokens.revoke(token.id))
        item = added()
        assert ws.answer("b")["error"]["code"] == "unauthenticated"
        assert closed_with(ws) == (1008, "unauthenticated")
        found = served.run(lambda: served.ledger.views.item(item))
        assert (found.status, found.attempts) == ("queued", 0)


def test_an_agents_token_moves_only_its_own_items(
    guarded: Served, token: Callable[..., str]
) -> None:
    admin, smith = token("admin"), token("agent:smith")
    with wired(guarded.url, bearer(admin)) as boss, wired(guarded.url, bearer(smith)) as ws:
        items = []
        for agent in ("smith", "jones"):
            made = boss.get("work.create", type="x", description="y", assigned_agent=agent)
            boss.get("work.transition", work_item_id=made["id"], verb="dispatch")
            items.append(made["id"])
        assert ws.get("work.transition", work_item_id=items[0], verb="start")
        for move in ({"verb": "start"}, {"status": "in_progress"}):
            refused = ws.refused("work.transition", work_item_id=items[1], **move)
            assert refused == ("forbidden", 403)
        assert ws.refused("work.claim", agent="jones") == ("forbidden", 403)
        assert ws.refused("work.transition", work_item_id=items[0], verb="cancel") == (
            "forbidden",
            403,
        )


# too many


def test_too_many_connections_are_refused_and_come_back_later(database: str) -> None:
    with serve(database, ws=WsLimits(connections=2)) as served:
        with wired(served.url) as one, wired(served.url) as two:
            assert status_and_code(served, {}) == (503, "too_many_connections")
            assert one.get("ping") == two.get("ping") == {}
        with httpx2.Client(base_url=served.url) as http:
            assert http.get("/health").status_code == 200
        assert _connects_again(served)


def _connects_again(served: Served) -> bool:
    for _ in range(100):
        try:
            with wired(served.url) as ws:
                return bool(ws.get("ping") == {})
        except InvalidStatus:  # the server has not heard yet that the others are gone
            continue
    return False
