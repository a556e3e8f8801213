"""`rota schedule` on a database, with a scheduler of the test's own beside it."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rota.app import open_ledger, open_store
from rota.model.clock import SystemClock, to_text
from rota.model.fleet import AgentSpec
from rota.model.runs import RunEnd, RunStatus
from rota.model.schedules import Schedule, ScheduleType, SkipReason, TriggerKind
from rota.scheduler import Scheduler, TriggerInfo, TriggerOutcome
from rota.scheduler.roster import Roster
from rota.scheduler.syncing import let_others_rest
from tests.acceptance.terminal import ThisProcess

ADA = AgentSpec(
    "ada",
    schedules=(
        Schedule("ada", "poll", ScheduleType.INTERVAL, interval=timedelta(minutes=5)),
        Schedule("ada", "talk", ScheduleType.CHAT),
        Schedule("ada", "yearly", ScheduleType.CRON, cron="@yearly", timezone="Asia/Tokyo"),
    ),
    max_concurrent=5,
)


NOBODY = (
    "no running server has it in its rota.yaml; start one that has it, or remove it:"
    " rota schedule forget"
)


@pytest.fixture
def here(tmp_path: Path) -> ThisProcess:
    return ThisProcess(tmp_path)


Fleet = Callable[..., list[str | None]]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One check of a fleet on the same database; the messages that its agents were given."""

    def check(outcome: TriggerOutcome | None = None) -> list[str | None]:
        return asyncio.run(_checked(tmp_path / ".rota" / "rota.db", outcome))

    return check


async def _checked(database: Path, outcome: TriggerOutcome | None) -> list[str | None]:
    heard: list[str | None] = []

    async def hear(info: TriggerInfo) -> TriggerOutcome | None:
        heard.append(info.trigger.message)
        return outcome

    async with open_store(str(database)) as store:
        scheduler = Scheduler(store, node="n1", on_trigger=hear)
        await scheduler.open([ADA])
        await scheduler.tick()
        await scheduler.idle()
        await scheduler.stop()
    return heard


def test_the_doctor_names_schedules_whose_source_cannot_be_read(
    here: ThisProcess, fleet: Fleet
) -> None:
    fleet(TriggerOutcome.skipped(SkipReason.NO_WORK))
    here.type("doctor")
    here.type("schedule", "trigger", "ada/poll")
    fleet(TriggerOutcome.skipped(SkipReason.SOURCE_ERROR, "the folder is gone"))
    (failed,) = [one for one in here.json("doctor", code=1) if one["status"] == "fail"]
    assert (failed["check"], failed["message"]) == ("schedule ada/poll", "the folder is gone")
    here.type("schedule", "trigger", "ada/poll")
    fleet(TriggerOutcome.skipped(SkipReason.NO_WORK))
    here.type("doctor")


def test_schedules_are_listed_for_people_pipes_and_programs(
    here: ThisProcess, fleet: Fleet
) -> None:
    here.type("db", "upgrade")
    assert (
        here.run("schedule", "list").stderr == "no schedules; `rota up` reads them from rota.yaml\n"
    )
    fleet(TriggerOutcome.skipped(SkipReason.NO_WORK))
    rows = [line.split("\t") for line in here.type("schedule", "list").splitlines()]
    assert [row[:3] for row in rows] == [
        ["ada/poll", "resting", "every 5m"],
        ["ada/talk", "resting", "by chat"],
        ["ada/yearly", "resting", "@yearly (Asia/Tokyo)"],
    ]
    assert rows[0][5] == "no_work"
    assert rows[2][4].endswith("-12-31T15:00:00.000000Z")
    poll = here.json("schedule", "list", "--agent", "ada")[0]
    assert (poll["last_skip_reason"], poll["trigger_count"]) == ("no_work", 1)
    assert here.json("schedule", "list", "--agent", "bob") == []
    assert "there are more" in here.run("schedule", "list", "--limit", "1").stderr


def test_one_schedule_is_shown_in_words_and_exactly(here: ThisProcess, fleet: Fleet) -> None:
    fleet(TriggerOutcome("failed", error="no disk"))
    shown = here.type("schedule", "show", "ada/poll")
    assert "last error  no disk" in shown
    assert "next        20" in shown
    assert " (+4m)" in shown
    assert here.json("schedule", "show", "ada/poll")["last_error"] == "no disk"


