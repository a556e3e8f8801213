"""What `rota up` proposes to do next: to add what its fleet takes, or to look where its work is."""

import pytest

from rota.app.fleet import next_step
from rota.model.fleet import AgentSpec, Fleet
from rota.model.schedules import Schedule, ScheduleType

CHORE, PAINTING = (
    f'add {options} "Say hello"' for options in ("--type chore", "--type paint --label 'old house'")
)


def agent(name: str, source: dict[str, object] | None, **plan: object) -> AgentSpec:
    return AgentSpec(
        name,
        work_source=source,
        schedules=(Schedule(name, "often", ScheduleType.INTERVAL, **plan),),  # type: ignore[arg-type]
    )


GITHUB: dict[str, object] = {"type": "github", "repo": "a/b"}
QUEUE: dict[str, object] = {"type": "queue"}
PAINT: dict[str, object] = {"type": "queue", "types": ["paint", "sand"], "labels": ["old house"]}


@pytest.mark.parametrize(
    ("agents", "wish"),
    [
        ([], CHORE),
        ([agent("a", None)], "schedule list"),
        ([agent("a", None), agent("b", PAINT)], PAINTING),
        ([agent("a", None), agent("b", GITHUB)], "source list"),
        ([agent("a", QUEUE)], CHORE),
        ([agent("a", GITHUB)], "source list"),
        ([agent("a", GITHUB), agent("b", QUEUE)], CHORE),
        ([agent("a", PAINT)], PAINTING),
        ([agent("a", PAINT), agent("b", QUEUE)], CHORE),
        ([agent("a", QUEUE, work_source=PAINT)], PAINTING),
        ([agent("a", {**QUEUE, "project_id": "p"})], 'add --type chore --project p "Say hello"'),
        ([AgentSpec("for-workers", work_source=QUEUE), agent("b", PAINT)], PAINTING),
    ],
)
def test_the_next_step_is_one_that_leads_somewhere(agents: list[AgentSpec], wish: str) -> None:
    assert next_step(Fleet(agents=tuple(agents))) == wish


def test_the_next_step_finds_this_server_and_its_file() -> None:
    fleets = (Fleet(agents=(agent("a", GITHUB),)), Fleet(agents=(agent("a", None),)), Fleet())
    steps = [next_step(one, " --state-dir s", " --config c") for one in fleets]
    assert steps == [
        "source list --state-dir s --config c",
        "schedule list --state-dir s",
        'add --state-dir s --type chore "Say hello"',
    ]
