"""The fleet walked from the command line, with issues of a tracker as its work."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.model.clock import from_text
from rota.testing.tracker import FaultKind, TrackerStub
from tests.acceptance.fleet_site import Site
from tests.acceptance.terminal import Terminal

REPO = "ada/engine"
TOKEN = "TRACKER_TOKEN"
BOT_ID, ADA_ID = 8, 7
COMMENT = rf"/repos/{REPO}/issues/\d+/comments$"


class Forge:
    """A private repository of Ada's, in which the fleet works under an account of its own."""

    def __init__(self, stub: TrackerStub, place: Site) -> None:
        self.control = stub.control
        self.control.reset()
        self.control.user("ada", id=ADA_ID)
        self.control.user("rota-bot", id=BOT_ID)
        self.control.repo(REPO, private=True, collaborators=["rota-bot"])
        place.variables[TOKEN] = self.control.token("rota-bot")
        self._source = {
            "type": "github",
            "repo": REPO,
            "api_url": stub.url,
            "auth": {"token_env": TOKEN},
            "times": {"settle": 0.05, "poll": 1, "grace": 60, "margin": 1},
            # Who has lost it hears so after a third of it; a server that stands still for some
            # seconds, on a busy machine, keeps it.
            "lease_seconds": 10,
            "poll_seconds": 1,
        }

    def listed(self) -> dict[str, Any]:
        """`rota issue` knows what the file lists, and nothing of agents."""
        return {"sources": [self._source]}

    def source(self, **facts: Any) -> dict[str, Any]:
        return self._source | facts

    def issue(self, *plays: str, **facts: Any) -> int:
        """Its text stands between fences, and the actor finds its part there."""
        body = "\n".join(f"PLAY: {one}" for one in plays)
        return self.control.issue(
            REPO, "Mend the mill", body=body, user="ada", labels=["ready"], **facts
        )

    def look(self, number: int) -> Any:
        return self.control.look(REPO, number)

    def comments(self, number: int, kind: str = "") -> list[str]:
        return [
            one["body"]
            for one in self.look(number)["comments"]
            if f"<!-- agent-{kind}" in one["body"]
        ]

    def labels(self, number: int) -> set[str]:
        return set(self.look(number)["labels"])


@pytest.fixture
def forge(stub: TrackerStub, place: Site) -> Forge:
    return Forge(stub, place)


def test_an_issue_is_claimed_worked_on_reported_and_closed(place: Site, forge: Forge) -> None:
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    place.configure(place.agent(work_source=forge.source()))
    place.up()
    start = place.await_start()
    assert start["fenced"]
    assert "agent-working" in forge.labels(number)
    assert len(forge.comments(number, "claim")) == 1
    door.touch()
    place.await_status(start["item"], "completed")
    assert forge.look(number)["state"] == "closed"
    assert len([one for one in forge.comments(number) if "All done." in one]) == 1
    assert "agent-working" not in forge.labels(number)
    [run] = place.runs()
    assert (run["status"], run["item_title"]) == ("succeeded", "Mend the mill")
    assert place.kinds(start["item"])[-1] == "work.completed"
    assert len(place.starts()) == 1


