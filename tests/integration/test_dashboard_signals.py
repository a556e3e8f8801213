"""The page of signals: what waits, what has fired, what failed, and what is asked to be done."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from rota.api import ApiSettings
from rota.dashboard import dashboard_endpoints
from rota.dashboard import signals as signals_page
from rota.dashboard.errors import error_page
from rota.model.signals import SignalStatus
from rota.model.status import Status
from rota.signals.processor import MOST_ATTEMPTS
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from rota.testing.standing import WAY, order
from tests.integration.markup import HOSTILE, Element, Markup, demand_harmless

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
Json = dict[str, Any]
Look = Callable[..., Markup]
Tick = Callable[[], int]

BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}
FAILS = {"kind": "work_item.status.transition", "to": ["failed"]}


@pytest.fixture
def served(database: str, clock: ManualClock, tmp_path: Path) -> Iterator[Served]:
    with serve(
        database, ApiSettings(remember_seconds=0), clock=clock, logs=tmp_path / "runs",
        endpoints=lambda signals: dashboard_endpoints(signals=signals), error_page=error_page,
    ) as made:  # fmt: skip
        yield made


@pytest.fixture
def look(http: httpx2.Client) -> Look:
    def get(show: str = "active", before: str = "", **headers: str) -> Markup:
        answer = http.get(
            "/ui/signals",
            params={"show": show, "before": before},
            headers={"cookie": "rota_zone=Europe/Berlin", **headers},
        )
        assert answer.status_code == 200, answer.text
        page = Markup(answer.text)
        demand_harmless(page, answer.text)
        return page

    return get


def words(element: Element) -> str:
    return re.sub(r"\s+", " ", element.text).strip()


def calls(page: Markup) -> dict[str, str]:
    """What the buttons do, by their words."""
    return {
        words(one): unquote(one["data-call"])
        for one in page.all("button")
        if "data-call" in one.attributes
    }


def an_item(http: httpx2.Client, title: str = "Mend the gate", **more: Any) -> str:
    body = {"type": "chore", "description": title, **more}
    return str(http.post("/work", json=body).json()["id"])


def made(http: httpx2.Client, trigger: Json, action: Json | None = None, **more: Any) -> str:
    body = {"trigger": trigger, **({"action": action} if action else {}), **more}
    answer = http.post("/signals", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def bring(served: Served, item: str, status: Status) -> None:
    async def through() -> None:
        for verb in WAY[status]:
            await served.ledger.queue.apply(order(verb, item))

    served.run(through)


def failed_firing(http: httpx2.Client, served: Served, tick: Tick, clock: ManualClock) -> str:
    """Of a signal that wakes somebody who is not there."""
    item = an_item(http, "Mow the lawn")
    signal = made(
        http, FAILS, {"kind": "trigger", "agent": "nobody", "schedule": "look"},
        work_item_id=item, name="wake-nobody",
    )  # fmt: skip
    bring(served, item, Status.FAILED)
    for _ in range(MOST_ATTEMPTS + 1):
        assert tick() == 0
        clock.advance(400)
    return signal


@on_both_databases
def test_a_signal_says_when_it_fires_and_what_follows(
    http: httpx2.Client, look: Look, clock: ManualClock
) -> None:
    project = http.post("/projects", json={"name": "The garden"}).json()["id"]
    item, other = an_item(http), an_item(http, "Paint the fence")
    first = made(
        http, {**FAILS, "project_id": project}, {"kind": "hold", "reason": "wait"}, name="watch",
        max_fires=3, expires_at=clock.text(86_400),
    )  # fmt: skip
    clock.advance(60)
    all_in = {"kind": "work_items.all_in", "items": [item, other], "in": ["completed"]}
    second = made(http, all_in, {"kind": "submit", "title": "Release"}, max_fires=None)
    clock.advance(60)
    third = made(http, BLOCKS, work_item_id=item)
    page = look()
    ids = [one["id"] for one in page.all("li") if one.attributes.get("class") == "signal"]
    assert ids == [f"s-{third}", f"s-{second}", f"s-{first}"]  # the newest first
    told = words(page.by_id(f"s-{first}"))
    for said in (
        "watch active",
        "When An item of the project The garden becomes failed",
        "Then The item is held: wait",
        "Fired 0 of 3",
        "expires in 23h",
        "created 2m ago by",
        first,
    ):
        assert said in told, (said, told)
    assert f"/?project_id={project}" in [one["href"] for one in page.by_id(f"s-{first}").all("a")]
    told = words(page.by_id(f"s-{second}"))
    assert "unnamed active" in told
    assert "When All of 2 items are completed Mend the gate Paint the fence" in told
    assert "Fired 0 times, without a limit" in told
    links = [one["href"] for one in page.by_id(f"s-{third}").all("a")]
    assert links == [f"/items/{item}"]
    assert calls(page) == {"Cancel": f"DELETE /signals/{first}"}  # of the last of them
    assert len([one for one in page.all("button") if words(one) == "Cancel"]) == 3


def test_a_time_is_told_in_the_viewers_zone_and_the_file_is_named(
    http: httpx2.Client, served: Served, look: Look, clock: ManualClock
) -> None:
    made(http, {"kind": "time", "at": "2026-07-01T10:00:00Z"}, {"kind": "submit"})
    new = served.signals.read(FAILS, {"kind": "hold"}, name="of-the-file", configured=True)
    served.run(lambda: served.signals.sync([new]))
    page = look()
    assert "When It is 2026-07-01 12:00 CEST" in words(page.by_id("signals"))
    assert "of-the-file active rota.yaml" in words(page.by_id("signals"))
    served.run(lambda: served.signals.sync([]))
    assert "of-the-file" not in look().text
    told = http.get("/events", params={"type": "work.signal.cancelled"}).json()
    assert [(one["actor"], one["payload"]["name"]) for one in told] == [
        ("configuration", "of-the-file")
    ]


def test_a_time_beyond_the_viewers_calendar_does_not_cost_the_page(
    http: httpx2.Client, look: Look
) -> None:
    made(http, {"kind": "time", "at": "9999-12-31T23:59:59Z"}, {"kind": "submit"})
    assert "When It is 9999-12-31 23:59 UTC" in words(look().by_id("signals"))


@on_both_databases
def test_what_has_fired_is_told_apart_from_what_waits(
    http: httpx2.Client, served: Served, look: Look, tick: Tick, clock: ManualClock
) -> None:
    item = an_item(http)
    waits = made(http, FAILS, work_item_id=item)
    fires = made(http, BLOCKS, {"kind": "follow_up", "title": "Find the key"}, work_item_id=item)
    gone = made(http, FAILS)
    assert http.delete(f"/signals/{gone}").status_code == 204
    bring(served, item, Status.BLOCKED)
    assert tick() == 1
    clock.advance(120)
    active, fired, everything = look(), look(show="fired"), look(show="all")
    assert (active.has(f"s-{waits}"), active.has(f"s-{fires}")) == (True, False)
    assert (fired.has(f"s-{waits}"), fired.has(f"s-{fires}")) == (False, True)
    assert all(everything.has(f"s-{one}") for one in (waits, fires, gone))
    assert "fired" in words(fired.by_id(f"s-{fires}"))
    assert "Fired 1 of 1 last 2m ago" in words(fired.by_id(f"s-{fires}"))
    assert "Cancel" not in calls(fired)


@on_both_databases
def test_pages_go_back_to_older_signals(
    http: httpx2.Client, look: Look, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals_page, "SIGNALS_A_PAGE", 2)
    ids = []
    for _ in range(5):
        clock.advance(1)
        ids.append(made(http, FAILS))
    page, seen = look(), []
    for _ in range(3):
        seen += [one["id"].removeprefix("s-") for one in page.all("li") if "id" in one.attributes]
        if not page.has("older"):
            break
        address = page.by_id("older")["href"]
        page = look(**dict(pair.split("=") for pair in address.partition("?")[2].split("&")))
    assert seen == ids[::-1]
    assert page.by_id("newest")["href"] == "/ui/signals?show=active"


def test_a_firing_that_failed_says_why_and_can_be_tried_again(
    http: httpx2.Client, served: Served, look: Look, tick: Tick, clock: ManualClock
) -> None:
    signal = failed_firing(http, served, tick, clock)
    assert words(look().by_id("tab-failed")) == "Failed 1"
    page = look(show="failed")
    (firing,) = [one for one in page.all("li") if one["id"].startswith(f"f-{signal}")]
    told = words(firing)
    assert told.startswith("wake-nobody failed Retry")
    assert "there is no schedule nobody/look" in told
    assert f"about Mow the lawn {MOST_ATTEMPTS} tries" in told
    method, path = calls(page)["Retry"].split(" ")
    assert http.request(method, path, json={}).status_code == 200
    assert not [one for one in look(show="failed").all("li") if one["id"].startswith("f-")]
    assert served.run(lambda: served.signals.get(signal)).signal.status is SignalStatus.ACTIVE


def test_follow_ups_say_who_has_them_and_how_they_are_taken(
    http: httpx2.Client, served: Served, look: Look, tick: Tick, clock: ManualClock
) -> None:
    for title, agent in (("Find the key", None), ("Ask the owner", "ada")):
        item = an_item(http, f"Open the gate: {title}")
        action = {"kind": "follow_up", "title": title, **({"agent": agent} if agent else {})}
        made(http, BLOCKS, action, work_item_id=item)
        http.patch(f"/agents/{agent or 'x'}", json={"max_concurrent": 9})
        http.patch("/agents/ada", json={"max_concurrent": 9})
        bring(served, item, Status.BLOCKED)
        assert tick() == 1
        clock.advance(60)
    part = look().by_id("follow-ups")
    assert "rota follow-up claim --agent NAME" in words(part)
    assert "Open the gate: Find the key open any agent none" in words(part)
    assert "Open the gate: Ask the owner open for ada none" in words(part)
    taken = http.post("/follow-ups/claim", json={"agent": "bob", "lease_seconds": 900}).json()
    told = words(look().by_id(f"u-{taken['id']}"))
    assert "leased held by bob ends in 15m" in told
    clock.advance(1_000)
    assert "lapsed 1m ago" in words(look().by_id(f"u-{taken['id']}"))
    method, path = calls(look())["Done"].split(" ")
    assert http.request(method, path, json={}).status_code == 200
    assert "Ask the owner" not in words(look().by_id("follow-ups"))


def test_an_empty_page_teaches(look: Look) -> None:
    assert "rota signal add --on-status failed" in look().text
    assert "rota follow-up claim --agent NAME" in look().text
    assert "No firing has failed" in look(show="failed").text
    assert "No signal has fired" in look(show="fired").text


def test_it_hears_of_every_change_of_signals_and_follow_ups(look: Look) -> None:
    page = look()
    (body,) = page.all("body")
    assert body["data-live"].split() == ["work.signal.", "work.follow_up."]
    parts = {one["id"] for one in page.elements if "data-part" in one.attributes}
    assert {"tabs", "signals", "follow-ups"} <= parts
    dialog = page.by_id("cancel-signal")
    assert dialog not in page.by_id("signals").inside


def test_hostile_words_stay_words(
    http: httpx2.Client, served: Served, look: Look, tick: Tick
) -> None:
    http.patch("/agents/ada", json={"max_concurrent": 50})
    for text in HOSTILE:
        item = an_item(http, text)
        action = {"kind": "follow_up", "title": re.sub(r"[{}]", "", text)}
        made(http, BLOCKS, action, work_item_id=item)
        made(http, {**FAILS, "type": text, "label": text}, {"kind": "hold", "reason": text})
        bring(served, item, Status.BLOCKED)
    assert tick() == len(HOSTILE)
    for show in ("active", "fired", "all"):
        look(show=show)
    assert HOSTILE[0] in look().by_id("follow-ups").text
    assert f"An item of type {HOSTILE[0]}" in look().text


def test_readers_look_and_are_offered_nothing(
    http: httpx2.Client, served: Served, look: Look
) -> None:
    made(http, FAILS)
    _, secret = served.run(lambda: served.ledger.tokens.create("r", ("read",)))
    page = look(authorization=f"Bearer {secret}")
    assert "An item becomes failed" in page.text
    assert calls(page) == {}


def test_what_is_no_tab_and_no_place_is_refused(http: httpx2.Client) -> None:
    for query, status in (({"show": "lost"}, 422), ({"before": "x' OR 1=1"}, 400)):
        answer = http.get("/ui/signals", params=query, headers={"accept": "application/json"})
        assert answer.status_code == status
