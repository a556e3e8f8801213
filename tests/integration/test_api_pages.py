"""Pages that end where an answer would become too large."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from rota.api import pages
from rota.client import SyncWorkQueueClient
from rota.model.runs import OutboxEntry
from rota.model.schedules import TriggerKind
from rota.model.sources import StateNote
from rota.queue.views import Page, Query
from rota.storage.port import Transaction
from rota.testing.served import Served

Json = dict[str, Any]
on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def add(http: httpx2.Client, **fields: Any) -> None:
    made = http.post("/work", json={"type": "chore", "description": "do it", **fields})
    assert made.status_code == 201, made.text


def every_page(http: httpx2.Client, path: str) -> list[list[Json]]:
    found, where = [], path
    while where:
        answer = http.get(where)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        where = answer.links.get("next", {}).get("url", "")
    return found


def items(http: httpx2.Client, served: Served) -> None:
    for number in range(11):
        add(http, priority=number % 3 + 1, body="b" * 300 * (number % 4))


def runs(http: httpx2.Client, served: Served) -> None:
    for _ in range(11):
        served.run(lambda: served.ledger.runs.begin("ann", TriggerKind.SCHEDULE))


def signals(http: httpx2.Client, served: Served) -> None:
    for number in range(11):
        action = {"kind": "submit", "title": "t", "body": "b" * (1 + 300 * (number % 4))}
        trigger = {"kind": "work_item.status.transition", "to": ["failed"]}
        made = http.post("/signals", json={"trigger": trigger, "action": action})
        assert made.status_code == 201, made.text


def agents(http: httpx2.Client, served: Served) -> None:
    for number in range(51):
        http.patch(f"/agents/a{number:02}", json={"max_concurrent": 2}).raise_for_status()


def sources(http: httpx2.Client, served: Served) -> None:
    def body(tx: Transaction) -> None:
        for number in range(51):
            tx.note_source_state(f"github:mill/m{number:02}", StateNote())

    served.run(lambda: served.store.transact(body))


def tokens(http: httpx2.Client, served: Served) -> None:
    for number in range(51):
        served.run(lambda number=number: served.ledger.tokens.create(f"t{number}", ["read"]))
    _, secret = served.run(lambda: served.ledger.tokens.create("boss", ["admin"]))
    http.headers["authorization"] = f"Bearer {secret}"


def letters(http: httpx2.Client, served: Served) -> None:
    """Due in the other order than they were written in, several of them at a time."""
    at = [f"2026-05-01T0{9 - number // 10}:00:00.000000Z" for number in range(51)]
    posted = [
        OutboxEntry(f"l{number:02}", "report", "ann", "x", {}, at[0], 0, at[number])
        for number in range(51)
    ]

    def body(tx: Transaction) -> None:
        for one in posted:
            tx.post(one)

    served.run(lambda: served.store.transact(body))


def buried(http: httpx2.Client, served: Served) -> None:
    letters(http, served)

    def body(tx: Transaction) -> None:
        for number in range(51):
            tx.bury(f"l{number:02}", "2026-05-01T09:00:00.000000Z", "gone")

    served.run(lambda: served.store.transact(body))


SMALL_LISTS: dict[str, tuple[Callable[[httpx2.Client, Served], None], str]] = {
    "/agents": (agents, "name"),
    "/sources": (sources, "source"),
    "/tokens": (tokens, "id"),
    "/outbox": (letters, "id"),
    "/outbox?buried=true": (buried, "id"),
}


@on_both_databases
@pytest.mark.parametrize("path", SMALL_LISTS)
def test_lists_that_are_mostly_short_have_pages_too(
    http: httpx2.Client, served: Served, path: str
) -> None:
    made, key = SMALL_LISTS[path]
    made(http, served)
    and_then = "&" if "?" in path else "?"
    whole = [one[key] for one in http.get(f"{path}{and_then}limit=1000").json()]
    assert len(set(whole)) == len(whole) >= 51
    assert [len(page) for page in every_page(http, path)] == [50, len(whole) - 50]
    for limit in (1, 7, 50):
        found = every_page(http, f"{path}{and_then}limit={limit}")
        assert [one[key] for page in found for one in page] == whole
        assert max(map(len, found)) == limit
    for wrong in ("limit=0", "limit=1001", "page=2"):
        answer = http.get(f"{path}{and_then}{wrong}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_the_client_reads_short_lists_to_their_end(http: httpx2.Client, served: Served) -> None:
    agents(http, served)
    letters(http, served)
    with SyncWorkQueueClient(served.url) as client:
        assert len(client.agents()) == len(client.outbox()) == 51
        assert len(client.outbox(limit=7)) == 7


def test_a_place_in_the_outbox_that_was_not_handed_out_is_refused(http: httpx2.Client) -> None:
    for wrong in ("x", "%00/x"):
        answer = http.get(f"/outbox?cursor={wrong}")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


LISTS: dict[str, tuple[Callable[[httpx2.Client, Served], None], str]] = {
    "/work?limit=9": (items, "id"),
    "/work?limit=1000&since=2020-01-01T00:00:00Z": (items, "id"),
    "/work?limit=1000&q=do": (items, "id"),
    "/events?limit=1000": (items, "seq"),
    "/runs?limit=1000": (runs, "id"),
    "/signals?limit=1000": (signals, "id"),
}


@on_both_databases
@pytest.mark.parametrize("path", LISTS)
def test_a_page_ends_where_its_room_does_and_nothing_is_lost_or_told_twice(
    http: httpx2.Client, served: Served, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    made, key = LISTS[path]
    made(http, served)
    whole = [one[key] for one in http.get(path.replace("limit=9", "limit=1000")).json()]
    monkeypatch.setattr(pages, "MOST_BYTES", 1_500)
    monkeypatch.setattr(pages, "PIECE", 4)
    found = every_page(http, path)
    assert [one[key] for page in found for one in page] == whole
    assert len(whole) == 11
    assert len(found) > 2
    assert all(found), "no page is empty"


def test_a_page_is_some_megabytes_at_most_however_large_its_items_are(
    http: httpx2.Client,
) -> None:
    for _ in range(9):
        add(http, body="b" * 499_000, payload={"a": "p" * 255_000})
    first = http.get("/work?limit=1000")
    assert len(first.content) <= 4 * 1024 * 1024
    assert len(first.json()) == 5
    assert [len(page) for page in every_page(http, "/work?limit=1000")] == [5, 4]


def test_what_has_no_room_alone_is_a_page_of_its_own(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_BYTES", 10)
    for _ in range(3):
        add(http)
    assert [len(page) for page in every_page(http, "/work")] == [1, 1, 1]


def test_the_last_page_leads_nowhere(http: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PIECE", 2)
    assert [len(page) for page in every_page(http, "/work")] == [0]
    for _ in range(4):
        add(http)
    for limit, lengths in ((1, [1] * 4), (2, [2, 2]), (3, [3, 1]), (4, [4]), (1000, [4])):
        assert [len(page) for page in every_page(http, f"/work?limit={limit}")] == lengths


def test_no_more_is_read_than_there_is_room_for(
    http: httpx2.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    usual = served.ledger.views.items

    async def noted(query: Query) -> Page:
        asked.append(query.limit)
        return await usual(query)

    for _ in range(12):
        add(http, body="b" * 1_000)
    monkeypatch.setattr(served.ledger.views, "items", noted)
    monkeypatch.setattr(pages, "PIECE", 3)
    monkeypatch.setattr(pages, "MOST_BYTES", 6_000)
    assert len(http.get("/work?limit=1000").json()) == 3
    assert asked == [3, 3]
    assert [len(page) for page in every_page(http, "/work?limit=1000")] == [3, 3, 3, 3]
