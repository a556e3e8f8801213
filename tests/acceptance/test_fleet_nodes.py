"""Two servers with the same `rota.yaml` on one PostgreSQL: they share schedules and work."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rota.model.clock import from_text
from tests.acceptance.fleet_site import Node, Site, schedule

ITEMS = 12
NEARLY_A_SECOND = timedelta(seconds=0.95)  # the interval; clocks of one machine agree


class Pair(Site):
    """Commands are typed in the directory of neither: they open the database themselves."""

    def __init__(self, place: Path, database: str) -> None:
        super().__init__(place, DATABASE_URL=database)
        self.homes = [place / "north", place / "south"]

    def configure(self, *agents: dict[str, Any], **more: Any) -> None:
        for home in self.homes:
            home.mkdir(exist_ok=True)
            (home / "rota.yaml").write_text(json.dumps({"agents": list(agents), **more}))

    def up_both(self) -> tuple[Node, Node]:
        north, south = (self.node(home).start() for home in self.homes)
        return north, south

    def slot(self, run: dict[str, Any]) -> str:
        status, trigger = self.nodes[0].ask("GET", f"/triggers/{run['trigger_id']}")
        assert status == 200
        slot: str = trigger["slot"]
        return slot


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str) -> Iterator[Pair]:
    made = Pair(tmp_path, postgres_url)
    try:
        yield made
    finally:
        made.close()


def by_node(pair: Pair) -> Counter[str]:
    return Counter(one["node"] for one in pair.runs())


def test_they_share_the_work_and_do_nothing_twice(pair: Pair) -> None:
    crew = [pair.agent(name) for name in ("smith", "jones", "ada", "bob")]
    pair.configure(*crew)
    pair.up_both()
    items = [pair.add(f"Item {n}", "nap 0.2") for n in range(ITEMS)]
    for item in items:
        pair.await_status(item, "completed")
    assert Counter(one["item"] for one in pair.starts()) == Counter(items)
    for n in range(5 * ITEMS):  # one of them may have been quicker all the time
        if len(by_node(pair)) == 2:
            break
        pair.await_status(pair.add(f"One more: {n}"), "completed")
    assert len(by_node(pair)) == 2
    assert set(Counter(one["status"] for one in pair.runs())) == {"succeeded"}


def test_a_slot_belongs_to_one_of_them(pair: Pair) -> None:
    """Without items, so that nothing but the slot itself could keep them apart."""
    crew = [
        pair.agent(name, work_source=None, schedules={"often": schedule(prompt="PLAY: say hello")})
        for name in ("smith", "jones")
    ]
    pair.configure(*crew)
    pair.up_both()
    pair.await_start(8)
    for agent in ("smith", "jones"):
        runs = [one for one in pair.runs() if one["agent"] == agent and one["ended_at"]]
        slots = [pair.slot(one) for one in runs]
        assert len(slots) == len(set(slots))
        for before, after in pairwise(runs):
            assert from_text(after["started_at"]) - from_text(before["ended_at"]) > NEARLY_A_SECOND
    assert Counter(one["run"] for one in pair.starts()).most_common(1)[0][1] == 1


def test_one_goes_on_when_the_other_is_killed(pair: Pair) -> None:
    door = pair.place / "door"
    pair.configure(pair.agent(), pair.agent("jones"))
    north = pair.node(pair.homes[0]).start()
    item = pair.add("In the hands of the dead", f"wait_for {door}")
    first = pair.await_start()
    south = pair.node(pair.homes[1]).start()
    north.kill()
    others = [pair.add(f"Item {n}") for n in range(3)]
    for one in others:
        pair.await_status(one, "completed")
    assert pair.shown(item)["status"] == "in_progress"
    door.touch()
    north.start()
    pair.await_status(item, "completed")
    assert [one["status"] for one in pair.runs(item)] == ["lost", "succeeded"]
    assert Counter(one["item"] for one in pair.starts()) == Counter([item, item, *others])
    assert pair.kinds(item).count("work.completed") == 1
    assert first["pid"] not in pair.alive()
    assert south.process.poll() is None


@pytest.mark.long
def test_the_survivor_takes_over_what_the_dead_had_under_way(pair: Pair) -> None:
    """When the lease of its claim is over; nobody starts the dead one again."""
    door = pair.place / "door"
    pair.configure(pair.agent(work_source={"type": "queue", "lease_seconds": 20}))
    north = pair.node(pair.homes[0]).start()
    item = pair.add("In the hands of the dead", f"wait_for {door}")
    pair.await_start()
    pair.node(pair.homes[1]).start()
    north.kill()
    door.touch()
    pair.eventually(
        lambda: pair.shown(item)["status"] == "completed" or None, "nobody took over", seconds=90
    )
    # The schedule goes on as soon as the dead is known to be so; its runs are looked for in turn.
    pair.eventually(
        lambda: [one["status"] for one in pair.runs(item)] == ["lost", "succeeded"] or None,
        "the run of the dead did not end",
    )
    assert len(pair.starts()) == 2
