"""What is watched from outside: a server's figures, and the dashboard and alerts on them."""

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from rota.api.metrics import MOST_AGENTS, OTHERS, Metrics
from rota.model.agents import Agent, AgentLoad
from rota.model.runs import RunStatus, Tally
from rota.model.sources import SourceState
from rota.model.statistics import Spread
from rota.model.status import Status
from rota.model.vitals import PostFigures, Vitals
from rota.testing.served import Served
from tests.docs.pages import DOCS
from tests.docs.test_reference import rows

ROOT = Path(__file__).parents[2]
ALERTS, DASHBOARD = ROOT / "deploy/prometheus/alerts.yml", ROOT / "deploy/grafana/rota.json"
VITALS = Vitals(
    {Status.COMPLETED: 2},
    Spread(2, 1.0, 2.0),
    (
        Tally("ada", RunStatus.FAILED, 1, 60.0, 120, 0.5),
        Tally("ada", RunStatus.LOST, 2, 3.0, 4, 0.25),
    ),
    {"ada": 1},
    (AgentLoad(Agent("ada"), 1, 0, 3),),
    30.0,
    20.0,
    (PostFigures("report", 2, "2026-05-01T12:00:00.000000Z", 1),),
    32.0,
)
SOURCE = SourceState("github:a/b", None, None, None, None, None, 7, 10, 100, None)

Found = dict[tuple[str, tuple[str, ...]], float]


def read(text: str) -> Found:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def rendered(vitals: Vitals = VITALS) -> Found:
    metrics = Metrics()
    metrics.answered("GET", "/work", 200, 0.01)
    return read(metrics.render({"queued": 1}, "1", "sqlite", [SOURCE], vitals).decode())


def test_what_the_ledger_tells_is_spelled_out() -> None:
    found = rendered()
    assert found["rota_items_ended_last_hour", ("completed",)] == 2
    assert found["rota_lead_time_seconds", ("0.9",)] == 2.0
    assert found["rota_runs_last_hour", ("ada", "lost")] == 2
    assert found["rota_run_seconds_last_hour", ("ada",)] == 63.0
    assert found["rota_run_cost_usd_last_hour", ("ada",)] == 0.75
    assert found["rota_run_tokens_last_hour", ("ada",)] == 124
    assert found["rota_runs_open", ("ada",)] == 1
    assert found["rota_agent_items_in_progress", ("ada",)] == 1
    assert found["rota_agent_items_in_review", ("ada",)] == 3
    late = [
        found[f"rota_{name}_seconds", ()]
        for name in ("schedule_lateness", "signal_lateness", "outbox_oldest")
    ]
    assert late == [30.0, 20.0, 32.0]
    assert (found["rota_outbox_waiting", ("report",)], found["rota_outbox_dead", ("report",)]) == (
        2, 1,
    )  # fmt: skip


def test_names_of_agents_have_a_bound() -> None:
    many = tuple(AgentLoad(Agent(f"a{n:04}"), 1, 0) for n in range(MOST_AGENTS + 5))
    found = rendered(Vitals(agents=many))
    told = {labels: value for (name, labels), value in found.items() if "_in_progress" in name}
    assert len(told) == MOST_AGENTS + 1
    assert told[OTHERS,] == 5


def test_a_server_tells_what_is_so(served: Served, http: httpx2.Client) -> None:
    made = http.post("/work", json={"type": "chore", "description": "x"}).json()
    [got] = http.post("/work/claim", json={"agent": "ada"}).json()
    assert got["id"] == made["id"]
    http.post(f"/work/{made['id']}/complete", json={"token": got["claim"]["token"]})
    found = read(http.get("/metrics").text)
    assert found["rota_items_ended_last_hour", ("completed",)] == 1
    assert found["rota_outbox_oldest_seconds", ()] == 0
    assert found["rota_websocket_connections", ()] == 0


def named(expression: str) -> set[str]:
    return set(re.findall(r"rota_[a-z_]+", expression))


def expressions() -> list[str]:
    dashboard: Any = json.loads(DASHBOARD.read_text())
    shown = [one["expr"] for panel in dashboard["panels"] for one in panel["targets"]]
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [*shown, *(rule["expr"] for group in groups for rule in group["rules"])]


@pytest.mark.parametrize("expression", expressions())
def test_dashboard_and_alerts_name_figures_that_exist(expression: str) -> None:
    assert named(expression)
    assert named(expression) <= {name for name, _ in rendered()}
    assert expression.count("(") == expression.count(")")


def test_the_panels_of_the_dashboard_do_not_lie_on_each_other() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_every_alert_is_described_and_says_what_to_do() -> None:
    rules = [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    page = DOCS / "howto/monitoring.md"
    assert {alert for alert, *_ in rows(page, "alert", "says", "first look")} == {
        rule["alert"] for rule in rules
    }
    for rule in rules:
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
