"""What `rota up` proposes to add: something that its fleet would take."""

import pytest

from rota.app.fleet import wish_of
from rota.model.fleet import AgentSpec, Fleet
from rota.model.schedules import Schedule, ScheduleType

CHORE, PAINTING = "--type chore", "--type paint --label 'old house'"


def agent(name: str, source: dict[str, object] | None, **plan: object) -> AgentSpec:
    return AgentSpec(
        name,
        work_source=source,
        schedules=(Schedule(name, "often", ScheduleType.INTERVAL, **plan),),  # type: ignore[arg-type]
    )


QUEUE: dict[str, object] = {"type": "queue"}
PAINT: dict[str, object] = {"type": "queue", "types": ["paint", "sand"], "labels": ["old house"]}


@pytest.mark.parametrize(
    ("agents", "wish"),
    [
        ([], CHORE),
        ([agent("a", None)], CHORE),
        ([agent("a", QUEUE)], CHORE),
        ([agent("a", {"type": "github", "repo": "a/b"})], CHORE),
        ([agent("a", PAINT)], PAINTING),
        ([agent("a", PAINT), agent("b", QUEUE)], CHORE),
        ([agent("a", QUEUE, work_source=PAINT)], PAINTING),
        ([agent("a", {**QUEUE, "project_id": "p"})], "--type chore --project p"),
        ([AgentSpec("for-workers", work_source=QUEUE), agent("b", PAINT)], PAINTING),
    ],
)
def test_the_next_step_is_one_that_leads_somewhere(agents: list[AgentSpec], wish: str) -> None:
    assert wish_of(Fleet(agents=tuple(agents))) == wish
