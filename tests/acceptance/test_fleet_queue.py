"""The fleet walked from the command line, with the queue as source of its work."""

import json
import os
import signal

import pytest

from tests.acceptance.fleet_site import QUEUE, Site, schedule
from tests.acceptance.terminal import Terminal


def test_an_item_is_done_by_the_agent_that_its_schedule_wakes(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "say https://github.com/ada/mill/pull/7")
    done = place.await_status(item, "completed")
    assert done["outcome"] == "success"
    assert "All done." in done["notes"]
    [run] = place.runs(item)
    assert (run["status"], run["agent"], run["schedule"], run["attempt"], run["exit_code"]) == (
        "succeeded", "smith", "often", 1, 0,
    )  # fmt: skip
    assert run["artifacts"] == ["https://github.com/ada/mill/pull/7"]
    assert place.kinds(item) == [
        "work.submitted",
        "work.dispatched",
        "work.started",
        "run.started",
        "run.finished",
        "work.completed",
    ]
    terminal = Terminal(place.place)
    assert "All done.\n" in terminal.type("run", "log", run["id"])
    assert "succeeded" in terminal.type("run", "show", run["id"])
    told = terminal.json("explain", item)
    assert (told["claimable"], [one["code"] for one in told["reasons"]]) == (False, ["completed"])
    assert len(place.starts()) == 1


def test_who_has_no_work_source_just_runs(place: Site) -> None:
    place.configure(
        place.agent(work_source=None, schedules={"often": schedule(prompt="PLAY: say a")})
    )
    place.up()
    place.await_start(2)
    done = place.eventually(
        lambda: [one for one in place.runs() if one["status"] == "succeeded"], "no run succeeded"
    )
    assert done[0]["work_item_id"] is None


def test_what_failed_is_tried_again_after_a_pause_and_then_done(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "fail_until 2")
    done = place.await_status(item, "completed")
    first, second = place.runs(item)
    assert (first["status"], first["attempt"], first["exit_code"]) == ("failed", 1, 1)
    assert "The hinge is rusty." in first["error"]
    assert (second["status"], second["attempt"]) == ("succeeded", 2)
    assert second["started_at"] > first["ended_at"]
    released = next(one for one in place.events(item) if one["type"] == "work.released")
    assert "attempt 1 failed" in released["reason"]
    assert (done["attempts"], len(place.starts(item=item))) == (2, 2)


def test_until_the_pause_is_over_nobody_takes_it_and_explain_says_so(place: Site) -> None:
    place.configure(place.agent(retry={"backoff": "1h"}))
    place.up()
    item = place.add("Mend the gate", "fail_until 2")
    place.await_start()
    place.await_status(item, "queued")
    told = place.json("explain", item)
    assert (told["claimable"], told["reasons"][0]["code"]) == (False, "not_due")
    other = place.add("Paint it")
    place.await_status(other, "completed")
    assert len(place.starts(item=item)) == 1


def test_attempts_have_an_end(place: Site) -> None:
    place.configure(place.agent(retry={"backoff": "1s", "max_attempts": 2}))
    place.up()
    item = place.add("Mend the gate", "fail 3")
    failed = place.await_status(item, "failed")
    assert [one["status"] for one in place.runs(item)] == ["failed", "failed"]
    assert "I give up." in json.dumps(failed)
    assert len(place.starts(item=item)) == 2


def test_half_done_is_blocked_with_the_agents_question(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "partial")
    blocked = place.await_status(item, "blocked")
    assert "Half of it." in blocked["notes"]
    [run] = place.runs(item)
    assert (run["status"], run["error"]) == ("partial", "Which key?")


def test_who_takes_too_long_is_ended_with_all_its_children(place: Site) -> None:
    slow = place.agent(timeout="1s", retry={"max_attempts": 1})
    place.configure(slow, place.agent("jones"))
    place.up()
    item = place.add("Wait for ever", "stubborn", "fork", "nap 600", words=("--agent", "smith"))
    place.await_status(item, "failed")
    [run] = place.runs(item)
    assert (run["status"], "timeout of 1 s" in run["error"]) == ("timed_out", True)
    place.eventually(lambda: not place.alive(), "processes are left")


