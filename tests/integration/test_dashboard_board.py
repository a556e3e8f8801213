"""The board as the server makes it: what a reader without script sees, and what scripts ask for."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx2
import pytest

from rota.cli.items import add
from rota.dashboard import dashboard_endpoints
from rota.model.status import Status
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from rota.testing.standing import bring_to
from tests.integration.markup import Markup


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 5, 1, 22, 30, tzinfo=UTC))


@pytest.fixture
def served(tmp_path: object, clock: ManualClock) -> Iterator[Served]:
    with serve(
        f"sqlite:///{tmp_path}/rota.db", clock=clock, endpoints=dashboard_endpoints()
    ) as running:
        yield running


def titles(page: str) -> list[str]:
    return [piece.partition("<")[0] for piece in page.split('draggable="false">')[1:]]


def test_a_reader_without_script_sees_every_column_and_the_next_page(
    served: Served, http: httpx2.Client
) -> None:
    for number in range(35):
        served.run(
            lambda n=number: bring_to(served.ledger.queue, Status.QUEUED, description=f"n{n}")
        )
    page = http.get("/").text
    assert titles(page) == [f"n{number}" for number in range(30)]
    more = page.partition('<a class="more" href="')[2].partition('"')[0].replace("&amp;", "&")
    rest = http.get(more)
    assert titles(rest.text) == [f"n{number}" for number in range(30, 35)]
    assert 'class="more"' not in rest.text
    assert "No agent is working" in page


def test_done_today_begins_at_midnight_where_the_viewer_is(
    served: Served, http: httpx2.Client, clock: ManualClock
) -> None:
    served.run(lambda: bring_to(served.ledger.queue, Status.COMPLETED, "ann", description="late"))
    clock.advance(3600)  # 23:30 in Greenwich, 01:30 in Berlin
    served.run(lambda: bring_to(served.ledger.queue, Status.COMPLETED, "ben", description="early"))
    assert titles(http.get("/").text) == ["early", "late"]
    berlin = {"cookie": "rota_zone=Europe%2FBerlin"}
    assert titles(http.get("/", headers=berlin).text) == ["early", "late"]
    clock.advance(3600)  # half past midnight in Greenwich
    assert titles(http.get("/").text) == []
    assert titles(http.get("/", headers=berlin).text) == ["early", "late"]
    for nonsense in ("Nowhere/At_All", "../../etc/passwd", "", "%00", ";;"):
        assert http.get("/", headers={"cookie": f"rota_zone={nonsense}"}).status_code == 200


def test_cards_are_given_as_they_stand_and_only_those_that_the_filters_show(
    served: Served, http: httpx2.Client
) -> None:
    queue = served.ledger.queue
    bug = served.run(lambda: bring_to(queue, Status.BLOCKED, type="bug", description="Bug 7%"))
    gone = served.run(lambda: bring_to(queue, Status.CANCELLED, description="gone"))
    ids = {"id": [bug.id, gone.id, "nobody"]}
    assert titles(http.get("/board", params=ids).text) == ["Bug 7%"]
    for shown in ({"type": "bug"}, {"q": "bUG 7%"}, {"agent": "ada"}, {"need": "person"}):
        assert titles(http.get("/board", params=ids | shown).text) == ["Bug 7%"]
    for hidden in ({"type": "chore"}, {"q": "7_"}, {"agent": "bob"}, {"label": "x"}):
        answer = http.get("/board", params=ids | hidden).text
        assert titles(answer) == []
        assert '<span class="count" data-of="blocked">0</span>' in answer


def test_a_filter_that_nothing_matches_says_so_and_can_be_cleared(
    served: Served, http: httpx2.Client
) -> None:
    served.run(lambda: bring_to(served.ledger.queue, Status.QUEUED, labels=("red",)))
    page = http.get("/", params={"label": "blue"}).text
    assert page.count("No item here matches the filter.") == 7
    assert page.count('<a href="/">Clear the filter</a>') == 7
    for claim in ("No item is waiting", "No item has failed", "No agent is working"):
        assert claim not in page
        assert claim in http.get("/").text
    alone = http.get("/board/queued", params={"label": "blue"}).text
    assert '<a href="/board/queued">Clear the filter</a>' in alone
    assert "Items that need your help appear here" in http.get("/", params={"need": "person"}).text


def test_a_column_without_items_says_what_to_do_next(http: httpx2.Client) -> None:
    page = Markup(http.get("/board/queued").text)
    assert 'rota add "Say hello"' in page.by_id("column").text


def test_a_card_shows_the_labels_that_one_can_filter_by(
    served: Served, http: httpx2.Client
) -> None:
    labels = ("blue", "<b>red</b>", "so-long-that-nobody-would-read-it", "x", "y")
    served.run(lambda: bring_to(served.ledger.queue, Status.QUEUED, labels=labels))
    page = Markup(http.get("/").text)
    shown = [one.text for one in page.elements if one.attributes.get("class") == "label"]
    assert shown == ["blue", "<b>red</b>", "so-long-that-nobody-wou…", "+2"]


def test_an_item_is_added_with_the_type_that_the_command_gives_it(http: httpx2.Client) -> None:
    (kind,) = (one for one in add.params if one.name == "kind")
    fields = Markup(http.get("/").text).by_id("new-item").all("input")
    assert {one["name"]: one.attributes.get("value") for one in fields}["type"] == kind.default


@pytest.mark.parametrize(
    ("address", "status"),
    [("/board/nowhere", 404), ("/board/cancelled", 404), ("/board/queued?cursor=x", 400),
     ("/?colour=red", 422), ("/?need=money", 422), ("/board?" + "id=a&" * 201, 422),
     ("/icon/abc", 404), ("/static/x/nothing.js", 404), ("/static/x/..%2f__init__.py", 404)],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(http: httpx2.Client, address: str, status: int) -> None:
    assert http.get(address).status_code == status


def test_files_of_this_edition_are_kept_and_others_are_not(http: httpx2.Client) -> None:
    style = http.get("/").text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    kept, other = http.get(style), http.get("/static/old/base.css")
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert other.headers["cache-control"] == "no-store"
    assert kept.content == other.content
    assert kept.headers["content-type"] == "text/css"


def test_the_icon_says_how_many_need_a_person(http: httpx2.Client) -> None:
    assert "<text" not in http.get("/icon/0").text
    assert ">7</text>" in http.get("/icon/7").text
    assert ">99+</text>" in http.get("/icon/123").text
