"""The overview: the same figures as numbers, as plots, as tables, as JSON and on a terminal."""

import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import datetime
from io import StringIO
from pathlib import Path

import httpx2
import pytest

from rota.cli import main
from rota.dashboard import dashboard_endpoints
from rota.dashboard.errors import error_page
from rota.model.runs import RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.model.status import Status, Verb
from rota.model.work import NewItem
from rota.queue import statistics
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from rota.testing.standing import WAY, order
from tests.acceptance.terminal import ThisProcess
from tests.integration.markup import HOSTILE, Element, Markup

PLOTS = (
    "throughput", "depth", "lead", "stays", "failures", "ends", "runs", "tokens", "cost",
)  # fmt: skip


@pytest.fixture
def served(
    database: str, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setattr(statistics, "SLOW", 1e9)
    with serve(
        database, clock=clock, logs=tmp_path / "runs", endpoints=dashboard_endpoints(),
        error_page=error_page,
    ) as made:  # fmt: skip
        yield made


Look = Callable[..., Markup]


@pytest.fixture
def look(http: httpx2.Client) -> Look:
    def get(window: str = "", **headers: str) -> Markup:
        query = {"window": window} if window else {}
        answer = http.get("/ui/overview", params=query, headers=headers)
        assert answer.status_code == 200, answer.text
        page = Markup(answer.text)
        demand_plain(page)
        return page

    return get


def demand_plain(page: Markup) -> None:
    """Nothing that the content policy forbids, and no id twice."""
    for one in page.elements:
        assert not [name for name in one.attributes if name == "style" or name.startswith("on")]
        assert one.tag not in {"style", "image", "use", "foreignobject"}
        assert one.tag != "script" or (one["src"].startswith("/static/") and not one.text)
    ids = [one["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))


def bring(served: Served, clock: ManualClock, to: Status, title: str = "x", **how: str) -> None:
    """An item that takes ten minutes for each step."""

    async def through() -> None:
        queue = served.ledger.queue
        item = await queue.submit(NewItem("chore", title))
        for verb in WAY[to]:
            clock.advance(600)
            named = how if verb in (Verb.FAIL, Verb.BLOCK) else {}
            await queue.apply(order(verb, item.id, **named))

    served.run(through)


def run(served: Served, clock: ManualClock, status: RunStatus, usd: float) -> None:
    async def through() -> None:
        begun = await served.ledger.runs.begin("ada", TriggerKind.MANUAL)
        clock.advance(60)
        await served.ledger.runs.end(begun, RunEnd(status, usage=Usage(1_000, 500, usd)))

    served.run(through)


@pytest.fixture
def scene(served: Served, clock: ManualClock) -> None:
    """From 12:00 to 14:12: two completed, one failed, one open; two runs."""
    bring(served, clock, Status.COMPLETED)
    bring(served, clock, Status.COMPLETED)
    bring(served, clock, Status.FAILED, reason=HOSTILE[0])
    bring(served, clock, Status.BLOCKED)
    run(served, clock, RunStatus.SUCCEEDED, 1.25)
    run(served, clock, RunStatus.TIMED_OUT, 0.5)


def table(page: Markup, plot: str) -> list[list[str]]:
    return [
        [cell.text for cell in row.inside if cell.tag in ("td", "th")]
        for row in page.by_id(f"t-{plot}").all("tr")
    ]


def svg(page: Markup, plot: str) -> Element:
    (found,) = [one for one in page.by_id(f"p-{plot}").all("svg") if "aria-label" in one.attributes]
    return found


@pytest.mark.usefixtures("scene")
def test_numbers_come_first_and_every_plot_has_its_table(look: Look) -> None:
    page = look()
    numbers = re.sub(r"\s+", " ", page.by_id("numbers").text)
    for words in (
        "Open 1 1 blocked", "Need a person 2", "Completed 2 in the last 24 hours; 4 created",
        "Failed 1", "Median lead time 30m", "Cost $1.75 2 runs, 3k tokens",
    ):  # fmt: skip
        assert words in numbers, words
    for plot in PLOTS:
        drawn = svg(page, plot)
        assert drawn["role"] == "img"
        assert drawn["aria-label"].endswith(".")
        assert len(table(page, plot)) > 1
    assert table(page, "throughput")[:3] == [
        ["Hour", "Created", "Completed", "Failed", "Cancelled"],
        ["14:00", "0", "0", "0", "0"],
        ["13:00", "2", "1", "1", "0"],
    ]
    assert table(page, "depth")[1:4] == [["14:00", "1"], ["13:00", "1"], ["12:00", "1"]]
    assert table(page, "lead")[1:4] == [
        ["14:00", "–", "–", "0"],
        ["13:00", "30m", "30m", "1"],
        ["12:00", "30m", "30m", "1"],
    ]
    assert table(page, "stays")[1:4] == [
        ["queued", "10m", "10m", "3"],
        ["dispatched", "10m", "10m", "3"],
        ["in progress", "10m", "10m", "3"],
    ]
    assert table(page, "ends")[1:] == [["succeeded", "1"], ["timed out", "1"]]
    assert table(page, "cost")[1] == ["14:00", "$1.75"]
    sentence = svg(page, "throughput")["aria-label"]
    assert sentence.startswith("In the last 24 hours, 2 items were completed, 1 failed and 0")
    assert table(page, "failures")[1:] == [[HOSTILE[0], "1"]]  # as text


@pytest.mark.usefixtures("scene")
def test_a_count_of_a_status_leads_to_the_items_of_that_status(
    look: Look, http: httpx2.Client
) -> None:
    links = {one.text: one["href"] for one in look().by_id("numbers").all("a")}
    page = Markup(http.get(links["1 blocked"]).text)
    assert [one["data-status"] for one in page.all("li") if "data-id" in one.attributes] == [
        "blocked"
    ]


@pytest.mark.usefixtures("scene")
def test_days_are_those_of_the_viewer(look: Look, clock: ManualClock) -> None:
    clock.advance(-3600)  # 13:12 in UTC is already tomorrow there
    week = look("7d", cookie="rota_zone=Pacific%2FAuckland")
    assert [row[0] for row in table(week, "throughput")][:3] == ["Day", "Sat 2", "Fri 1"]
    assert table(week, "throughput")[1][1:3] == ["4", "2"]
    month = look("30d", cookie="rota_zone=nonsense")
    assert [row[0] for row in table(month, "runs")][:3] == ["Day", "1 May", "30 Apr"]
    assert len(table(month, "runs")) == 31
    current = [one.text for one in month.all("a") if one.attributes.get("aria-current") == "page"]
    assert "30d" in "".join(current)


def test_an_hour_that_the_clocks_repeat_says_which_it_is(
    served: Served, look: Look, clock: ManualClock
) -> None:
    clock.advance((datetime.fromisoformat("2026-10-25T02:30Z") - clock.now()).total_seconds())
    bring(served, clock, Status.QUEUED)
    hours = [row[0] for row in table(look(cookie="rota_zone=Europe/Berlin"), "depth")]
    assert hours[1:5] == ["03:00", "02:00 CET", "02:00 CEST", "01:00"]


def test_an_empty_ledger_teaches(look: Look) -> None:
    for window in ("24h", "7d", "30d"):
        page = look(window)
        assert not [one for one in page.all("svg") if one.attributes.get("role") == "img"]
        for words in ("No item ended", 'rota add "Say hello"', "No agent ran", "no open items"):
            assert words in page.text


@pytest.mark.usefixtures("scene")
def test_it_stays_current_at_a_bounded_price(look: Look) -> None:
    page = look()
    (body,) = page.all("body")
    assert body["data-live"].split() == ["work.completed", "work.failed", "run.finished"]
    parts = {one["id"] for one in page.elements if "data-part" in one.attributes}
    assert {"numbers", *(f"p-{plot}" for plot in PLOTS)} <= parts


def test_a_window_that_is_none_is_refused(http: httpx2.Client) -> None:
    for path in ("/ui/overview", "/statistics"):
        answer = http.get(path, params={"window": "1h"}, headers={"accept": "application/json"})
        assert answer.status_code == 422
        assert "there are 24h, 7d, 30d" in answer.text
    assert http.get("/statistics", params={"zone": "Mars/Olympus"}).status_code == 422


@pytest.mark.usefixtures("scene")
def test_programs_get_the_same_figures(http: httpx2.Client, served: Served, tmp_path: Path) -> None:
    found = http.get("/statistics", params={"window": "7d", "zone": "Europe/Berlin"}).json()
    assert (found["open"], found["completed"], found["failed"]) == (1, 2, 1)
    assert found["failures"] == [{"reason": HOSTILE[0], "items": 1}]
    assert found["lead_time"] == {"measured": 2, "p50": 1800.0, "p90": 1800.0}
    assert found["runs"] == [{"status": "succeeded", "runs": 1}, {"status": "timed_out", "runs": 1}]
    assert found["spent"] == {"runs": 2, "seconds": 120.0, "tokens": 3_000, "cost_usd": 1.75}
    assert len(found["periods"]) == 7
    assert found["periods"][-1]["begins"] == "2026-04-30T22:00:00.000000Z"
    assert {one["status"]: one["items"] for one in found["open_by_status"]} == {
        "queued": 0, "dispatched": 0, "in_progress": 0, "blocked": 1, "in_review": 0,
    }  # fmt: skip
    here = ThisProcess(tmp_path, {"ROTA_URL": served.url})
    ask = ("stats", "--window", "7d", "--zone", "Europe/Berlin")
    assert here.json(*ask) == found
    piped = here.type(*ask).splitlines()
    assert len(piped) == 7
    assert piped[-1].split("\t") == [
        found["periods"][-1]["begins"], "4", "2", "1", "0", "1", "1800.0", "1800.0", "2", "3000",
        "1.75",
    ]  # fmt: skip
    assert here.json("stats")["zone"] == "UTC"  # what TZ says there
    refused = here.json("stats", "--zone", "Mars/Olympus", code=2)
    assert "Europe/Berlin, for example" in refused["message"]


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("scene")
def test_people_get_words_on_a_terminal(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", served.url)
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(Screen()) as screen:
        assert main(["stats", "--zone", "UTC"]) == 0
    told = " ".join(screen.getvalue().split())
    assert "lead time half within 30m, nine tenths within 30m" in told
    assert "time in progress half within 10m" in told
    assert "runs 1 succeeded, 1 timed_out" in told
    assert "Fri 13:00" in told
