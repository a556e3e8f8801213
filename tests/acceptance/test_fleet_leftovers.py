"""What earlier walks of the fleet have stumbled over."""

import pytest

from tests.acceptance.fleet_site import Site


def test_a_second_server_leaves_the_first_ones_announcement_alone(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    assert place.run("up", "--port", "0").returncode == 7
    assert (place.place / ".rota" / "server.json").exists()


@pytest.mark.parametrize(
    "facts",
    [
        {"retry": {"backoff": "999999999d", "max_backoff": "999999999d"}},
        {"breaker": {"failures": 1, "cooldown": "999999999d"}},
    ],
    ids=["backoff", "cooldown"],
)
def test_a_pause_beyond_the_calendar_is_refused_when_it_is_read(
    place: Site, facts: dict[str, object]
) -> None:
    place.configure({**place.agent(), **facts})
    checked = place.run("config", "check")
    assert checked.returncode == 1
    assert "longer than 3660 days" in checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "facts",
    [
        {"retry": {"backoff": "3660d", "max_backoff": "3660d"}},
        {"breaker": {"failures": 1, "cooldown": "3660d"}},
    ],
    ids=["backoff", "cooldown"],
)
def test_the_longest_pause_there_is_leaves_no_run_for_ever(
    place: Site, facts: dict[str, object]
) -> None:
    place.configure({**place.agent(), **facts})
    place.up()
    item = place.add("Mend the gate", "fail_until 2")
    place.await_start()
    place.eventually(lambda: place.runs(item)[0]["ended_at"], "it runs for ever")


def test_nobody_is_said_to_look_for_work_who_is_not_there_any_more(place: Site) -> None:
    place.configure(place.agent(), place.agent("jones"))
    node = place.up()
    place.configure(place.agent())
    node.ask("POST", "/config/reload")
    item = place.add("For jones", words=("--agent", "jones"))
    told = [one["code"] for one in place.json("explain", item)["reasons"]]
    assert "next_wake" not in told


def test_the_doctor_names_the_run_of_a_server_that_was_killed_just_now(place: Site) -> None:
    place.configure(place.agent())
    node = place.up()
    place.add("Mend the gate", "nap 600")
    first = place.await_start()
    node.kill()
    found = place.json("doctor")
    (told,) = [one for one in found if one["check"] == "runs"]
    assert f"the server of run {first['run']} of 'smith' has not been seen since" in told["message"]
    assert told["fix"].startswith("start that server: rota up")