def test_a_look_is_not_told_as_a_run(here: ThisProcess, fleet: Fleet) -> None:
    fleet(TriggerOutcome.skipped(SkipReason.NO_WORK))
    shown = here.type("schedule", "show", "ada/poll")
    assert "last look  20" in shown
    assert "last run" not in shown
    assert here.json("schedule", "show", "ada/poll")["last_run"] is None
    asyncio.run(_run(here.place / ".rota" / "rota.db"))
    here.type("schedule", "trigger", "ada/poll")
    fleet(TriggerOutcome.skipped(SkipReason.NO_WORK))
    shown = here.type("schedule", "show", "ada/poll")
    assert "last run   failed, 20" in shown
    told = here.json("schedule", "show", "ada/poll")
    assert told["last_run"]["started_at"] < told["last_run_at"]
    (row, *_) = [line.split("\t") for line in here.type("schedule", "list").splitlines()]
    assert (row[3], row[7]) == (told["last_run_at"], told["last_run"]["started_at"])


async def _run(database: Path) -> None:
    async with open_ledger(str(database)) as ledger:
        run = await ledger.runs.begin("ada", TriggerKind.SCHEDULE, schedule="poll")
        await ledger.runs.end(run, RunEnd(RunStatus.FAILED, error="no disk"))


def test_a_schedule_is_switched_off_and_on(here: ThisProcess, fleet: Fleet) -> None:
    fleet()
    assert "disabled" in here.type("schedule", "disable", "ada/yearly")
    assert here.json("schedule", "show", "ada/yearly")["next_run_at"] is None
    assert here.json("schedule", "enable", "ada/yearly")["status"] == "idle"


def test_a_schedule_is_forgotten(here: ThisProcess, fleet: Fleet) -> None:
    fleet()
    assert here.json("schedule", "forget", "ada/yearly")["result"] == "forgotten"
    assert len(here.json("schedule", "list")) == 2


def test_who_forgets_what_a_file_may_still_name_is_warned(
    here: ThisProcess, fleet: Fleet, tmp_path: Path
) -> None:
    fleet()
    warning = "warning: a server whose rota.yaml still names it brings it back"
    assert warning in here.run("schedule", "forget", "ada/yearly").stderr
    here.type("schedule", "disable", "ada/poll")
    assert warning in here.run("schedule", "forget", "ada/poll").stderr
    fleet()
    asyncio.run(_rested(tmp_path / ".rota" / "rota.db"))
    assert here.run("schedule", "forget", "ada/poll").stderr == ""


async def _rested(database: Path) -> None:
    """By a server that does not know ada, when nobody else is there who does."""
    async with open_store(str(database)) as store:
        await store.transact(lambda tx: let_others_rest(tx, Roster.of([]), "n2"))


def test_an_agent_is_woken_by_hand(here: ThisProcess, fleet: Fleet) -> None:
    fleet()
    asked = here.json("schedule", "trigger", "ada/talk", "--message", "look at #7")
    assert asked["node"] is None
    assert fleet() == ["look at #7"]
    waited = here.run("schedule", "trigger", "ada/talk", "--wait", "0.1s")
    warning, told = waited.stderr.splitlines()
    assert warning == f"warning: it waits: {NOBODY} ada/talk"
    assert (waited.returncode, told) == (1, "no server has taken it up yet")


