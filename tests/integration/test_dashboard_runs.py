"""The pages of runs: the list with its filters, and one run with its log."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings
from rota.dashboard import dashboard_endpoints, run_logs
from rota.dashboard.errors import error_page
from rota.dashboard.run_logs import LINES_SHOWN
from rota.dashboard.runs import RUNS_A_PAGE
from rota.model.runs import Run, RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.queue.ledger import Ledger
from rota.storage.schedule_port import Node
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from tests.integration.markup import HOSTILE, Markup, demand_harmless


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
    def get(path: str, **headers: str) -> Markup:
        answer = http.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        page = Markup(answer.text)
        demand_harmless(page, answer.text)
        return page

    return get


def begun(served: Served, agent: str = "ann", **facts: Any) -> Run:
    return served.run(lambda: served.ledger.runs.begin(agent, TriggerKind.SCHEDULE, **facts))


def ended(served: Served, run: Run, status: RunStatus = RunStatus.SUCCEEDED, **how: Any) -> None:
    served.run(lambda: served.ledger.runs.end(run, RunEnd(status, **how)))


def write(served: Served, run: Run, *entries: object) -> Path:
    path = served.ledger.runs.log(run.id)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in entries))
    return path


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"ts": "2026-01-01T23:30:00.000000Z", "stream": "stdout", "text": text, **more}


def shown(page: Markup) -> list[str]:
    rows = page.by_id("runs").inside
    return [
        one["id"].removeprefix("run-") for one in rows if one.tag == "tr" and "id" in one.attributes
    ]


def lines(page: Markup) -> list[str]:
    rows = page.by_id("log").inside
    return [one.text for one in rows if one.attributes.get("class", "").startswith("line")]


# the list


def test_filters_and_pages_of_runs_are_links_that_keep_each_other(
    served: Served, clock: ManualClock, look: Callable[..., Markup]
) -> None:
    teaching = look("/ui/runs")
    assert "rota schedule trigger" in teaching.text
    ids = []
    for number in range(RUNS_A_PAGE + 3):
        clock.advance(1)
        run = begun(served, schedule="night & day")
        ended(served, run, RunStatus.FAILED if number % 2 else RunStatus.LOST)
        ids.insert(0, run.id)
    other = begun(served, "bob", schedule="look")
    address = "/ui/runs?agent=ann&schedule=night+%26+day&status=failed,lost"
    first = look(address)
    assert shown(first) == ids[:RUNS_A_PAGE]
    assert not first.has("newest")
    second = look(first.by_id("older")["href"])
    assert shown(second) == ids[RUNS_A_PAGE:]
    assert not second.has("older")
    assert shown(look(second.by_id("newest")["href"])) == ids[:RUNS_A_PAGE]
    inputs = {one["name"]: one["value"] for one in first.by_id("run-filters").all("input")}
    assert inputs == {"agent": "ann", "schedule": "night & day"}
    assert shown(look("/ui/runs?agent=bob&schedule=&status=")) == [other.id]
    went_wrong = first.by_id("run-filters").all("option")[1]
    assert other.id not in shown(look(f"/ui/runs?status={went_wrong['value']}"))
    assert "No run matches the filter" in look("/ui/runs?agent=nobody").text


def test_a_filter_that_means_nothing_is_explained(http: httpx2.Client) -> None:
    for query in ("status=bogus", "cursor=bogus", "colour=red"):
        answer = http.get(f"/ui/runs?{query}", headers={"accept": "text/html"})
        assert answer.status_code == 422, query
        assert query.partition("=")[0] in Markup(answer.text).by_id("main").text.lower()


def test_a_list_tells_what_each_run_was_about_and_has_cost(
    http: httpx2.Client, served: Served, clock: ManualClock, look: Callable[..., Markup]
) -> None:
    item_id = http.post("/work", json={"type": "chore", "description": "Mend"}).json()["id"]
    item = served.run(lambda: served.ledger.views.item(item_id))
    run = begun(served, item=item, schedule="look")
    clock.advance(150)
    ended(served, run, RunStatus.FAILED, error="<b>no key</b>", usage=Usage(1000, 234, 0.125))
    running = begun(served)
    page = look("/ui/runs")
    texts = [[cell.text.strip() for cell in row.all("td")] for row in page.by_id("runs").all("tr")]
    assert texts[1][1:5] == ["running", "ann", "", "none"]
    assert texts[2][1:4] == ["failed", "ann", "look"]
    assert texts[2][4] == "Mend<b>no key</b>"
    assert texts[2][5:] == ["2m", "$0.12", "1,234"]
    hrefs = [one["href"] for one in page.by_id("runs").all("a")]
    assert hrefs == [f"/ui/runs/{running.id}", f"/ui/runs/{run.id}", f"/items/{item_id}"]
    assert shown(look(f"/ui/runs?item={item_id}")) == [run.id]


def test_a_list_tells_why_a_run_failed_whoever_said_it(
    served: Served, look: Callable[..., Markup]
) -> None:
    """An agent that gives up says why in its summary; there is no error then."""
    ended(served, begun(served), RunStatus.FAILED, summary="the key is missing")
    ended(served, begun(served), RunStatus.SUCCEEDED, summary="all done")
    spans = look("/ui/runs").by_id("runs").all("span")
    said = [one.text for one in spans if "said" in one.attributes.get("class", "")]
    assert said == ["the key is missing"]


# one run


def test_a_run_tells_how_it_ended(served: Served, look: Callable[..., Markup]) -> None:
    run = begun(served, schedule="look")
    ended(
        served, run, RunStatus.PARTIAL, summary="Half of it.", error="asked twice", exit_code=3,
        session_id="s-1", usage=Usage(1000, 20, 0.0021, 3), hook_errors=("notify: exit code 1",),
        artifacts=("https://example.org/pull/1", *HOSTILE),
    )  # fmt: skip
    page = look(f"/ui/runs/{run.id}")
    text = " ".join(page.by_id("run").text.split())
    for part in ("partial", "asked twice", "Half of it.", "Exit code3", "s-1", "$0.0021", "1,000"):
        assert part in text, part
    assert "notify: exit code 1" in page.by_id("hook-errors").text
    assert [one["href"] for one in page.by_id("artifacts").all("a")] == [
        "https://example.org/pull/1"
    ]
    assert [one.text for one in page.by_id("artifacts").all("li")[1:]] == list(HOSTILE)
    assert not page.has("cancel-run")
    assert "This server has no log of the run." in page.by_id("log").text


def test_a_run_is_cancelled_by_its_button_once(
    http: httpx2.Client, served: Served, look: Callable[..., Markup]
) -> None:
    run = begun(served)
    page = look(f"/ui/runs/{run.id}")
    assert "The run has not written anything yet" in page.by_id("log").text
    button = page.by_id("cancel-run")
    assert page.has(button["data-dialog"])
    method, path = button["data-call"].split(" ")
    assert http.request(method, path, json={}).status_code == 200
    asked = look(f"/ui/runs/{run.id}")
    assert not asked.has("cancel-run")
    assert "cancellation requested" in asked.by_id("run").text
    ended(served, run, RunStatus.CANCELLED)
    assert "cancelled" in look(f"/ui/runs/{run.id}").by_id("run").text
    late = http.request(method, path, json={})
    assert (late.status_code, "has ended already" in late.json()["detail"]) == (409, True)
    reader = served.run(lambda: served.ledger.tokens.create("reader", ["read"]))[1]
    other = begun(served)
    seen = look(f"/ui/runs/{other.id}", authorization=f"Bearer {reader}")
    assert not seen.has("cancel-run")


def test_an_unknown_run_is_a_page_that_says_so(http: httpx2.Client) -> None:
    for unknown in ("nope", "%3Cscript%3E", "a" * 300):
        answer = http.get(f"/ui/runs/{unknown}", headers={"accept": "text/html"})
        assert answer.status_code == 404
        demand_harmless(Markup(answer.text), answer.text)


# its log


def test_a_log_is_read_by_people_without_script(
    served: Served, look: Callable[..., Markup]
) -> None:
    run = begun(served)
    path = write(
        served, run, said("ready", stream="rota", type="worktree"), said("I look.", type="text"),
        said("pytest -q", type="tool", tool="Bash"),
        said("\x1b[31mE 1\x1b[0m\x07", stream="stderr"),
        *(said(text) for text in HOSTILE), said("half \ud800 a letter"), ["no", "object"],
        {"text": {"a": 1}, "ts": 7, "type": ["x"]},
    )  # fmt: skip
    with path.open("ab") as file:
        file.write(b"not JSON \xff\n" + b'{"text": "half a li')
    page = look(f"/ui/runs/{run.id}", cookie="rota_zone=Europe/Berlin")
    told = lines(page)
    assert told[0] == "00:30:00rotaready"
    assert told[1] == "00:30:00I look."
    assert told[2] == "00:30:00Bashpytest -q"
    assert told[3] == "00:30:00stderrE 1"
    for text, line in zip(HOSTILE, told[4:], strict=False):
        assert line == "00:30:00" + text.replace("\x07", "").replace("\x1b", "")
    assert told[-4:] == [
        "00:30:00half ? a letter",
        '["no", "object"]',
        "['x']{'a': 1}",
        "not JSON \ufffd",
    ]
    assert page.by_id("log-head")["data-from"] == "0"
    assert page.by_id("log-download")["href"] == f"/runs/{run.id}/log"
    assert "hidden" in page.by_id("log-note").attributes


def test_of_a_long_log_the_end_is_shown_and_a_script_begins_behind_a_line(
    http: httpx2.Client,
    served: Served,
    look: Callable[..., Markup],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_logs, "END_BYTES", 64 * 1024)
    run = begun(served)
    write(
        served,
        run,
        *(said(f"line {number} {'x' * 90}") for number in range(2_000)),
        said("y" * 9_000),
    )
    ended(served, run)
    page = look(f"/ui/runs/{run.id}")
    told = lines(page)
    assert len(told) == LINES_SHOWN
    assert "line 1999 " in told[-2]
    assert told[-1].endswith("5,000 more characters")
    assert "hidden" not in page.by_id("log-note").attributes
    start = page.by_id("log-head")["data-from"]
    rest = http.get(f"/runs/{run.id}/log", params={"offset": start}).text.splitlines()
    assert int(start) > 0
    assert LINES_SHOWN < len(rest) < 600
    assert all("text" in json.loads(line) for line in rest)


def test_a_run_without_a_log_says_what_is_true_of_it(
    served: Served, clock: ManualClock, look: Callable[..., Markup]
) -> None:
    silent, absent, old = begun(served), begun(served), begun(served)
    write(served, silent)
    for run in (silent, absent, old):
        ended(served, run)

    def told(run: Run) -> str:
        return look(f"/ui/runs/{run.id}").by_id("log").text.strip()

    assert told(silent) == "The run wrote nothing."
    assert told(absent).startswith("This server has no log of the run.")
    assert "30 days" not in told(absent)
    clock.advance(31 * 24 * 3600)
    assert told(old) == "The log has been removed: logs are kept for 30 days."


def test_a_run_whose_runtime_does_not_tell_claims_no_figures(
    served: Served, look: Callable[..., Markup]
) -> None:
    run = begun(served)
    assert look(f"/ui/runs/{run.id}").by_id("usage").text == "Known when the run ends."
    ended(served, run)
    assert look(f"/ui/runs/{run.id}").by_id("usage").text == "Its runtime does not report usage."


def test_what_has_ended_is_not_followed(served: Served, look: Callable[..., Markup]) -> None:
    run = begun(served)
    assert "hidden" not in look(f"/ui/runs/{run.id}").by_id("log-follow").attributes
    ended(served, run)
    page = look(f"/ui/runs/{run.id}")
    assert "hidden" in page.by_id("log-follow").attributes
    assert "data-ended" in page.by_id("log-head").attributes


def test_a_log_on_another_node_is_said_to_be_there(
    served: Served, look: Callable[..., Markup]
) -> None:
    there = Ledger.on(served.store, node="other-node").runs
    run = served.run(lambda: there.begin("ann", TriggerKind.SCHEDULE))
    page = look(f"/ui/runs/{run.id}")
    assert "written on other-node." in page.by_id("log-empty").text
    assert "data-run" not in page.by_id("log-head").attributes
    assert not page.has("log-download")


def test_a_run_whose_server_is_gone_says_so(
    served: Served, clock: ManualClock, look: Callable[..., Markup]
) -> None:
    node = Node("other-node", "there:/", 1, clock.text(), clock.text())
    served.run(lambda: served.store.transact(lambda tx: tx.put_node(node)))
    there = Ledger.on(served.store, node=node.id).runs
    run = served.run(lambda: there.begin("ann", TriggerKind.SCHEDULE))
    words = "its server has not been seen since"
    assert words not in look(f"/ui/runs/{run.id}").by_id("run").text
    clock.advance(60)
    assert words in look(f"/ui/runs/{run.id}").by_id("run").text
