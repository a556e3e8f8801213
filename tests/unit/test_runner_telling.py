"""What a run is told of its item."""

from pathlib import Path

from rota.client.worker_run import told_item
from rota.model.fleet import AgentSpec, Limits
from rota.model.runs import Run, RunStatus
from rota.model.schedules import TriggerKind
from rota.runner.telling import request_for

NOW = "2026-05-01T12:00:00.000000Z"


def test_an_agent_gets_the_type_and_the_payload_of_an_item_of_the_queue() -> None:
    item = told_item(
        {
            "id": "i-1", "type": "report", "description": "Write it", "labels": ["a"],
            "payload": {"week": 7}, "priority": 2, "status": "in_progress",
            "created_at": NOW, "updated_at": NOW,
        }
    )  # fmt: skip
    run = Run(
        "r-1", "ann", "often", TriggerKind.SCHEDULE, None, "node", "i-1", 1, "Write it", 1,
        NOW, None, RunStatus.RUNNING,
    )  # fmt: skip
    request = request_for(AgentSpec("ann"), run, Path("log"), item=item, limits=Limits())
    told = request.context["item"]
    assert (told["id"], told["title"]) == ("i-1", "Write it")
    assert (told["metadata"]["type"], told["metadata"]["payload"]) == ("report", {"week": 7})
