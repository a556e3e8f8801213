"""The page of an item: what it shows, what it offers, and what it lets nobody slip in."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings
from rota.dashboard import dashboard_endpoints
from rota.dashboard.errors import error_page
from rota.dashboard.items import DEEDS, FORCED
from rota.dashboard.markdown import LONGEST_RENDERED, rendered, web_address
from rota.model.runs import RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.model.sources import Mirrored
from rota.model.status import Status, Verb, allowed_from
from rota.model.work import NewItem
from rota.signals import SignalScheduler
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from tests.integration.markup import HOSTILE, Markup, demand_harmless

Json = dict[str, Any]


@pytest.fixture
def served(database: str, clock: ManualClock, tmp_path: Path) -> Iterator[Served]:
    settings, pages = ApiSettings(remember_seconds=0), dashboard_endpoints()
    with serve(
        database, settings, clock=clock, logs=tmp_path / "runs", endpoints=pages,
        error_page=error_page,
    ) as made:  # fmt: skip
        yield made


@pytest.fixture
def look(http: httpx2.Client) -> Callable[..., Markup]:
    def get(item: Json, **headers: str) -> Markup:
        answer = http.get(f"/items/{item['id']}", headers=headers)
        assert answer.status_code == 200, answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        page = Markup(answer.text)
        demand_harmless(page, answer.text)
        return page

    return get


def add(http: httpx2.Client, description: str = "Mend the gate", **more: Any) -> Json:
    answer = http.post("/work", json={"type": "chore", "description": description, **more})
    assert answer.status_code == 201, answer.text
    made: Json = answer.json()
    return made


def do(http: httpx2.Client, item: Json, verb: str, **body: Any) -> Json:
    answer = http.post(f"/work/{item['id']}/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    moved: Json = answer.json()
    return moved


WAYS: dict[Status, list[tuple[str, Json]]] = {
    Status.QUEUED: [],
    Status.DISPATCHED: [("dispatch", {"assigned_agent": "ann"})],
    Status.IN_PROGRESS: [("dispatch", {"assigned_agent": "ann"}), ("start", {})],
}
WAYS[Status.BLOCKED] = [*WAYS[Status.IN_PROGRESS], ("block", {"notes": "which one?"})]
WAYS[Status.IN_REVIEW] = [
    *WAYS[Status.IN_PROGRESS],
    ("hand_over", {"artifact_url": "https://example.org/pull/3"}),
]
WAYS[Status.COMPLETED] = [*WAYS[Status.IN_PROGRESS], ("complete", {"notes": "done"})]
WAYS[Status.FAILED] = [*WAYS[Status.IN_PROGRESS], ("fail", {"notes": "no"})]
WAYS[Status.CANCELLED] = [("cancel", {})]

# What a person fills in where a dialog asks.
FILLED: dict[Verb, Json] = {
    Verb.DISPATCH: {"assigned_agent": "ann"},
    Verb.BLOCK: {"notes": "for the key"},
    Verb.HAND_OVER: {"artifact_url": "https://example.org/pull/4"},
}


def brought_to(http: httpx2.Client, status: Status) -> Json:
    item = add(http)
    for verb, body in WAYS[status]:
        item = do(http, item, verb, **body)
    assert item["status"] == status
    return item


def verbs(page: Markup) -> dict[str, str]:
    """Which are offered, and what their buttons call."""
    buttons = [one for one in page.all("button") if "data-verb" in one.attributes]
    return {one["data-verb"]: one["data-call"] for one in buttons}


def fields(page: Markup, dialog: str) -> set[str]:
    inside = page.by_id(dialog).inside
    return {one["name"] for one in inside if "name" in one.attributes}


# what it offers


@pytest.mark.parametrize("status", Status)
def test_an_item_offers_the_verbs_of_its_status_and_each_of_them_works(
    http: httpx2.Client, look: Callable[..., Markup], status: Status
) -> None:
    http.patch("/agents/ann", json={"max_concurrent": 9}).raise_for_status()
    offered = verbs(look(brought_to(http, status)))
    assert offered.keys() == set(allowed_from(status))
    for verb in allowed_from(status):
        item = brought_to(http, status)
        page = look(item)
        method, path = verbs(page)[verb].split(" ")
        body = FILLED.get(verb, {})
        if DEEDS[verb].asks:
            assert body.keys() | {"notes"} == fields(page, f"dialog-{verb}")
        answer = http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == allowed_from(status)[verb]


def test_a_claim_is_ended_only_by_who_says_so(
    http: httpx2.Client, look: Callable[..., Markup]
) -> None:
    add(http)
    (item,) = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    page = look(item)
    assert item["claim"]["token"] not in page.text
    for one in page.elements:
        assert item["claim"]["token"] not in one.attributes.values()
    asking = {
        verb for verb in Verb if DEEDS[verb].asks and "force" in fields(page, f"dialog-{verb}")
    }
    assert asking == FORCED
    boxes = [one for one in page.all("input") if one.attributes.get("name") == "force"]
    assert all("required" in box.attributes for box in boxes)
    for verb in FORCED:
        refused = http.post(f"/work/{item['id']}/{verb}", json=FILLED.get(verb, {}))
        assert (refused.status_code, refused.json()["code"]) == (409, "claimed")
    assert do(http, item, "release", force=True)["status"] == "queued"
    assert "force" not in fields(look(item), "dialog-release")


def test_a_question_of_a_run_is_answered_and_not_resumed(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    add(http)
    (item,) = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    known = served.run(lambda: served.ledger.views.item(item["id"]))
    served.run(lambda: served.ledger.runs.begin("ann", TriggerKind.SCHEDULE, item=known))
    do(http, item, "block", token=item["claim"]["token"], notes="Which gate?")
    page = look(item)
    assert list(verbs(page)) == ["release", "fail"]
    answer = page.by_id("verb-release")
    assert (answer.text, "main" in answer["class"]) == ("Answer…", True)
    assert answer["data-dialog"] == "dialog-answer"
    assert fields(page, "dialog-answer") == {"notes"}
    assert "rota resume" not in page.by_id("explain").text
    assert do(http, item, "release", notes="The one in front.")["status"] == "queued"
    assert look(item).by_id("notes").text == "Latest noteThe one in front."


def test_holds_notes_and_edits_are_offered_where_they_are_possible(
    http: httpx2.Client, look: Callable[..., Markup]
) -> None:
    item = add(http, labels=["a", "b"], priority=2)
    edit = look(item).by_id("edit")
    assert (edit["data-title"], edit["data-priority"]) == ("Mend the gate", "2")
    assert edit["data-labels"] == "a\nb"
    do(http, item, "hold", reason="not before Monday")
    held = look(item)
    assert held.has("unhold")
    assert not held.has("hold")
    assert "not before Monday" in held.by_id("explain").text
    http.delete(f"/work/{item['id']}")
    ended = look(item)
    assert not ended.has("unhold")
    assert ended.has("note")


def test_a_token_that_may_only_read_sees_no_buttons(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    add(http)
    (item,) = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    secrets = {
        scope: served.run(lambda scope=scope: served.ledger.tokens.create(scope, [scope]))[1]
        for scope in ("read", "work", "agent:bob", "dispatch")
    }

    def seen(scope: str) -> Markup:
        return look(item, authorization=f"Bearer {secrets[scope]}")

    reader = seen("read")
    assert not verbs(reader)
    assert not any(reader.has(one) for one in ("note", "edit", "hold"))
    assert "scope work" in reader.by_id("actions").text
    worker = seen("work")
    assert verbs(worker).keys() == set(allowed_from(Status.IN_PROGRESS))
    assert "force" not in fields(worker, "dialog-release")
    assert "scope dispatch" in worker.by_id("dialog-release").text
    assert not verbs(seen("agent:bob"))
    assert "force" in fields(seen("dispatch"), "dialog-release")


def test_an_item_of_a_source_is_not_taken_past_it(
    served: Served, look: Callable[..., Markup]
) -> None:
    def mirrored(number: str, address: str) -> Json:
        new = NewItem(
            "issue", "From outside", payload={"url": address}, source="github:o/r",
            source_ref=number,
        )  # fmt: skip
        served.run(lambda: served.ledger.outside.mirror([Mirrored(new)]))
        found = served.run(
            lambda: served.store.read(lambda tx: tx.outside_item("github:o/r", number))
        )
        assert found is not None
        return {"id": found.id}

    good = look(mirrored("7", "https://github.com/o/r/issues/7"))
    assert "dispatch" not in verbs(good)
    assert "through its source" in good.by_id("actions").text
    assert good.by_id("source")["href"] == "https://github.com/o/r/issues/7"
    bad = look(mirrored("8", "javascript:alert(1)"))
    assert bad.by_id("source").tag == "span"


# what it shows


def test_an_unknown_item_is_a_page_that_says_so(http: httpx2.Client) -> None:
    for unknown in ("nope", "01a1e348-0c4b-7000-ba14-d6383e1c5c07", "%3Cscript%3E", "a" * 300):
        answer = http.get(f"/items/{unknown}", headers={"accept": "text/html"})
        assert answer.status_code == 404
        page = Markup(answer.text)
        demand_harmless(page, answer.text)
        assert "There is no" in page.text or "there is no" in page.text


def test_the_page_tells_how_it_came_to_this(
    http: httpx2.Client, look: Callable[..., Markup]
) -> None:
    blocker = add(http, "Find the key")
    item = add(http, blocked_by=[blocker["id"]])
    waits = look(item)
    assert "Why is nobody working on this?" in waits.by_id("explain").text
    assert f"/items/{blocker['id']}" in [one["href"] for one in waits.by_id("explain").all("a")]
    assert "see what keeps that one: rota explain" in waits.by_id("explain").text
    commands = [one.text for one in waits.by_id("explain").all("code")]
    assert f"rota explain {blocker['id']}" in commands  # alone, to be pasted
    assert "Find the key" in waits.by_id("waits-for").text
    assert "Mend the gate" in look(blocker).by_id("blocks").text
    http.patch(f"/work/{item['id']}", json={"blocked_by": []})
    do(http, item, "dispatch", assigned_agent="ann", notes="she has the oil")
    do(http, item, "start")
    do(http, item, "block", notes="the hinge is gone", reason="no_part")
    page = look(item)
    told = [" ".join(one.text.split()) for one in page.by_id("timeline").all("li")]
    assert all(part in told[0] for part in ("in progress → blocked", "by local", "no part"))
    assert "the hinge is gone" in told[0]
    assert "she has the oil" in told[2]
    assert "submitted" in told[-1]
    assert "ann" in page.by_id("dispatches").text
    assert "the hinge is gone" in page.by_id("explain").text
    assert not page.has("notes"), "once is enough"


def test_old_events_are_behind_a_click_and_very_old_ones_in_the_log(
    http: httpx2.Client, look: Callable[..., Markup]
) -> None:
    item = add(http)
    for number in range(30):
        do(http, item, "note", notes=f"note {number}")
    timeline = look(item).by_id("timeline")
    (older,) = timeline.all("details")
    assert "16 older events" in older.text
    assert "note 29" not in older.text
    assert "note 0" in older.text
    for _ in range(170):
        do(http, item, "note", notes="again")
    assert f"/events?work_item_id={item['id']}" in look(item).by_id("timeline").all("a")[-1]["href"]


def test_signals_and_follow_ups_are_shown_with_who_has_them(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    item = brought_to(http, Status.IN_PROGRESS)
    signal = {
        "work_item_id": item["id"],
        "trigger": {"kind": "work_item.status.transition", "to": ["blocked"]},
        "action": {"kind": "follow_up", "title": "Ask <b>the neighbour</b>", "agent": "bob"},
    }
    assert http.post("/signals", json=signal).status_code == 201
    assert "to blocked: follow up" in look(item).by_id("signals").text
    do(http, item, "block", notes="gone")
    served.run(lambda: SignalScheduler(served.store, owner="test").tick())
    made = look(item)
    assert "for bob" in made.by_id("follow-ups").text
    (fired, *_) = [" ".join(one.text.split()) for one in made.by_id("timeline").all("li")]
    assert fired == "0s ago signal fired unnamed: a follow-up was made"
    assert "fired 1 time" in made.by_id("signals").text
    taken = http.post("/follow-ups/claim", json={"agent": "bob"}).json()
    page = look(item)
    assert "Ask <b>the neighbour</b>" in page.by_id("follow-ups").text
    assert "held by bob" in page.by_id("follow-ups").text
    assert taken["token"] not in str(page.elements)


def test_what_a_signal_did_is_told_with_links_and_not_with_ids(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    item = brought_to(http, Status.IN_PROGRESS)
    signal = {
        "name": "why",
        "work_item_id": item["id"],
        "trigger": {"kind": "work_item.status.transition", "to": ["failed"]},
        "action": {"kind": "submit", "title": "Why?"},
    }
    made = http.post("/signals", json=signal).json()
    do(http, item, "fail", notes="no")
    served.run(lambda: SignalScheduler(served.store, owner="test").tick())
    (asked,) = http.get("/work", params={"status": "queued"}).json()
    fired, _, created, *_ = look(item).by_id("timeline").all("li")
    assert " ".join(fired.text.split()) == "0s ago signal fired why: a new item was submitted"
    assert [one["href"] for one in fired.all("a")] == [
        f"/ui/signals?show=all#s-{made['id']}",
        f"/items/{asked['id']}",
    ]
    assert " ".join(created.text.split()) == "0s ago signal created why by local"
    links = http.get(f"/work/{item['id']}").json()["links"]
    assert [one["id"] for one in links["followed_by"]] == [asked["id"]]
    (after,), (before,) = (
        look(item).by_id("followed-by").all("a"),
        look(asked).by_id("follows").all("a"),
    )
    assert (after["href"], after.text) == (f"/items/{asked['id']}", "Why?")
    assert before["href"] == f"/items/{item['id']}"


def test_a_reason_that_is_also_the_note_is_shown_once(
    http: httpx2.Client, look: Callable[..., Markup]
) -> None:
    add(http)
    (item,) = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    said = {"reason": "attempt 1 failed: boom", "notes": "attempt 1 failed: boom"}
    do(http, item, "release", token=item["claim"]["token"], **said)
    released, *_ = look(item).by_id("timeline").all("li")
    assert released.text.count("boom") == 1


def test_what_a_run_said_in_its_end_is_not_said_four_times(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    add(http)
    (item,) = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    known = served.run(lambda: served.ledger.views.item(item["id"]))
    runs = served.ledger.runs
    run = served.run(lambda: runs.begin("ann", TriggerKind.SCHEDULE, item=known))
    end = RunEnd(RunStatus.FAILED, summary="looking", error="it exited with 1: boom")
    served.run(lambda: runs.end(run, end))
    note = "looking\n\nError: it exited with 1: boom"
    do(http, item, "fail", token=item["claim"]["token"], notes=note)
    page = look(item)
    assert "looking; Error: it exited with 1: boom" in page.by_id("explain").text
    failed, ended, *_ = page.by_id("timeline").all("li")
    assert "boom" in ended.text
    assert "boom" not in failed.text
    assert page.by_id("main").text.count("it exited with 1: boom") == 2
    more = do(http, item, "retry", notes="looking\n\nError: it exited with 1: boom\nTake the oil.")
    assert "Take the oil." in look(more).by_id("timeline").all("li")[0].text


def test_a_claim_counts_down_and_a_late_result_is_kept_to_be_seen(
    http: httpx2.Client, served: Served, clock: ManualClock, look: Callable[..., Markup]
) -> None:
    add(http, max_attempts=5)
    (item,) = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 600}).json()
    token = item["claim"]["token"]
    http.post(f"/work/{item['id']}/heartbeat", json={"token": token, "progress": "2 of 3"})
    claim = look(item).by_id("claim")
    assert "ann, slot 0" in claim.text
    assert "2 of 3" in claim.text
    (lease,) = [one for one in claim.all("time") if one["data-form"] == "left"]
    assert lease.text == "in 10m"
    assert "1 of 5" in look(item).by_id("facts").text
    clock.advance(601)
    served.run(served.ledger.sweeper.tick)
    late = http.post(
        f"/work/{item['id']}/complete", json={"token": token, "notes": "it squeaks no more"}
    )
    assert late.status_code == 409
    page = look(item)
    assert "it squeaks no more" in page.by_id("late").text
    assert not page.has("claim")
    assert token not in str(page.elements)


def test_runs_of_the_item_are_listed_and_the_latest_speaks(
    http: httpx2.Client, served: Served, clock: ManualClock, look: Callable[..., Markup]
) -> None:
    made = add(http)
    assert "No run has started yet" in look(made).by_id("log-panel").text
    item = served.run(lambda: served.ledger.views.item(made["id"]))
    runs = served.ledger.runs

    def begin() -> Any:
        clock.advance(1)
        return served.run(lambda: runs.begin("ann", TriggerKind.SCHEDULE, item=item))

    first = begin()
    clock.advance(90)
    served.run(lambda: runs.end(first, RunEnd(RunStatus.FAILED, usage=Usage(1, 2, 0.5))))
    second = begin()
    runs.log(second.id).parent.mkdir(exist_ok=True)
    runs.log(second.id).write_text(
        json.dumps({"ts": "2026-01-01T00:00:00Z", "text": "hello"}) + "\n"
    )
    page = look(made)
    rows = [" ".join(one.text.split()) for one in page.by_id("runs").all("tr")[1:]]
    assert "running" in rows[0]
    assert rows[1].endswith("failedann1m$0.50")
    assert "cost: $0.50" in page.by_id("timeline").text
    assert "cost usd" not in page.by_id("timeline").text
    assert page.by_id("runs").all("a")[0]["href"] == f"/ui/runs/{second.id}"
    assert page.by_id("log-head")["data-run"] == second.id
    assert "hello" in page.by_id("log").text


# what nobody slips in


def test_hostile_words_are_text_wherever_they_come_from(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    items = [
        add(http, text, type=text[:100], body=text, labels=[text[:100]], payload={text: [text]},
            created_by=text)
        for text in HOSTILE
    ]  # fmt: skip
    for text, item in zip(HOSTILE, items, strict=True):
        do(http, item, "hold", reason=text)
        do(http, item, "unhold")
        do(http, item, "dispatch", assigned_agent="ann", notes=text, reason=text)
        do(http, item, "start")
        do(http, item, "block", notes=text, reason=text)
        page = look(item)  # nothing in it is a link, a script, an attribute: see `demand_harmless`
        links = {one["href"] for one in page.by_id("main").all("a")}
        assert {one for one in links if not one.startswith("/")} == set(), links
        for place in ("item-head", "explain", "timeline", "raw"):
            assert text in page.by_id(place).text, place
        assert json.loads(page.by_id("payload").all("pre")[0].text) == {text: [text]}
        assert page.by_id("edit")["data-title"] == text
        do(http, item, "release")
        assert text in look(item).by_id("notes").text
        http.delete(f"/work/{item['id']}")


def test_huge_words_do_not_make_a_huge_page_slow(
    http: httpx2.Client, look: Callable[..., Markup]
) -> None:
    item = add(
        http, "x" * 10_000, body="![" * 250_000, payload=["y" * 250_000], labels=["z" * 100] * 1
    )
    page = look(item)
    assert len(page.all("h1")[0].text) <= 200
    assert page.by_id("whole-title").text == "x" * 10_000
    assert not page.has("body")
    assert "500,000 characters" in page.by_id("raw").text
    assert len(page.all("title")[0].text) < 100


def test_markdown_becomes_html_without_loading_anything() -> None:
    page = Markup(
        "<html>"
        + str(
            rendered(
                "# One\n## Two\n\nsee https://e.org/a?b=1&c=2, [it](https://e.org 'a\"b'),"
                " <mailto:a@b.org>\n\n![shot](https://e.org/x.png)"
                " [![in](https://e.org/y.png)](https://e.org/z)\n\n"
                "|a|b|\n|:-|-:|\n|1|2|\n\n```js\n<b>\n```\n\n~~old~~ <i>no</i>"
            )
        )
        + "</html>"
    )
    demand_harmless(page, "")
    tags = {one.tag for one in page.elements}
    assert {"h3", "h4", "table", "pre", "s"} <= tags
    assert not tags & {"img", "i", "b", "h1", "h2"}
    assert [one["href"] for one in page.all("a")] == [
        "https://e.org/a?b=1&c=2", "https://e.org", "mailto:a@b.org", "https://e.org/x.png",
        "https://e.org/z",
    ]  # fmt: skip
    assert "image: shot" in page.text
    assert "<i>no</i>" in page.text
    assert rendered("x" * LONGEST_RENDERED) is not None
    assert rendered("x" * (LONGEST_RENDERED + 1)) is None


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)", "data:text/html,x", "ftp://e.org", "//e.org", "/work", None, 7,
        "https://", "https:///x", "https://[", "https://good.org@e.org", "https://e.org\\@x",
        "https://e.org/ x", "https://e.org\n", "\thttps://e.org", 'https://e.org/"x',
        "https://e\u202eorg", "https://e.org/" + "x" * 2000,
    ],
)  # fmt: skip
def test_only_plain_web_addresses_become_links(text: object) -> None:
    assert web_address(text) is None
    assert web_address("HTTPS://Example.org:8443/a?b#c") == "HTTPS://Example.org:8443/a?b#c"
