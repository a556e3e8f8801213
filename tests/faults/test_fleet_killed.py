"""A fleet whose server is killed again and again: every item is completed, and once."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.fleet_site import Site, schedule, site

AGENTS = ("smith", "jones", "ada", "bob", "eve")
ITEMS = 60
KILLS = 4
LIFE = (1.0, 3.0)  # seconds that a server works before it is killed


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        yield made


@pytest.mark.early
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_every_item_is_completed_once_though_the_server_is_killed(
    request: pytest.FixtureRequest, place: Site, where: str, figure: Callable[[str], None]
) -> None:
    if where == "postgres":
        place.variables["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    chance = random.Random()
    lines = {f"line{n}": schedule() for n in range(3)}
    # Who dies between a claim and the run that it is for leaves nothing but the lease.
    defaults = {
        "work_source": {"type": "queue", "lease_seconds": 10},
        "schedules": lines,
        "instances": {"max_concurrent": 3},
    }
    place.configure(*(place.agent(name, **defaults) for name in AGENTS))
    # Dying with one's server costs an attempt, and nobody shall run out of them here.
    items = [
        place.add(f"Item {n}", f"nap {chance.uniform(0, 0.3):.2f}", words=("--max-attempts", "9"))
        for n in range(ITEMS)
    ]
    node = place.up()
    for _ in range(KILLS):
        time.sleep(chance.uniform(*LIFE))  # the moment is what is drawn; nothing is waited for
        node.kill()
        node.start()
    place.eventually(lambda: len(completed(place)) == ITEMS, "not all are completed", seconds=120)
    assert completed(place) == set(items)
    accepted = Counter(
        one["work_item_id"] for one in place.events() if one["type"] == "work.completed"
    )
    assert accepted == Counter(items)
    runs = place.json("run", "list", "--limit", "1000")
    succeeded = Counter(one["work_item_id"] for one in runs if one["status"] == "succeeded")
    assert succeeded == Counter(items)
    statuses = Counter(one["status"] for one in runs)
    assert set(statuses) <= {"succeeded", "lost"}
    node.stop()
    assert place.alive() == []
    figure(
        f"{ITEMS} items, {len(AGENTS)} agents, {KILLS} kills: {statuses['lost']} runs lost with"
        f" their server, {len(accepted)} items completed once each, 0 processes left"
    )


def completed(place: Site) -> set[str]:
    found = place.json("list", "--status", "completed", "--limit", "1000")
    return {one["id"] for one in found}