def test_what_no_running_server_has_is_resting_and_may_be_forgotten(
    here: ThisProcess, fleet: Fleet, tmp_path: Path
) -> None:
    fleet()
    listed = here.run("schedule", "list")
    assert [line.split("\t")[1] for line in listed.stdout.splitlines()] == ["resting"] * 3
    assert listed.stderr == f"resting: {NOBODY} AGENT/NAME\n"
    shown = here.run("schedule", "show", "ada/talk")
    assert "status     resting\n" in shown.stdout
    assert shown.stderr == f"nothing wakes it: {NOBODY} ada/talk\n"
    triggered = here.run("schedule", "trigger", "ada/talk")
    assert (triggered.returncode, triggered.stderr) == (
        0,
        f"warning: it waits: {NOBODY} ada/talk\n",
    )
    assert here.json("schedule", "show", "ada/talk")["attended"] is False
    assert here.json("agent", "set", "ada", "--max-concurrent", "5")["unattended"] is True
    kept = "no running server has its schedules: rota schedule list --agent ada"
    assert kept in here.type("agent", "list")
    here.type("schedule", "disable", "ada/talk")
    assert "\tdisabled\t" in here.type("schedule", "list", "--limit", "2")

    asyncio.run(_attended(tmp_path / ".rota" / "rota.db"))
    listed = here.run("schedule", "list")
    states = [line.split("\t")[1] for line in listed.stdout.splitlines()]
    assert (states, listed.stderr) == (["idle", "disabled", "idle"], "")
    for words in (("show", "ada/poll"), ("trigger", "ada/poll")):
        assert here.run("schedule", *words).stderr == ""
    assert here.json("schedule", "show", "ada/talk")["attended"] is True
    assert here.json("agent", "show", "ada")["unattended"] is False
    assert here.json("agent", "set", "bob", "--max-concurrent", "2")["unattended"] is False, (
        "it has no schedules, so it asks for work by itself"
    )


async def _attended(database: Path) -> None:
    """By a server that goes on."""
    async with open_store(str(database)) as store:
        await Scheduler(store, node="n3").open([ADA])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("show", "ada/none"), 1, "rota schedule list"),
        (("show", "ada"), 2, "write AGENT/NAME"),
        (("enable", "a/b/c"), 2, "write AGENT/NAME"),
        (("trigger", "Ada/poll"), 2, "not a name"),
        (("import", "nowhere.yaml"), 2, "nowhere.yaml"),
    ],
)
def test_what_is_wrong_is_said(
    here: ThisProcess, fleet: Fleet, words: tuple[str, ...], code: int, told: str
) -> None:
    fleet()
    done = here.run("schedule", *words)
    assert told in done.stderr
    assert done.returncode in {code, 2}
    assert "Traceback" not in done.stderr


STATE = """
fleet:
  started_at: 2026-05-01T10:00:00Z
agents:
  ada:
    status: idle
    schedules:
      poll:
        status: idle
        last_run_at: "{ran}"
        next_run_at: "2026-05-01T11:57:00.000Z"
        last_error: null
      yearly:
        status: disabled
        last_run_at: 2026-01-01T00:00:00.000Z
        last_error: no disk
      Strange Name:
        status: idle
      broken:
        last_run_at: yesterday
      odd:
        status: exploded
  bob:
    status: idle
"""


def test_what_herdctl_knew_is_taken_over_once(
    here: ThisProcess, fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / ".herdctl").mkdir()
    (tmp_path / ".herdctl" / "state.yaml").write_text(
        STATE.format(ran=to_text(SystemClock().now()))
    )
    results = {
        row["schedule"]: row["result"] for row in here.json("schedule", "import", ".herdctl")
    }
    assert results["ada/poll"] == results["ada/yearly"] == "imported"
    assert "not a name" in results["ada/strange name"]
    assert "last_run_at" in results["ada/broken"]
    assert "exploded" in results["ada/odd"]
    assert fleet() == [], "it ran elsewhere a moment ago"
    yearly = here.json("schedule", "show", "ada/yearly")
    assert (yearly["status"], yearly["last_error"]) == ("disabled", "no disk")
    again = here.json("schedule", "import", ".herdctl/state.yaml")
    assert [row["result"] for row in again][:2] == ["imported", "imported"]
    here.type("schedule", "trigger", "ada/poll")
    assert fleet() == [None]
    after = {row["schedule"]: row["result"] for row in here.json("schedule", "import", ".herdctl")}
    assert after["ada/poll"] == "has run here already"


def test_names_with_capitals_are_imported_as_the_configuration_calls_them(
    here: ThisProcess, tmp_path: Path
) -> None:
    (tmp_path / "state.yaml").write_text(
        "agents: {Ada: {schedules: {Nightly: {status: disabled}}}}"
    )
    assert here.json("schedule", "import", "state.yaml") == [
        {"schedule": "ada/nightly", "result": "imported"}
    ]
    assert here.json("schedule", "show", "ada/nightly")["status"] == "disabled"


def test_a_file_that_is_no_state_is_refused(here: ThisProcess, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("version: 1\n")
    done = here.run("schedule", "import", "x.yaml")
    assert done.returncode == 2
    assert "no state of herdctl" in done.stderr
