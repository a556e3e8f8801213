"""What a `rota.yaml` declares, while its server and others on the database come and go."""

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fleet_site import Node, Site, site


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, DATABASE_URL=f"sqlite:///{tmp_path}/shared.db") as made:
        yield made


def when(trigger: dict[str, Any], title: str, **facts: Any) -> dict[str, Any]:
    return {"when": trigger, "then": {"kind": "submit", "title": title}, **facts}


CANCELLED = {"kind": "work_item.status.transition", "to": "cancelled"}


def standing(place: Site) -> list[tuple[str, str]]:
    return [(one["name"], one["status"]) for one in place.json("signal", "list")]


def titles(place: Site) -> list[str]:
    return sorted(one["description"] for one in place.json("list"))


def declared_in_time(place: Site, node: Node) -> str:
    """A machine that is busy may need a longer while."""
    for seconds in (1, 5, 20):
        at = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        place.configure(signals={"remind": when({"kind": "time", "at": at}, "Look")})
        if not node.ask("POST", "/config/reload")[1]["warnings"]:
            return at
    raise AssertionError(node.log)


def test_a_moment_comes_once_however_often_the_server_is_started(place: Site) -> None:
    place.configure()
    node = place.up()
    at = declared_in_time(place, node)
    place.eventually(lambda: titles(place) == ["Look"] or None, "it did not come")
    assert node.stop() == 0
    place.type("config", "check")
    node.start()
    place.configure(
        signals={
            "remind": when({"kind": "time", "at": at}, "Look"),
            "missed": when({"kind": "time", "at": "2020-01-01"}, "Too late"),
        }
    )
    node.signal(signal.SIGHUP)
    place.eventually(lambda: "had passed before any server knew" in node.log, "nothing is said")
    node.kill()
    node.start()
    assert node.log.count("signals.missed") == 2
    assert "signals.remind" not in node.log
    assert standing(place) == [("remind", "fired")]
    assert titles(place) == ["Look"]


def test_one_that_has_fired_all_it_may_stays_so_over_restarts_and_reloads(place: Site) -> None:
    once = when(CANCELLED, "Why?", max_fires=1)
    place.configure(signals={"once": once})
    node = place.up()
    place.type("cancel", place.add("a"))
    place.eventually(lambda: standing(place) == [("once", "fired")] or None, "it did not fire")
    node.kill()
    node.start()
    place.configure(signals={"once": once, "often": when(CANCELLED, "And?")})
    node.signal(signal.SIGHUP)
    place.eventually(lambda: len(standing(place)) == 2 or None, "the file was not read")
    place.type("cancel", place.add("b"))
    place.eventually(lambda: "And?" in titles(place) or None, "the other did not fire")
    assert titles(place).count("Why?") == 1


def test_a_second_server_cancels_nothing_of_the_first(place: Site) -> None:
    place.configure(signals={"stuck": when(CANCELLED, "Why?")})
    node = place.up()
    other, bare = (place.place / name for name in ("other", "bare"))
    other.mkdir()
    (other / "rota.yaml").write_text(json.dumps({"signals": {"theirs": when(CANCELLED, "x")}}))
    second = place.node(other).start()
    third = place.node(bare, "--no-agents").start()
    assert standing(place) == [("stuck", "active"), ("theirs", "active")]
    for one in (node, second, third):
        assert one.stop() == 0
    second.start()
    third.start()
    assert standing(place) == [("stuck", "active"), ("theirs", "active")]
    place.configure()
    node.start()
    assert standing(place) == [("stuck", "cancelled"), ("theirs", "active")]