class Tree:
    """A work tree with one commit that closes an issue, pushed as git would ask the hook."""

    def __init__(self, place: Site, stub: TrackerStub, number: int) -> None:
        path = place.place / "tree"
        path.mkdir()
        self._terminal = Terminal(path, place.variables)
        self._url = f"{stub.url}/{REPO}.git"
        self._git("init", "--quiet")
        self._git("commit", "--quiet", "--allow-empty", "-m", f"Mend it\n\nCloses #{number}")

    def _git(self, *words: str) -> str:
        ada = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(
            ["git", *ada, *words], cwd=self._terminal.place, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def may_push(self, local: str, branch: str) -> bool:
        line = f"{local} {self._git('rev-parse', 'HEAD')} refs/heads/{branch} {'0' * 40}\n"
        words = ("hook", "pre-push", "origin", self._url, "--config", "../rota.yaml", "--json")
        judged = json.loads(self._terminal.run(*words, stdin=line).stdout)["data"]
        assert judged["notes"] == [], "nothing was left unchecked"
        return bool(judged["allowed"])


def test_an_agent_may_push_from_the_branch_that_it_is_told_and_from_no_other(
    place: Site, forge: Forge, stub: TrackerStub
) -> None:
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    place.configure(place.agent(work_source=forge.source()))
    place.up()
    start = place.await_start()
    [claim] = [one["id"] for one in forge.look(number)["comments"] if "agent-claim" in one["body"]]
    assert start["claim"] == str(claim)
    assert start["branch"] == f"agent/{number}/{claim}"
    assert start["epoch"] == str(place.runs()[0]["epoch"])
    tree = Tree(place, stub, number)
    for branch, allowed in (
        (start["branch"], True),
        (f"agent/{number}/{claim + 1}", False),
        (f"agent/{number + 1}/{claim}", False),
        ("main", False),
    ):
        assert tree.may_push(f"refs/heads/{branch}", branch) is allowed, branch
        # From a worktree that nobody has made a branch in: git push origin HEAD:BRANCH
        assert tree.may_push("HEAD", branch) is allowed, branch
    door.touch()
    place.await_status(start["item"], "completed")


def test_a_failed_attempt_is_told_on_the_issue_and_the_next_one_closes_it(
    place: Site, forge: Forge
) -> None:
    number = forge.issue("fail_until 2")
    place.configure(place.agent(work_source=forge.source()))
    place.up()
    start = place.await_start(2)
    place.await_status(start["item"], "completed")
    assert [one["status"] for one in place.runs()] == ["failed", "succeeded"]
    said = forge.comments(number)
    assert len([one for one in said if "The hinge is rusty." in one]) == 1
    assert len([one for one in said if "All done." in one]) == 1
    assert forge.look(number)["state"] == "closed"


def test_the_last_failure_leaves_the_issue_open_and_marked(place: Site, forge: Forge) -> None:
    number = forge.issue("fail 4")
    place.configure(place.agent(work_source=forge.source(), retry={"max_attempts": 1}))
    place.up()
    start = place.await_start()
    place.await_status(start["item"], "failed")
    assert forge.look(number)["state"] == "open"
    assert "agent:failed" in forge.labels(number)
    assert not {"ready", "agent-working"} & forge.labels(number)
    assert len([one for one in forge.comments(number) if "I give up." in one]) == 1
    assert len(place.starts()) == 1


def test_half_of_it_blocks_the_item_and_keeps_agents_from_the_issue(
    place: Site, forge: Forge
) -> None:
    number = forge.issue("partial")
    place.configure(place.agent(work_source=forge.source()))
    place.up()
    start = place.await_start()
    place.await_status(start["item"], "blocked")
    assert forge.look(number)["state"] == "open"
    assert len([one for one in forge.comments(number) if "Half of it." in one]) == 1
    looks = place.schedule("smith")["skip_count"]
    place.eventually(lambda: place.schedule("smith")["skip_count"] > looks + 1, "nobody looked")
    assert len(place.starts()) == 1


# lost claims


def test_a_person_who_takes_the_issue_ends_the_agent_and_it_touches_nothing(
    place: Site, forge: Forge
) -> None:
    number = forge.issue("stubborn", "fork", "nap 600")
    place.configure(place.agent(work_source=forge.source()), **forge.listed())
    place.up()
    start = place.await_start()
    place.type("issue", "claim", f"{REPO}#{number}", "--force")
    before = forge.look(number)
    place.eventually(lambda: not place.alive(), "the agent goes on")
    assert place.await_run(start["run"], "claim_lost")["agent"] == "smith"
    looks = place.schedule("smith")["skip_count"]
    place.eventually(lambda: place.schedule("smith")["skip_count"] > looks + 1, "nobody looked")
    after = forge.look(number)
    assert (after["comments"], after["labels"]) == (before["comments"], before["labels"])
    assert (after["state"], len(place.starts())) == ("open", 1)


def test_an_item_that_is_taken_away_by_hand_ends_its_run(place: Site, forge: Forge) -> None:
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    place.configure(place.agent(work_source=forge.source()))
    place.up()
    first = place.await_start()
    place.type("release", first["item"], "--force", "--reason", "not by you")
    place.eventually(lambda: first["pid"] not in place.alive(), "the agent goes on")
    place.await_run(first["run"], "claim_lost")
    second = place.await_start(2)
    assert (second["item"], second["run"]) != (first["item"], first["run"])
    door.touch()
    place.await_status(second["item"], "completed")
    assert len([one for one in forge.comments(number) if "All done." in one]) == 1
    assert forge.look(number)["state"] == "closed"


# a server that ends in the middle


def test_an_issue_whose_server_was_killed_is_done_by_the_next_run(
    place: Site, forge: Forge
) -> None:
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    place.configure(place.agent(work_source=forge.source(lease_seconds=900)))
    node = place.up()
    first = place.await_start()
    node.kill()
    door.touch()
    node.start()
    second = place.await_start(2)
    place.await_status(second["item"], "completed")
    assert second["item"] == first["item"]
    assert [one["status"] for one in place.runs()] == ["lost", "succeeded"]
    assert len([one for one in forge.comments(number) if "All done." in one]) == 1
    assert forge.look(number)["state"] == "closed"
    assert not {"ready", "agent-working"} & forge.labels(number)


def test_agents_with_labels_of_their_own_keep_their_issues_when_their_server_is_killed(
    place: Site, forge: Forge
) -> None:
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    forge.control.label(REPO, number, add=["poem"], remove=["ready"])
    poems = forge.source(labels={"ready": "poem", "in_progress": "writing"}, lease_seconds=900)
    place.configure(
        place.agent("smith", work_source=forge.source()), place.agent("poet", work_source=poems)
    )
    node = place.up()
    first = place.await_start()
    node.kill()
    door.touch()
    node.start()
    second = place.await_start(2)
    place.await_status(second["item"], "completed")
    assert [first["agent"], second["agent"]] == ["poet", "poet"]
    assert forge.labels(number) == {"agent:managed", "agent:done"}


def test_an_issue_is_given_back_by_a_server_that_stops(place: Site, forge: Forge) -> None:
    number = forge.issue("nap 600")
    place.configure(place.agent(work_source=forge.source()))
    node = place.up("--drain", "0.1")
    start = place.await_start()
    assert node.stop() == 0
    assert place.alive() == []
    assert place.shown(start["item"])["status"] == "queued"
    assert "ready" in forge.labels(number)
    assert "agent-working" not in forge.labels(number)
    [run] = place.runs()
    assert (run["status"], run["error"]) == ("cancelled", "shut_down")


# a tracker that is not well


def test_a_report_that_the_tracker_did_not_take_is_delivered_once_after_a_crash(
    place: Site, forge: Forge
) -> None:
    """Also when the server is down for longer than the lease."""
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    place.configure(place.agent(work_source=forge.source(lease_seconds=6)))
    node = place.up()
    start = place.await_start()
    forge.control.fault(FaultKind.ERROR_BEFORE, method="POST|PATCH|DELETE|PUT", status=500)
    door.touch()
    place.eventually(lambda: place.runs()[0]["status"] == "succeeded" or None, "the run goes on")
    node.kill()
    left = place.shown(start["item"])
    assert left["status"] == "in_progress"
    over = from_text(left["claim"]["expires_at"])
    place.eventually(lambda: datetime.now(UTC) > over, "its lease has no end")
    forge.control.clear_faults()
    place.up()
    place.await_status(start["item"], "completed")
    assert forge.look(number)["state"] == "closed"
    assert len([one for one in forge.comments(number) if "All done." in one]) == 1
    assert len(place.starts()) == 1
    place.await_delivered()


def test_while_a_report_waits_the_claim_is_kept(place: Site, forge: Forge) -> None:
    """For longer than its lease; nobody does the work again."""
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    lease = 3
    place.configure(place.agent(work_source=forge.source(lease_seconds=lease)))
    place.up()
    start = place.await_start()
    forge.control.fault(FaultKind.ERROR_BEFORE, method="POST|PATCH|DELETE|PUT", status=500)
    door.touch()
    run = place.eventually(
        lambda: one if (one := place.runs()[0])["status"] == "succeeded" else None, "it goes on"
    )
    long_after = from_text(run["ended_at"]) + timedelta(seconds=2.2 * lease)
    place.eventually(
        lambda: from_text(place.shown(start["item"])["claim"]["expires_at"]) > long_after or None,
        "nobody kept it",
    )
    forge.control.clear_faults()
    place.await_status(start["item"], "completed")
    assert len([one for one in forge.comments(number) if "All done." in one]) == 1
    assert len(place.starts()) == 1


def test_an_answer_that_never_came_is_not_told_twice(place: Site, forge: Forge) -> None:
    """The comment stands there, but who posted it died before it heard so."""
    door = place.place / "door"
    number = forge.issue(f"wait_for {door}")
    place.configure(place.agent(work_source=forge.source()))
    node = place.up()
    start = place.await_start()
    forge.control.fault(FaultKind.HANG_AFTER, method="POST", path=COMMENT, seconds=60)
    door.touch()
    place.eventually(
        lambda: [one for one in forge.comments(number) if "All done." in one], "no comment"
    )
    node.kill()
    forge.control.clear_faults()
    place.up()
    place.await_status(start["item"], "completed")
    assert len([one for one in forge.comments(number) if "All done." in one]) == 1
    assert forge.look(number)["state"] == "closed"
    assert len(place.starts()) == 1


def test_an_agent_whose_tracker_is_away_says_so_and_the_others_work(
    place: Site, forge: Forge
) -> None:
    away = forge.source(api_url="http://127.0.0.1:9")
    place.configure(place.agent("jones", work_source=away), place.agent())
    place.up()
    place.await_status(place.add(), "completed")
    standing = place.eventually(
        lambda: one if (one := place.schedule("jones"))["last_error"] else None, "not said"
    )
    assert standing["last_skip_reason"] == "source_error"
    assert "127.0.0.1:9" in standing["last_error"]
