"""`rota signal` and `rota follow-up`, asked of a server and of the database alone."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rota.model.status import Status
from rota.signals.processor import MOST_ATTEMPTS
from rota.testing.clock import ManualClock
from rota.testing.served import Served
from rota.testing.standing import WAY, order
from tests.acceptance.terminal import Terminal, ThisProcess

Tick = Callable[[], int]


@pytest.fixture
def here(tmp_path: Path, served: Served) -> Terminal:
    return ThisProcess(tmp_path, {"ROTA_URL": served.url, "ROTA_ACTOR": "me"})


def an_item(here: Terminal) -> str:
    return here.type("add", "Mend the gate", "--type", "chore").strip()


def bring(served: Served, item: str, status: Status) -> None:
    for verb in WAY[status]:
        served.run(lambda verb=verb: served.ledger.queue.apply(order(verb, item, actor="ada")))


@pytest.fixture
def follow_up(here: Terminal, served: Served, tick: Tick) -> str:
    item = an_item(here)
    here.type("signal", "add", "--on-status", "blocked", "--item", item, "--then", "follow-up")
    bring(served, item, Status.BLOCKED)
    assert tick() == 1
    return str(here.json("follow-up", "list")[0]["id"])


# the words of a command become the words of the API

SAID = [
    (
        "--on-status failed --from in_progress --nth 2 --of-type chore --of-label wood"
        " --of-agent ada --on-reason fail",
        {
            "kind": "work_item.status.transition",
            "to": ["failed"],
            "from": ["in_progress"],
            "reason": ["fail"],
            "nth": 2,
            "type": ["chore"],
            "label": ["wood"],
            "agent": "ada",
        },
    ),
    ("--after 2h --in in_review", {"kind": "time", "after": "2h", "in": ["in_review"]}),
    (
        "--at 2099-01-01T09:00 --timezone Europe/Berlin",
        {"kind": "time", "at": "2099-01-01T08:00:00.000000Z"},
    ),
    ("--at 2099-01-01T09:00", {"kind": "time", "at": "2099-01-01T09:00:00.000000Z"}),
    (
        "--on-run failed --on-run timed_out --of-agent ada --of-schedule nightly",
        {
            "kind": "run.finished",
            "outcome": ["failed", "timed_out"],
            "agent": "ada",
            "schedule": "nightly",
        },
    ),
    ("--on-run any", {"kind": "run.finished"}),
    (
        "--on-source web --field pull_request.merged=true --field action=closed",
        {
            "kind": "source.event",
            "source": "web",
            "fields": {"pull_request.merged": True, "action": "closed"},
        },
    ),
    ("--on-source any", {"kind": "source.event"}),
]


@pytest.mark.parametrize(("words", "trigger"), SAID)
def test_options_say_when(here: Terminal, words: str, trigger: dict[str, object]) -> None:
    made = here.json("signal", "add", *words.split(), "--then", "submit")
    assert made["trigger"] == trigger
    assert made["created_by"] == "me"


THEN = [
    ("follow-up --title Why? --body x --agent ada", {"title": "Why?", "body": "x", "agent": "ada"}),
    (
        "submit --title t --type bug_fix --priority high --label a --label b",
        {"title": "t", "type": "bug_fix", "priority": 2, "labels": ["a", "b"]},
    ),
    ("dispatch --agent ada", {"agent": "ada"}),
    ("hold --reason wait", {"reason": "wait"}),
    ("release", {}),
    ("trigger --agent ada --schedule nightly", {"agent": "ada", "schedule": "nightly"}),
    ("notify --to https://example.org/hook", {"url": "https://example.org/hook"}),
]


def test_a_time_from_now_is_the_same_in_every_zone(here: Terminal) -> None:
    words = ("signal", "add", "--at", "+2h", "--timezone", "Europe/Berlin", "--then", "submit")
    away = datetime.fromisoformat(here.json(*words)["trigger"]["at"]) - datetime.now(UTC)
    assert timedelta(hours=1.9) < away < timedelta(hours=2.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--max-fires 0", "'0' is not allowed; write 1, 2, 3, … or unlimited"),
        ("--then notify --to ftp://x", "rota: --to: 'ftp://x' is not an http or https"),
    ],
)
def test_what_is_wrong_is_called_by_its_name(here: Terminal, words: str, said: str) -> None:
    done = here.run("signal", "add", "--on-status", "failed", *words.split())
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(("words", "facts"), THEN)
def test_options_say_what_follows(here: Terminal, words: str, facts: dict[str, object]) -> None:
    made = here.json("signal", "add", "--on-status", "failed", "--then", *words.split())
    kind = words.split(maxsplit=1)[0].replace("-", "_")
    assert made["action"] == {"kind": kind, **facts}


def test_options_say_for_which_items(here: Terminal) -> None:
    first, second = an_item(here), an_item(here)
    project = here.type("project", "add", "gate").split()[0]
    one = here.json("signal", "add", "--on-status", "failed", "--item", first)
    assert one["work_item_id"] == first
    both = ("--item", first, "--item", second)
    fan_in = here.json("signal", "add", "--when-all-in", "completed", *both)
    assert fan_in["trigger"]["items"] == [first, second]
    assert fan_in["work_item_id"] is None
    whole = here.json("signal", "add", "--when-any-in", "failed", "--project", project)
    assert whole["trigger"] == {
        "kind": "work_items.any_in",
        "in": ["failed"],
        "project_id": project,
    }


def test_options_say_how_often(here: Terminal) -> None:
    fails = ("signal", "add", "--on-status", "failed")
    assert here.json(*fails)["max_fires"] == 1
    assert here.json(*fails, "--max-fires", "7")["max_fires"] == 7
    assert here.json(*fails, "--max-fires", "unlimited")["max_fires"] is None
    made = here.json(*fails, "--expires", "2099-01-01", "--max-depth", "0", "--name", "watch")
    assert made["expires_at"] == "2099-01-01T00:00:00.000000Z"
    assert (made["max_depth"], made["name"]) == (0, "watch")
    assert here.json(*fails, "--name", "watch", code=7)["code"] == "refused"


def test_a_signal_can_be_read_from_a_file(here: Terminal, tmp_path: Path) -> None:
    spec = {"trigger": {"kind": "run.finished"}, "action": {"kind": "submit"}, "max_fires": None}
    (tmp_path / "signal.json").write_text(json.dumps(spec))
    made = here.json("signal", "add", "--spec", "signal.json")
    assert (made["trigger"], made["max_fires"]) == (spec["trigger"], None)
    done = here.run("signal", "add", "--spec", "-", stdin=json.dumps(spec))
    assert done.returncode == 0
    assert len(here.json("signal", "list")) == 2


WRONG = [
    "signal add",
    "signal add --on-status gone",
    "signal add --on-status failed --after 2h",
    "signal add --on-status failed --title x",
    "signal add --on-status failed --then explode",
    "signal add --on-status failed --then notify",
    "signal add --on-status failed --then notify --to ftp://example.org",
    "signal add --on-status failed --then submit --title {item.secret}",
    "signal add --on-status failed --item none-such",
    "signal add --on-status failed --item a --item b",
    "signal add --on-status failed --project none-such",
    "signal add --on-status failed --max-fires never",
    "signal add --on-status failed --expires 2001-01-01",
    "signal add --when-all-in completed",
    "signal add --at 2001-01-01",
    "signal add --at soon",
    "signal add --after 5x",
    "signal add --on-source web --field x",
    "signal add --spec missing.json",
    "signal add --spec list.json",
    "signal add --spec typo.json",
    "signal add --spec good.json --name x",
    "signal test --on-status failed --item none-such",
    "signal list --status gone",
    "follow-up claim",
    "follow-up claim --agent 'Not A Name'",
    "follow-up done x --outcome great",
    "follow-up release x",
    "follow-up heartbeat x",
    "follow-up heartbeat x --token y --lease never",
]


def test_what_is_wrong_is_usage_and_nothing_is_stored(here: Terminal, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "typo.json").write_text('{"trigger": {"kind": "run.finished"}, "actoin": {}}')
    (tmp_path / "good.json").write_text('{"trigger": {"kind": "run.finished"}}')
    for words in WRONG:
        done = here.run(*words.replace("'Not A Name'", "Not-A-Name").split())
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert done.stderr.startswith("rota: "), (words, done.stderr)
    assert here.json("signal", "list") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--on-status failed --item none-such", "--item: there is no work item 'none-such'"),
        ("--on-status failed --of-agent A!", "--of-agent: 'A!' is not a name; "),
        ("--on-status failed --of-agent a --item b", "--item: one item needs no --project, "),
        ("--on-status failed --then dispatch", "--agent: --then dispatch needs it\n"),
        ("--on-status failed --then dispatch --agent A!", "--agent: 'A!' is not a name; "),
        (
            "--after 2h --then hold",
            "--item: --then hold needs it, for this trigger is about no item; or choose another",
        ),
        ("--on-status failed --then notify", "--to: --then notify needs it, or --channel\n"),
        ("--on-status failed --then notify --to ftp://x", "--to: 'ftp://x' is not an http"),
        (
            "--on-status failed --then dispatch --agent a --title b",
            "--title: it does not go with --then dispatch\n",
        ),
        (
            "--on-status failed --then submit --title a --schedule b",
            "--schedule: it does not go with --then submit; --agent, --body, --label, --priority,"
            " --title, --type do\n",
        ),
        ("--on-run any --nth 3", "--nth: it does not go with --on-run; --of-agent, --of-schedule"),
        ("--when-all-in failed", "name either --item or --project\n"),
        (
            "--when-all-in failed --of-type a",
            "--of-type: it does not go with --when-all-in; --item",
        ),
        ("--after 5x", '--after: Invalid time unit "x"'),
        ("--after 2h --of-type a", "--in: say in which status: --in in_review\n"),
        ("--after 2h --timezone X", "--timezone: goes with --at\n"),
        ("--at +2h --in failed", "--at: goes with none of --in, --project, --of-type"),
        ("--on-status failed --expires 2001-01-01", "--expires: 2001-01-01T"),
        (
            "--on-status failed --then submit --title {item.secret}",
            "--title: there is no field 'item.secret'; ",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_options_that_were_given(
    here: Terminal, words: str, told: str
) -> None:
    for command in ("add", "test"):
        if command == "test" and "--expires" in words:
            continue  # nothing is stored that could
        done = here.run("signal", command, *words.split())
        assert (done.returncode, done.stderr[: len(told) + 6]) == (2, f"rota: {told}")


def test_whoever_writes_or_reads_json_is_told_by_its_names(here: Terminal, tmp_path: Path) -> None:
    fields = '{"trigger": {"kind": "run.finished", "agent": "A!"}}'
    done = here.run("signal", "add", "--spec", "-", stdin=fields)
    assert done.stderr.startswith("rota: trigger.agent: 'A!' is not a name")
    told = here.json("signal", "add", "--on-run", "any", "--of-agent", "A!", code=2)
    assert told["message"].startswith("trigger.agent: 'A!' is not a name")


# looking, cancelling, trying


def test_a_signal_is_listed_shown_and_cancelled(here: Terminal, served: Served, tick: Tick) -> None:
    item = an_item(here)
    made = here.json("signal", "add", "--on-status", "failed", "--item", item, "--name", "watch")
    assert here.type("signal", "list").rstrip("\n").split("\t") == [
        made["id"], "watch", "active", "0/1", item, made["created_at"],
        "work_item.status.transition to=failed", "submit",
    ]  # fmt: skip
    assert made["id"] in here.type("show", item)
    assert here.json("show", item)["signals"][0]["id"] == made["id"]
    bring(served, item, Status.FAILED)
    assert tick() == 1
    shown = here.type("signal", "show", made["id"])
    assert "fired       1 of 1" in shown
    assert "enqueued" in shown
    assert here.json("signal", "cancel", made["id"], code=7)["code"] == "refused"
    other = here.json("signal", "add", "--on-status", "failed")["id"]
    assert here.type("signal", "cancel", other) == f"cancelled  {other}\n"
    assert [one["id"] for one in here.json("signal", "list", "--status", "cancelled")] == [other]
    assert here.json("signal", "show", "none-such", code=1)["code"] == "not_found"


def test_a_signal_is_tried_on_the_past(here: Terminal, served: Served) -> None:
    item = an_item(here)
    bring(served, item, Status.FAILED)
    words = ("signal", "test", "--on-status", "failed", "--of-type", "chore")
    assert f"work.failed  {item}" in here.type(*words)
    assert [one["work_item_id"] for one in here.json(*words)] == [item]
    none = here.run("signal", "test", "--on-status", "blocked")
    assert none.returncode == 1
    assert "none of the last 1,000 events" in none.stderr
    assert here.json("signal", "list") == []


def test_what_could_not_follow_is_listed_and_tried_again(
    here: Terminal, served: Served, clock: ManualClock, tick: Tick
) -> None:
    item = an_item(here)
    then = ("--then", "trigger", "--agent", "ada", "--schedule", "often")
    here.type("signal", "add", "--on-status", "blocked", "--item", item, *then)
    bring(served, item, Status.BLOCKED)
    for _ in range(MOST_ATTEMPTS):
        tick()
        clock.advance(301)
    (failed,) = here.json("signal", "list", "--failed")
    assert "there is no schedule ada/often" in here.type("signal", "list", "--failed")
    assert "queued" in here.type("signal", "retry", failed["id"])
    assert here.json("signal", "retry", failed["id"], code=7)["code"] == "refused"
    assert here.json("signal", "list", "--failed") == []


# follow-ups


def test_a_follow_up_is_claimed_and_done(here: Terminal, follow_up: str) -> None:
    taken = here.json("follow-up", "claim", "--agent", "bob", "--lease", "10m")
    assert taken["id"] == follow_up
    nothing = here.run("follow-up", "claim", "--agent", "eve")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert json.loads(here.run("follow-up", "claim", "--agent", "eve", "--json").stdout) == {
        "schema_version": 1,
        "data": None,
        "meta": {"reason": "nothing_open", "via": here.variables["ROTA_URL"]},
    }
    assert here.json("follow-up", "done", follow_up, code=7)["code"] == "claim_lost"
    token = ("--token", taken["token"])
    done = here.type("follow-up", "done", follow_up, *token, "--notes", "she knows")
    assert "completed" in done
    assert "she knows" in done
    assert follow_up in here.type("show", taken["work_item_id"])


def test_a_follow_up_is_kept_by_heartbeats(
    here: Terminal, follow_up: str, clock: ManualClock
) -> None:
    taken = here.json("follow-up", "claim", "--agent", "bob", "--lease", "1m")
    heartbeat = ("follow-up", "heartbeat", follow_up, "--token", taken["token"])
    clock.advance(50)
    assert here.type(*heartbeat, "--lease", "2m").startswith(f"{follow_up} is yours until 20")
    assert here.json(*heartbeat, "--lease", "2m")["lease_expires_at"] == clock.text(120)
    clock.advance(121)
    here.type("follow-up", "claim", "--agent", "eve")
    assert here.json(*heartbeat, code=7)["code"] == "claim_lost"


def test_a_follow_up_is_given_back_and_cancelled(here: Terminal, follow_up: str) -> None:
    printed = here.run("follow-up", "claim", "--agent", "bob")
    token = printed.stdout.partition("token")[2].split()[0]
    assert f"rota follow-up done {follow_up} --token {token}" in printed.stderr
    assert "open" in here.type("follow-up", "release", follow_up, "--token", token)
    columns = here.type("follow-up", "list", "--status", "open").rstrip("\n").split("\t")
    assert (columns[0], columns[1], columns[6]) == (follow_up, "open", "Look after: Mend the gate")
    assert "cancelled" in here.type("follow-up", "cancel", follow_up, "--notes", "settled")
    assert here.json("follow-up", "list", "--status", "open") == []
    assert here.json("follow-up", "cancel", "none-such", code=1)["code"] == "not_found"


def test_without_a_server_signals_are_kept_in_the_database(
    served: Served, tmp_path: Path, database: str
) -> None:
    here = ThisProcess(tmp_path, {"DATABASE_URL": database})
    made = here.json("signal", "add", "--on-status", "failed")
    assert here.json("signal", "show", made["id"])["firings"] == []
    assert here.json("follow-up", "list") == []
