"""A fleet whose server is killed, stopped and reconfigured while its agents work."""

import json
import signal

import pytest

from tests.acceptance.fleet_site import Site, schedule

# kill -9


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_what_a_killed_server_had_under_way_is_done_by_its_successor(
    request: pytest.FixtureRequest, place: Site, where: str
) -> None:
    if where == "postgres":
        place.variables["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    door = place.place / "door"
    place.configure(place.agent())
    node = place.up()
    # Who must be killed takes five seconds; once is enough.
    unwilling = ("stubborn", "fork") if where == "sqlite" else ()
    item = place.add("Mend the gate", *unwilling, f"wait_for {door}")
    first = place.await_start()
    node.kill()
    door.touch()
    place.up()
    assert not set(place.alive()) & {first["pid"]}
    done = place.await_status(item, "completed")
    lost, second = place.runs(item)
    assert (lost["id"], lost["status"]) == (first["run"], "lost")
    assert "server died" in lost["error"]
    assert (second["status"], second["attempt"]) == ("succeeded", 2)
    assert place.kinds(item).count("work.completed") == 1
    assert [one["reason"] for one in place.events(item) if one["type"] == "work.released"] == [
        "run_lost"
    ]
    assert done["outcome"] == "success"
    place.eventually(lambda: not place.alive(), "processes are left")


def test_who_loses_every_server_is_not_tried_for_ever(place: Site) -> None:
    place.configure(place.agent())
    node = place.up()
    item = place.add("It kills servers", "nap 600", words=("--max-attempts", "2"))
    for attempt in (1, 2):
        place.await_start(attempt)
        node.kill()
        node.start()
    failed = place.await_status(item, "failed")
    assert [one["status"] for one in place.runs(item)] == ["lost", "lost"]
    assert failed["attempts"] == 2
    place.eventually(lambda: not place.alive(), "processes are left")


def test_a_crash_does_not_run_a_slot_twice(place: Site) -> None:
    """Also when no item is there to tell."""
    # None of its own slots may come in between.
    nightly = {"type": "cron", "cron": "0 0 1 1 *", "prompt": "PLAY: nap 600"}
    place.configure(place.agent(work_source=None, schedules={"nightly": nightly}))
    node = place.up()
    status, _ = node.ask("POST", "/schedules/smith/nightly/trigger")
    assert status == 202
    first = place.await_start()
    node.kill()
    node.start()
    place.eventually(lambda: place.runs()[0]["status"] == "lost", "it is not lost")
    standing = place.schedule("smith", "nightly")
    assert (standing["status"], standing["running"]) == ("idle", 0)
    assert first["pid"] not in place.alive()


# shutdown


def test_a_server_that_is_told_to_stop_lets_its_runs_finish(place: Site) -> None:
    door = place.place / "door"
    place.configure(place.agent())
    node = place.up()
    item = place.add("Mend the gate", f"wait_for {door}")
    place.await_start()
    node.signal(signal.SIGTERM)
    place.eventually(lambda: "waiting for runs" in node.log, "it does not wait")
    assert "stopping" in node.log
    door.touch()
    assert node.process.wait(60) == 0
    assert "giving back" not in node.log
    assert place.shown(item)["status"] == "completed"
    assert [one["status"] for one in place.runs(item)] == ["succeeded"]
    assert not place.alive()


def test_who_does_not_finish_in_time_gives_its_item_back(place: Site) -> None:
    _stopped_in_a_run(place, "--drain", "0.5", signals=1)


def test_a_second_signal_does_not_wait(place: Site) -> None:
    _stopped_in_a_run(place, signals=2)


def _stopped_in_a_run(place: Site, *words: str, signals: int) -> None:
    """In one that does not end when it is asked to: it is killed after five seconds."""
    place.configure(place.agent())
    node = place.up(*words)
    item = place.add("Mend the gate", "fork", "nap 600")
    place.await_start()
    for _ in range(signals):
        node.signal(signal.SIGTERM)
        place.eventually(lambda: "waiting for runs" in node.log, "it does not wait")
    node.process.wait(60)
    (told,) = [line for line in node.log.splitlines() if "giving back what has not ended" in line]
    assert json.loads(told)["runs"] == 1
    assert place.alive() == []
    shown = place.shown(item)
    assert (shown["status"], shown["assigned_agent"]) == ("queued", None)
    [run] = place.runs(item)
    assert (run["status"], run["error"]) == ("cancelled", "shut_down")
    [released] = [one for one in place.events(item) if one["type"] == "work.released"]
    assert released["reason"] == "shut_down"
    place.up()
    place.await_start(2)


def test_ctrl_c_is_no_error(place: Site) -> None:
    place.configure(place.agent())
    node = place.up()
    node.signal(signal.SIGINT)
    assert node.process.wait(60) == 0
    assert "Traceback" not in node.log


# reload


def test_a_new_agent_works_without_ending_what_runs(place: Site) -> None:
    door = place.place / "door"
    place.configure(place.agent())
    node = place.up()
    item = place.add("Mend the gate", f"wait_for {door}", words=("--agent", "smith"))
    start = place.await_start()
    place.configure(place.agent(), place.agent("jones"))
    node.signal(signal.SIGHUP)
    other = place.add("Paint it", words=("--agent", "jones"))
    place.await_status(other, "completed")
    assert start["pid"] in place.alive()
    door.touch()
    place.await_status(item, "completed")
    assert len(place.starts(item=item)) == 1


def test_an_agent_that_is_no_more_finishes_and_is_not_woken_again(place: Site) -> None:
    door = place.place / "door"
    place.configure(place.agent(), place.agent("jones"))
    node = place.up()
    item = place.add("Mend the gate", f"wait_for {door}", words=("--agent", "jones"))
    place.await_start()
    place.configure(place.agent())
    status, told = node.ask("POST", "/config/reload")
    assert (status, told["changed"], told["agents"]) == (200, True, ["smith"])
    door.touch()
    place.await_status(item, "completed")
    woken = place.schedule("jones")["trigger_count"]
    left = place.add("Nobody is here", words=("--agent", "jones"))
    place.await_status(place.add("Paint it", words=("--agent", "smith")), "completed")
    assert place.shown(left)["status"] == "queued"
    assert place.schedule("jones")["trigger_count"] == woken


def test_a_broken_file_changes_nothing_and_is_told(place: Site) -> None:
    place.configure(place.agent())
    node = place.up()
    (place.place / "rota.yaml").write_text("agents:\n  - name: smith\n    schedule: {}\n")
    status, problem = node.ask("POST", "/config/reload")
    assert status == 422
    assert "rota.yaml:3:5" in problem["detail"]
    assert "schedules" in problem["detail"]
    node.signal(signal.SIGHUP)
    place.eventually(lambda: "the old one stays" in node.log, "nothing is said")
    assert "rota.yaml:3:5" in node.log
    place.await_status(place.add(), "completed")
    place.configure(place.agent(schedules={"seldom": schedule(interval="1h")}))
    status, told = node.ask("POST", "/config/reload")
    assert (status, told["changed"]) == (200, True)
    assert place.schedule("smith", "seldom")["type"] == "interval"


def test_a_file_whose_sources_are_refused_leaves_the_signals_as_they_are(place: Site) -> None:
    def signal_of(name: str) -> dict[str, object]:
        when = {"kind": "work_item.status.transition", "to": ["failed"]}
        return {name: {"when": when, "then": {"kind": "submit", "title": "Look"}}}

    place.configure(place.agent(), signals=signal_of("old"))
    node = place.up()
    # Only the trackers that are made of them show that these are one repository.
    twice = [
        {
            "type": "github",
            "repo": "ada/engine",
            "name": f"git{port}",
            "api_url": f"https://git.org{port}",
        }
        for port in ("", ":443")
    ]
    place.configure(place.agent(), signals=signal_of("new"), sources=twice)
    status, problem = node.ask("POST", "/config/reload")
    assert (status, "is there twice" in problem["detail"]) == (422, True)
    assert [one["name"] for one in node.ask("GET", "/signals")[1]] == ["old"]


def test_a_file_that_is_gone_is_no_wish_to_have_no_agents(place: Site) -> None:
    place.configure(place.agent())
    node = place.up()
    (place.place / "rota.yaml").unlink()
    status, problem = node.ask("POST", "/config/reload")
    assert (status, "is gone" in problem["detail"]) == (422, True)
    place.await_status(place.add(), "completed")
    (place.place / "rota.yaml").write_text("")
    assert node.ask("POST", "/config/reload")[1]["agents"] == []


def test_what_is_odd_about_the_file_is_told_at_the_start_and_at_a_reload(place: Site) -> None:
    place.configure(place.agent(working_directory="nowhere"))
    node = place.up()
    assert "rota.yaml:1:" in node.log
    assert "there is no directory" in node.log
    place.configure(place.agent(working_directory="elsewhere"))
    _, told = node.ask("POST", "/config/reload")
    assert "elsewhere" in told["warnings"][0]
    assert "elsewhere" in node.log


def test_a_reload_names_what_the_file_has_no_more(place: Site) -> None:
    two = {"often": schedule(), "seldom": schedule()}
    place.configure(place.agent(schedules=two), place.agent("cook"))
    place.up()
    place.configure(place.agent())
    assert place.type("config", "reload").splitlines() == [
        "gone    agent cook; its schedules rest until a server has them again, or you remove them:"
        " rota schedule forget cook/NAME",
        "gone    schedule smith/seldom",
        "read    1 agent, 0 sources",
    ]
    assert place.json("config", "reload")["gone"] == {"agents": [], "schedules": [], "sources": []}
    (cook, smith) = place.json("schedule", "list")
    assert (cook["attended"], smith["attended"]) == (False, True)
    listed = place.type("schedule", "list").splitlines()
    assert [line.split("\t")[:2] for line in listed] == [
        ["cook/often", "resting"],
        ["smith/often", "idle"],
    ]
