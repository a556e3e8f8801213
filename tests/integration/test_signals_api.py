"""Signals and follow-ups over HTTP: made, looked at, fired, taken; and everything that is wrong."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from rota.model.status import Status, Verb
from rota.queue.moves import Order
from rota.signals.processor import MOST_ATTEMPTS
from rota.testing.clock import ManualClock
from rota.testing.served import Served
from rota.testing.standing import WAY, order

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
Json = dict[str, Any]
Tick = Callable[[], int]
Asks = Callable[..., httpx2.Client]

FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}
BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}


@pytest.fixture
def asks(served: Served) -> Iterator[Asks]:
    """`asks("agent:ada")`: a client with a token of these scopes."""
    clients: list[httpx2.Client] = []

    def made(*scopes: str) -> httpx2.Client:
        _, secret = served.run(lambda: served.ledger.tokens.create(scopes[0], scopes, None))
        headers = {"Authorization": f"Bearer {secret}"}
        clients.append(httpx2.Client(base_url=served.url, headers=headers, timeout=30))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


def an_item(http: httpx2.Client, **facts: Any) -> str:
    body = {"type": "chore", "description": "Mend the gate", **facts}
    return str(http.post("/work", json=body).json()["id"])


def bring(served: Served, item: str, status: Status) -> None:
    for verb in WAY[status]:
        served.run(lambda verb=verb: served.ledger.queue.apply(order(verb, item, actor="ada")))


def made(http: httpx2.Client, trigger: Json, action: Json | None = None, **more: Any) -> Json:
    body = {"trigger": trigger, **({"action": action} if action else {}), **more}
    answer = http.post("/signals", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/signals/{answer.json()['id']}"
    signal: Json = answer.json()
    return signal


def a_follow_up(http: httpx2.Client, served: Served, tick: Tick, **action: Any) -> Json:
    item = an_item(http)
    made(http, BLOCKS, {"kind": "follow_up", **action}, work_item_id=item)
    bring(served, item, Status.BLOCKED)
    assert tick() == 1
    (found,) = http.get("/follow-ups", params={"work_item_id": item}).json()
    follow_up: Json = found
    return follow_up


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def field(answer: httpx2.Response) -> str:
    return str(answer.json()["errors"][0]["field"])


# signals


@on_both_databases
def test_a_signal_fires_and_tells_what_followed(
    http: httpx2.Client, served: Served, tick: Tick
) -> None:
    item = an_item(http)
    action = {"kind": "submit", "title": "Why did {item.id} fail?", "type": "question"}
    signal = made(http, FAILS, action, work_item_id=item)
    assert (signal["status"], signal["fires"], signal["max_fires"]) == ("active", 0, 1)
    assert (signal["trigger"], signal["action"]) == (FAILS, action)
    bring(served, item, Status.FAILED)
    assert tick() == 1
    shown = http.get(f"/signals/{signal['id']}").json()
    assert (shown["status"], shown["fires"]) == ("fired", 1)
    (firing,) = shown["firings"]
    assert firing["status"] == "enqueued"
    follows = http.get(f"/work/{firing['result']['work_item_id']}").json()
    assert (follows["description"], follows["type"]) == (f"Why did {item} fail?", "question")
    (told,) = http.get("/events", params={"type": "work.signal.fired"}).json()
    assert told["payload"]["firing_id"] == firing["id"]
    assert told["payload"]["enqueued_job_id"] == follows["id"]


@pytest.mark.parametrize(
    ("action", "says"),
    [({"title": "{item.type} failed"}, "chore failed"), ({"body": "no"}, "no"), ({}, "gate")],
)
def test_what_a_waiting_notification_of_a_signal_says_is_listed(
    http: httpx2.Client, served: Served, tick: Tick, action: Json, says: str
) -> None:
    to = {"kind": "notify", "url": "https://example.org/hook"}
    made(http, FAILS, {**to, **action}, name="gate")
    bring(served, an_item(http), Status.FAILED)
    assert tick() == 1
    assert [one["says"] for one in http.get("/outbox").json()] == [says]


@on_both_databases
def test_signals_are_listed_by_age_page_by_page(http: httpx2.Client, clock: ManualClock) -> None:
    item, ids = an_item(http), []
    for number in range(5):
        clock.advance(1)
        ids.append(made(http, FAILS, work_item_id=item if number else None)["id"])
    first = http.get("/signals", params={"limit": 3})
    assert [one["id"] for one in first.json()] == ids[:3]
    second = http.get(first.links["next"]["url"])
    assert [one["id"] for one in second.json()] == ids[3:]
    assert "next" not in second.links
    assert http.delete(f"/signals/{ids[1]}").status_code == 204

    def found(**wanted: str) -> list[str]:
        return [one["id"] for one in http.get("/signals", params=wanted).json()]

    assert found(status="cancelled") == [ids[1]]
    assert found(status="active", work_item_id=item) == ids[2:]


def test_a_signal_is_cancelled_once(http: httpx2.Client) -> None:
    signal = made(http, FAILS, name="watch")
    assert http.delete(f"/signals/{signal['id']}").status_code == 204
    again = http.delete(f"/signals/{signal['id']}")
    assert code(again) == (409, "refused")
    assert again.json()["item_status"] == "cancelled"
    assert code(http.delete("/signals/none-such")) == (404, "not_found")


@on_both_databases
def test_a_name_belongs_to_one_active_signal(http: httpx2.Client) -> None:
    first = made(http, FAILS, name="watch")
    taken = http.post("/signals", json={"trigger": FAILS, "name": "watch"})
    assert code(taken) == (409, "refused")
    assert field(taken) == "name"
    assert taken.json()["signal_id"] == first["id"]
    http.delete(f"/signals/{first['id']}")
    assert made(http, FAILS, name="watch")["id"] != first["id"]


def test_null_is_as_often_as_it_happens(http: httpx2.Client, served: Served, tick: Tick) -> None:
    signal = made(http, FAILS, max_fires=None)
    for _ in range(3):
        bring(served, an_item(http), Status.FAILED)
    assert tick() == 3
    assert http.get(f"/signals/{signal['id']}").json()["fires"] == 3


@on_both_databases
def test_a_signal_is_tried_on_the_past_and_nothing_is_stored(
    http: httpx2.Client, served: Served
) -> None:
    item = an_item(http)
    bring(served, item, Status.FAILED)
    last = http.get("/events").json()[-1]
    found = http.post("/signals/test", json={"trigger": {**FAILS, "type": "chore"}}).json()
    assert found == [last]
    assert http.post("/signals/test", json={"trigger": BLOCKS}).json() == []
    missing = http.post("/signals/test", json={"trigger": FAILS, "work_item_id": "none-such"})
    assert (code(missing), field(missing)) == ((422, "invalid_input"), "work_item_id")
    assert http.get("/signals").json() == []
    assert http.get("/events").json()[-1] == last


@on_both_databases
def test_a_firing_that_failed_is_shown_and_tried_again(
    http: httpx2.Client, served: Served, clock: ManualClock, tick: Tick
) -> None:
    item = an_item(http)
    action = {"kind": "trigger", "agent": "ada", "schedule": "often"}
    signal = made(http, BLOCKS, action, work_item_id=item)
    bring(served, item, Status.BLOCKED)
    for _ in range(MOST_ATTEMPTS):
        tick()
        clock.advance(301)
    (failed,) = http.get("/signals/firings").json()
    assert failed["id"].startswith(f"{signal['id']}:")
    assert "there is no schedule ada/often" in failed["error"]
    again = http.post(f"/signals/firings/{failed['id']}/retry")
    assert (again.status_code, again.json()["status"]) == (200, "queued")
    assert http.get("/signals/firings", params={"status": "failed"}).json() == []
    (queued,) = http.get("/signals/firings", params={"status": "queued"}).json()
    assert queued["id"] == failed["id"]
    assert code(http.post(f"/signals/firings/{failed['id']}/retry")) == (409, "refused")
    assert code(http.post("/signals/firings/x:1/retry")) == (404, "not_found")


# follow-ups


@on_both_databases
def test_a_follow_up_is_taken_completed_and_its_token_shown_to_nobody_else(
    http: httpx2.Client, served: Served, tick: Tick
) -> None:
    follow_up = a_follow_up(http, served, tick, title="Ask {event.actor}")
    assert (follow_up["title"], follow_up["status"]) == ("Ask ada", "open")
    taken = http.post("/follow-ups/claim", json={"agent": "bob"}).json()
    assert (taken["id"], taken["holder"], taken["attempts"]) == (follow_up["id"], "bob", 1)
    nothing = http.post("/follow-ups/claim", json={"agent": "eve"})
    assert (nothing.status_code, nothing.content) == (204, b"")
    path = f"/follow-ups/{taken['id']}"
    for text in (http.get("/follow-ups").text, http.get(path).text):
        assert taken["token"] not in text
    assert code(http.post(f"{path}/complete")) == (409, "claim_lost")
    assert code(http.post(f"{path}/complete", json={"token": "x"})) == (409, "claim_lost")
    done = http.post(f"{path}/complete", json={"token": taken["token"], "notes": "she knows"})
    assert (done.json()["status"], done.json()["outcome"]) == ("completed", "success")
    assert done.json()["notes"] == "she knows"
    assert code(http.post(f"{path}/complete", json={"token": taken["token"]})) == (409, "refused")
    (told,) = http.get("/events", params={"type": "work.follow_up.completed"}).json()
    assert told["payload"]["follow_up_id"] == follow_up["id"]


@on_both_databases
def test_a_follow_up_is_given_back_and_cancelled(
    http: httpx2.Client, served: Served, tick: Tick
) -> None:
    follow_up = a_follow_up(http, served, tick)
    path = f"/follow-ups/{follow_up['id']}"
    token = http.post("/follow-ups/claim", json={"agent": "bob"}).json()["token"]
    assert http.post(f"{path}/release", json={"token": token}).json()["status"] == "open"
    assert code(http.post(f"{path}/release", json={"token": token})) == (409, "refused")
    gone = http.post(f"{path}/cancel", json={"notes": "settled"}).json()
    assert (gone["status"], gone["outcome"]) == ("cancelled", "cancelled")
    assert http.get("/follow-ups", params={"status": "open"}).json() == []
    assert code(http.post("/follow-ups/none-such/cancel")) == (404, "not_found")


def test_a_follow_up_whose_lease_is_over_is_another_s(
    http: httpx2.Client, served: Served, clock: ManualClock, tick: Tick
) -> None:
    a_follow_up(http, served, tick)
    late = http.post("/follow-ups/claim", json={"agent": "ada", "lease_seconds": 60}).json()
    clock.advance(61)
    assert http.post("/follow-ups/claim", json={"agent": "bob"}).json()["attempts"] == 2
    refused = http.post(f"/follow-ups/{late['id']}/complete", json={"token": late["token"]})
    assert code(refused) == (409, "claim_lost")


@on_both_databases
def test_a_heartbeat_keeps_a_follow_up_until_it_is_lost(
    http: httpx2.Client, served: Served, clock: ManualClock, tick: Tick
) -> None:
    path = f"/follow-ups/{a_follow_up(http, served, tick)['id']}/heartbeat"
    late = http.post("/follow-ups/claim", json={"agent": "ada", "lease_seconds": 60}).json()
    words = {"token": late["token"], "lease_seconds": 60}
    for _ in range(2):
        clock.advance(50)
        kept = http.post(path, json=words)
        assert (kept.status_code, kept.json()["lease_expires_at"]) == (200, clock.text(60))
        assert "token" not in kept.json()
        assert http.post("/follow-ups/claim", json={"agent": "bob"}).status_code == 204
    clock.advance(61)
    assert http.post("/follow-ups/claim", json={"agent": "bob"}).status_code == 200
    assert code(http.post(path, json=words)) == (409, "claim_lost")
    assert field(http.post(path, json={})) == "token"
    assert field(http.post(path, json={"token": "x", "lease_seconds": 0})) == "lease_seconds"
    assert code(http.post("/follow-ups/none-such/heartbeat", json=words)) == (404, "not_found")


def test_an_item_names_its_follow_ups(http: httpx2.Client, served: Served, tick: Tick) -> None:
    follow_up = a_follow_up(http, served, tick)
    http.post("/follow-ups/claim", json={"agent": "ada"})
    (named,) = http.get(f"/work/{follow_up['work_item_id']}").json()["follow_ups"]
    assert named == http.get(f"/follow-ups/{follow_up['id']}").json()
    assert http.get(f"/work/{an_item(http)}").json()["follow_ups"] == []


@on_both_databases
def test_firings_are_listed_page_by_page(http: httpx2.Client, served: Served, tick: Tick) -> None:
    made(http, FAILS, max_fires=None)
    for _ in range(3):
        bring(served, an_item(http), Status.FAILED)
    assert tick() == 3
    first = http.get("/signals/firings", params={"limit": 2, "status": "enqueued"})
    second = http.get(first.links["next"]["url"])
    whole = http.get("/signals/firings", params={"status": "enqueued"}).json()
    assert [*first.json(), *second.json()] == whole
    assert (len(whole), "next" in second.links) == (3, False)
    of_items = http.get("/work", params={"limit": 1}).links["next"]["url"].partition("cursor=")[2]
    foreign = http.get("/signals/firings", params={"cursor": of_items})
    assert code(foreign) == (400, "bad_cursor"), "an empty page would be taken for the last one"


@on_both_databases
def test_follow_ups_are_listed_by_age_page_by_page(
    http: httpx2.Client, served: Served, clock: ManualClock, tick: Tick
) -> None:
    ids = []
    for _ in range(3):
        clock.advance(1)
        ids.append(a_follow_up(http, served, tick)["id"])
    first = http.get("/follow-ups", params={"limit": 2, "status": "open"})
    second = http.get(first.links["next"]["url"])
    assert [one["id"] for one in [*first.json(), *second.json()]] == ids
    assert "next" not in second.links


def test_follow_ups_are_for_the_agent_they_are_meant_for(
    http: httpx2.Client, served: Served, tick: Tick
) -> None:
    a_follow_up(http, served, tick, agent="ada")
    assert http.get("/follow-ups", params={"agent": "bob"}).json() == []
    assert http.post("/follow-ups/claim", json={"agent": "bob"}).status_code == 204
    assert http.post("/follow-ups/claim", json={"agent": "ada"}).status_code == 200


# who may


def test_readers_look_dispatchers_make_and_agents_take(
    served: Served, tick: Tick, asks: Asks
) -> None:
    scopes = ("admin", "read", "work", "agent:ada", "agent:bob")
    admin, reader, worker, ada, bob = (asks(scope) for scope in scopes)
    follow_up = a_follow_up(admin, served, tick)
    for client in (reader, worker, ada):
        assert client.get("/signals").status_code == 200
        assert client.get("/follow-ups").status_code == 200
        assert client.post("/signals/test", json={"trigger": FAILS}).status_code == 200
        assert code(client.post("/signals", json={"trigger": FAILS})) == (403, "forbidden")
        assert code(client.delete("/signals/x")) == (403, "forbidden")
        assert code(client.post("/signals/firings/x:1/retry")) == (403, "forbidden")
    assert code(reader.post("/follow-ups/claim", json={"agent": "ada"})) == (403, "forbidden")
    assert code(ada.post("/follow-ups/claim", json={"agent": "bob"})) == (403, "forbidden")
    path = f"/follow-ups/{follow_up['id']}"
    assert code(ada.post(f"{path}/complete")) == (403, "forbidden")  # nobody's: claim it first
    token = ada.post("/follow-ups/claim", json={"agent": "ada"}).json()["token"]
    for verb in ("heartbeat", "complete", "cancel", "release"):
        assert code(bob.post(f"{path}/{verb}", json={"token": token})) == (403, "forbidden")
        assert code(bob.post(f"{path}/{verb}", json={"token": "x"})) == (409, "claim_lost")
    assert ada.post(f"{path}/complete", json={"token": token}).status_code == 200
    assert worker.post(f"{path}/cancel").status_code == 409


# what is wrong

ALL = {"kind": "work_items.all_in", "in": ["completed"]}
WRONG: list[tuple[Json, str]] = [
    ({}, "trigger"),
    ({"trigger": []}, "trigger"),
    ({"trigger": {}}, "trigger.kind"),
    ({"trigger": {"kind": "work_item.gone"}}, "trigger.kind"),
    ({"trigger": {**FAILS, "to": ["lost"]}}, "trigger.to"),
    ({"trigger": {**FAILS, "to": []}}, "trigger.to"),
    ({"trigger": {**FAILS, "tpye": "chore"}}, "trigger.tpye"),
    ({"trigger": {**FAILS, "project_id": "none-such"}}, "trigger.project_id"),
    ({"trigger": {**ALL, "items": ["none-such"]}}, "trigger.items"),
    ({"trigger": ALL}, "trigger.items"),
    ({"trigger": {"kind": "time", "at": "2001-01-01T00:00:00Z"}}, "trigger.at"),
    ({"trigger": {"kind": "time", "after": "5x"}}, "trigger.after"),
    ({"trigger": {"kind": "run.finished", "outcome": "running"}}, "trigger.outcome"),
    ({"trigger": {"kind": "source.event", "fields": 1}}, "trigger.fields"),
    ({"trigger": FAILS, "work_item_id": "none-such"}, "work_item_id"),
    ({"trigger": FAILS, "work_item_id": ""}, "work_item_id"),
    ({"trigger": FAILS, "action": {"kind": "explode"}}, "action.kind"),
    ({"trigger": FAILS, "action": {"kind": "notify"}}, "action.url"),
    ({"trigger": FAILS, "action": {"kind": "submit", "title": "{item.x}"}}, "action.title"),
    ({"trigger": FAILS, "action": {"kind": "submit", "priority": "x"}}, "action.priority"),
    ({"trigger": FAILS, "action": {"kind": "submit", "project_id": "x"}}, "action.project_id"),
    ({"trigger": FAILS, "action": {"kind": "hold", "title": "x"}}, "action.title"),
    ({"trigger": FAILS, "max_fires": 0}, "max_fires"),
    ({"trigger": FAILS, "max_fires": "2"}, "max_fires"),
    ({"trigger": FAILS, "max_depth": 101}, "max_depth"),
    ({"trigger": FAILS, "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ({"trigger": FAILS, "expires_at": "soon"}, "expires_at"),
    ({"trigger": FAILS, "name": "Not A Name"}, "name"),
    ({"trigger": FAILS, "colour": "red"}, "colour"),
]


@on_both_databases
def test_what_is_wrong_is_refused_with_its_field_and_nothing_is_stored(
    http: httpx2.Client,
) -> None:
    for body, place in WRONG:
        for path in ("/signals", "/signals/test"):
            answer = http.post(path, json=body)
            assert answer.status_code == 422, (body, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert field(answer) == place, (body, answer.text)
    broken = http.post("/signals", content=b"{", headers={"Content-Type": "application/json"})
    assert code(broken) == (400, "bad_json")
    assert http.get("/signals").json() == []
    assert http.get("/events").json() == []


def test_wrong_filters_are_refused_with_their_name(http: httpx2.Client) -> None:
    for path in ("/signals", "/signals/firings", "/follow-ups"):
        bad = http.get(path, params={"status": "gone"})
        assert (code(bad), field(bad)) == ((422, "invalid_input"), "status")
        assert len(bad.json()["allowed"]) >= 4
        assert code(http.get(path, params={"colour": "red"})) == (422, "invalid_input")
    for path in ("/signals", "/signals/firings", "/follow-ups"):
        for cursor in ("x' OR 1=1", "abc", "a" * 17, "ÿ"):
            assert code(http.get(path, params={"cursor": cursor})) == (400, "bad_cursor"), path
    assert code(http.get("/signals/none-such")) == (404, "not_found")
    assert code(http.get("/follow-ups/none-such")) == (404, "not_found")


def test_wrong_words_about_a_follow_up_are_refused(
    http: httpx2.Client, served: Served, tick: Tick
) -> None:
    path = f"/follow-ups/{a_follow_up(http, served, tick)['id']}"
    for body, place in (
        ({"outcome": "great"}, "outcome"),
        ({"notes": "\x00"}, "notes"),
        ({"notes": 5}, "notes"),
        ({"tokn": "x"}, "tokn"),
    ):
        answer = http.post(f"{path}/complete", json=body)
        assert (answer.status_code, field(answer)) == (422, place)
    assert field(http.post(f"{path}/release", json={})) == "token"
    for body, place in (({}, "agent"), ({"agent": "A B"}, "agent")):
        assert field(http.post("/follow-ups/claim", json=body)) == place
    short = {"agent": "ada", "lease_seconds": 0}
    assert field(http.post("/follow-ups/claim", json=short)) == "lease_seconds"
    assert http.get(path).json()["status"] == "open"


def test_what_was_retried_is_held_every_time_that_it_comes_back(
    http: httpx2.Client, served: Served, tick: Tick
) -> None:
    item = an_item(http)
    comes_back = {"kind": "work_item.status.transition", "to": "queued", "from": "failed"}
    made(http, {**comes_back, "type": "chore"}, {"kind": "hold"}, max_fires=None)
    for _ in range(2):
        bring(served, item, Status.FAILED)
        assert tick() == 0
        served.run(lambda: served.ledger.queue.apply(Order(Verb.RETRY, item, "me")))
        assert tick() == 1
        assert http.get(f"/work/{item}").json()["hold_reason"].startswith("held by signal")
        http.post(f"/work/{item}/unhold")


@pytest.mark.parametrize("part", ["trigger", "action"])
def test_a_kind_that_is_missing_is_called_missing(http: httpx2.Client, part: str) -> None:
    whole = {"trigger": {"kind": "time", "after": "1h"}, "action": {"kind": "submit"}}
    answer = http.post("/signals", json=whole | {part: {}})
    assert (answer.status_code, answer.json()["code"]) == (422, "missing_requirement")
    assert answer.json()["detail"].startswith(f"{part}.kind: it is missing; there are ")