def test_a_killed_agent_is_a_failed_attempt(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "nap 600")
    os.kill(place.await_start()["pid"], signal.SIGKILL)
    second = place.await_start(2, item=item)
    first = place.runs(item)[0]
    assert (first["status"], first["error"]) == ("failed", "it was killed by SIGKILL")
    assert second["attempt"] == "2"
    place.type("run", "cancel", place.runs(item)[1]["id"])
    place.await_status(item, "blocked")
    place.eventually(lambda: not place.alive(), "processes are left")


def test_an_item_that_is_taken_away_ends_its_run_at_the_next_beat(place: Site) -> None:
    """Within ten seconds, though the lease is a quarter of an hour."""
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "stubborn", "nap 600")
    start = place.await_start()
    place.type("hold", item, "--reason", "not now")
    place.type("release", item, "--force", "--reason", "not by you")
    place.eventually(lambda: start["pid"] not in place.alive(), "the agent goes on", seconds=45)
    place.await_run(start["run"], "claim_lost")
    shown = place.shown(item)
    assert (shown["status"], shown["notes"]) == ("queued", None)


def test_with_nothing_to_do_no_process_is_started(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    place.eventually(lambda: place.schedule("smith")["skip_count"] >= 2, "it was not looked at")
    standing = place.schedule("smith")
    assert (standing["last_skip_reason"], standing["last_error"]) == ("no_work", None)
    assert (place.starts(), place.runs()) == ([], [])
    place.await_status(place.add(), "completed")
    assert len(place.starts()) == 1


def test_two_agents_work_side_by_side(place: Site) -> None:
    place.configure(place.agent(), place.agent("jones"))
    place.up()
    door = place.place / "door"
    items = [place.add(f"Item {n}", f"wait_for {door}") for n in range(2)]
    place.await_start(2)
    assert {one["agent"] for one in place.starts()} == {"smith", "jones"}
    door.touch()
    for item in items:
        place.await_status(item, "completed")


def test_an_agent_works_on_as_many_items_as_it_may(place: Site) -> None:
    many = {f"line{n}": schedule() for n in range(4)}
    place.configure(place.agent(schedules=many, instances={"max_concurrent": 2}))
    place.up()
    door = place.place / "door"
    items = [place.add(f"Item {n}", f"wait_for {door}") for n in range(3)]
    place.await_start(2)
    skipped = place.eventually(
        lambda: [
            one
            for one in place.nodes[0].ask("GET", "/schedules")[1]
            if one["last_skip_reason"] == "at_capacity"
        ],
        "nobody was turned away",
    )
    assert len(skipped) >= 1
    assert len(place.starts()) == 2
    door.touch()
    for item in items:
        place.await_status(item, "completed")
    assert len(place.starts()) == 3


def test_bytes_that_are_no_text_are_kept_as_well_as_can_be(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "garble")
    place.await_status(item, "completed")
    [run] = place.runs(item)
    log = Terminal(place.place).type("run", "log", run["id"])
    assert "caf\N{REPLACEMENT CHARACTER}" in log
    assert "end" in log


def test_a_long_prompt_arrives_whole(place: Site) -> None:
    place.configure(place.agent(schedules={"often": schedule(prompt="x" * 200_000)}))
    place.up()
    item = place.add()
    place.await_status(item, "completed")
    assert place.starts()[0]["length"] > 200_000


# one broken agent never stops the others


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"working_directory": "/nowhere/at/all"}, "/nowhere/at/all"),
        ({"runtime": {"type": "command", "command": ["no-such-program-7"]}}, "no-such-program-7"),
    ],
    ids=["no working directory", "no such command"],
)
def test_an_agent_that_cannot_run_says_why_and_the_others_go_on(
    place: Site, broken: dict[str, object], said: str
) -> None:
    hopeless = place.agent("jones", work_source={**QUEUE, "types": ["hopeless"]}, **broken)
    hopeless["retry"] = {"max_attempts": 1}
    place.configure(hopeless, place.agent(work_source={**QUEUE, "types": ["chore"]}))
    place.up()
    item = place.add("Nobody can", words=("--type", "hopeless"))
    failed = place.await_status(item, "failed")
    [run] = place.runs(item)
    assert run["status"] == "failed"
    assert said in run["error"]
    assert said in json.dumps(failed)
    place.eventually(lambda: said in (place.schedule("jones")["last_error"] or ""), "not said")
    place.await_status(place.add("Smith can", words=("--type", "chore")), "completed")
