"""What keeps agents from running is said wherever somebody would look."""

from typing import Any

from tests.acceptance.fleet_site import Site, schedule
from tests.acceptance.terminal import Terminal


def await_skip(place: Site, reason: str, agent: str = "smith") -> Any:
    return place.eventually(
        lambda: one if (one := place.schedule(agent))["last_skip_reason"] == reason else None,
        f"nothing was skipped for {reason}",
    )


def assert_told(place: Site, item: str, reason: str, words: str) -> None:
    """By the table, and by what explains why nobody works on an item."""
    terminal = Terminal(place.place)
    assert reason in terminal.type("schedule", "list")
    assert reason in terminal.type("schedule", "show", "smith/often")
    reasons = terminal.json("explain", item)["reasons"]
    assert words in next(one["message"] for one in reasons if one["code"] == reason)


def test_a_breaker_opens_and_somebody_closes_it(place: Site) -> None:
    place.configure(place.agent(breaker={"failures": 2, "cooldown": "1h"}))
    place.up()
    item = place.add("Mend the gate", "fail_until 3")
    await_skip(place, "breaker_open")
    assert len(place.starts()) == 2
    assert_told(place, item, "breaker_open", "until")
    assert "agent.breaker_opened" in [one["type"] for one in place.events()]
    place.type("agent", "resume", "smith")
    place.await_status(item, "completed")


def test_a_budget_of_runs_is_kept(place: Site) -> None:
    place.configure(place.agent(budget={"per_day": {"runs": 1}}))
    place.up()
    place.await_status(place.add(), "completed")
    item = place.add("One too many")
    await_skip(place, "budget_exhausted")
    assert_told(place, item, "budget_exhausted", "smith's budget of the day is used")
    kept = "used up its budget: 1 of 1 runs, until "
    assert kept in Terminal(place.place).type("agent", "list")
    assert len(place.starts()) == 1


def test_the_budget_of_the_fleet_is_that_of_all_together(place: Site) -> None:
    place.configure(place.agent(), place.agent("jones"), budgets={"per_day": {"runs": 1}})
    place.up()
    place.await_status(place.add(), "completed")
    item = place.add("One too many")
    for agent in ("smith", "jones"):
        await_skip(place, "budget_exhausted", agent)
    assert_told(place, item, "budget_exhausted", "the fleet's budget of the day is used")
    kept = "used up the fleet's budget: 1 of 1 runs, until "
    assert Terminal(place.place).type("agent", "list").count(kept) == 2
    assert len(place.starts()) == 1


def test_a_used_up_quota_pauses_the_agent_and_costs_the_item_nothing(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    item = place.add("Mend the gate", "quota 60")
    await_skip(place, "usage_limit")
    assert_told(place, item, "usage_limit", "used up until")
    assert place.shown(item)["status"] == "queued"
    assert len(place.starts()) == 1


def test_a_paused_agent_is_not_woken(place: Site) -> None:
    place.configure(place.agent())
    place.up()
    place.type("agent", "pause", "smith")
    item = place.add()
    await_skip(place, "agent_paused")
    assert_told(place, item, "agent_paused", "paused")
    assert place.starts() == []
    place.type("agent", "resume", "smith")
    place.await_status(item, "completed")


def test_a_schedule_is_switched_off_on_and_triggered_by_hand(place: Site) -> None:
    place.configure(place.agent(schedules={"seldom": schedule(interval="1h")}))
    place.up()
    terminal = Terminal(place.place)
    place.eventually(lambda: place.schedule("smith", "seldom")["trigger_count"] == 1, "not woken")
    item = place.add()
    terminal.type("schedule", "trigger", "smith/seldom")
    place.await_status(item, "completed")
    terminal.type("schedule", "disable", "smith/seldom")
    assert "disabled" in terminal.type("schedule", "list")
    terminal.type("schedule", "enable", "smith/seldom")
    place.eventually(  # the end of a trigger is recorded after that of its item
        lambda: place.schedule("smith", "seldom")["status"] == "idle", "it does not wait again"
    )
    told = terminal.run("schedule", "trigger", "smith/never")
    assert told.returncode != 0
    assert "smith/never" in told.stderr


def test_a_message_reaches_the_agent_between_fences(place: Site) -> None:
    place.configure(
        place.agent(work_source=None, schedules={"talk": {"type": "chat", "prompt": "Answer:"}})
    )
    node = place.up()
    said = {"text": "What is the time?", "sender": "ada", "message_id": "m1"}
    assert node.ask("POST", "/chat/smith/talk", said)[0] == 202
    assert node.ask("POST", "/chat/smith/talk", said)[0] == 200
    start = place.await_start()
    assert start["fenced"]
    place.eventually(lambda: place.runs()[0]["status"] == "succeeded", "it did not end")
    assert place.runs()[0]["trigger"] == "chat"
    assert len(place.starts()) == 1
