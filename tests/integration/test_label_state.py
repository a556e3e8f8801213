"""`label-state`: the spelling that others know, with the same commands underneath."""

import subprocess
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rota.cli import label_state
from rota.testing import zygote
from rota.testing.tracker import TrackerStub
from tests.acceptance.terminal import environment
from tests.integration.tracked import HOLD, MANAGED, READY, REPO, WORKING, Tracked


@dataclass
class LabelState(Tracked):
    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        variables = environment(**self.variables)
        entry = "rota.cli:label_state"
        return zygote.run(words, env=variables, cwd=self.place, input=stdin, entry=entry)


@pytest.fixture
def here(stub: TrackerStub, tmp_path: Path) -> LabelState:
    return LabelState(tmp_path, stub=stub)


def test_it_is_installed_beside_rota() -> None:
    (declared,) = entry_points(group="console_scripts", name="label-state")
    assert declared.load() is label_state


def test_an_operator_takes_an_issue_and_gives_it_back(here: LabelState) -> None:
    number = here.issue()
    assert "may be picked up" in here.type("dedup-check", f"engine#{number}")
    here.type("claim", f"engine#{number}")
    assert here.labels(number) == {WORKING, MANAGED, HOLD}
    standing = here.json("status", f"{REPO}#{number}")
    assert (standing["do_not_pickup"], standing["claimable"]) == (True, False)
    assert here.json("dedup-check", f"engine#{number}", code=1)["reason"] == "held"
    here.type("release", f"engine#{number}")
    assert here.labels(number) == {READY, MANAGED}


def test_by_labels_alone_a_hold_is_lifted_and_nothing_is_given_back(here: LabelState) -> None:
    here.configure(claim_mode="labels")
    number = here.issue(labels=[WORKING, HOLD])
    told = here.type("release", f"engine#{number}")
    assert told == f"engine#{number} was not claimed by you; the hold is off\n"
    assert here.labels(number) == {WORKING}


def test_a_repository_is_paused_and_resumed(here: LabelState) -> None:
    number = here.issue()
    assert "engine is paused" in here.type("repo", "pause", "engine")
    assert here.type("repo", "list") == "engine\n"
    assert here.json("dedup-check", f"engine#{number}", code=1)["repo_paused"]
    here.type("repo", "resume", REPO)
    assert here.json("repo", "list", "engine", code=1) == []


def test_stale_claims_are_swept(here: LabelState) -> None:
    number = here.issue()
    here.forge_claim(number, "elsewhere", "lucius", created_at="2026-05-01T19:42:33Z")
    assert here.json("sweep-claims", "--max-age-hours", "999999") == []
    (planned,) = here.json("sweep-claims", "--max-age-hours", "8", "--dry-run")
    assert (planned["deed"], planned["codename"]) == ("suspected", "lucius")
    assert here.log(number) == ["claim"]
    here.type("sweep-claims", REPO)
    assert here.log(number) == ["claim", "suspect"]


def test_mistakes_are_told_under_its_own_name(here: LabelState) -> None:
    done = here.run("claim", "nonsense")
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "label-state")
    assert "Example: label-state claim" in here.type("claim", "--help")
    assert "sweep-claims" in here.type("--help")
