"""Every example runs as its page says, in a copy of its directory, with stand-ins for the world.

The pages are run like those of the documentation (`tests/docs/console.py`): what they show is what
is asserted. GitHub is the tracker stub; `claude` is a program that prints what Claude Code has
printed once.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rota.testing import zygote
from rota.testing.tracker import TrackerStub
from tests.acceptance.terminal import ThisProcess
from tests.docs import console
from tests.docs.pages import EXAMPLES, ROOT

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
REPO, PRINTED_TOKEN = "octocat/hello", "ghp_yours"
STREAM = ROOT / "tests/data/runtimes/claude-success.jsonl"
# It notes how it was called, and takes no longer than a file is long.
CLAUDE = f"""#!/bin/sh
printf '%s\\n' "$*" >> "$HOME/claude.args"
pwd >> "$HOME/claude.places"
cat >> "$HOME/claude.prompts"
sed 's|acme/shop|{REPO}|g' '{STREAM}'
"""
# Those of a tracker that shows every write at once, and of a reader who is in a hurry.
HURRY = ["times: {settle: 0.05, poll: 1, grace: 60, margin: 1}", "poll_seconds: 1"]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What a reader has on the path: `rota` and `label-state`, as forks, and `claude`."""
    place = tmp_path / "programs"
    place.mkdir()
    for program in zygote.the_zygote().scripts().iterdir():
        (place / program.name).symlink_to(program)
    claude = place / "claude"
    claude.write_text(CLAUDE)
    claude.chmod(0o755)
    return place


class Copy:
    """An example in a directory of its own."""

    def __init__(self, name: str, tmp_path: Path, programs: Path) -> None:
        self.place = tmp_path / name
        self._programs = programs
        shutil.copytree(EXAMPLES / name, self.place)

    def run(self, token: str = PRINTED_TOKEN) -> None:
        page = self.place / "README.md"
        console.check(page, self.place, {PRINTED_TOKEN: token}, self._programs)

    def point_at(self, stub: TrackerStub) -> None:
        """The tracker is the only thing that a copy says otherwise than its original."""
        for file in self.place.rglob("*.yaml"):
            more = [f"api_url: {stub.url}", *HURRY]
            text = file.read_text()
            file.write_text(re.sub(r"^( *).*repo: octocat/hello.*$", _with(more), text, flags=re.M))


def _with(lines: list[str]) -> str:
    return r"\g<0>" + "".join(rf"\n\g<1>{line}" for line in lines)


class Forge:
    """The repository that the examples name, in which the fleet has an account of its own."""

    def __init__(self, stub: TrackerStub, *titles: str, label: str = "ready") -> None:
        self._control = stub.control
        self._control.reset()
        self._control.user("octocat", id=7)
        self._control.user("hello-bot", id=8)
        self._control.repo(REPO, private=True, collaborators=["hello-bot"])
        self.token = self._control.token("hello-bot")
        for title in titles:
            self._control.issue(REPO, title, user="octocat", labels=[label])

    def labels(self, number: int) -> set[str]:
        return set(self._control.look(REPO, number)["labels"])

    def comments(self, number: int) -> list[str]:
        return [one["body"] for one in self._control.look(REPO, number)["comments"]]

    def state(self, number: int) -> str:
        state: str = self._control.look(REPO, number)["state"]
        return state


def test_every_example_is_here_and_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [name for name in NAMES if f"[{name}]({name}/README.md)" not in listed] == []
    assert len(NAMES) == 7
    assert {path.name for path in EXAMPLES.iterdir()} == {*NAMES, "README.md"}


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_of_an_example_is_right(name: str) -> None:
    [file] = [*EXAMPLES.glob(f"{name}/rota.yaml"), *EXAMPLES.glob(f"{name}/herdctl.yaml")]
    assert "ok " in ThisProcess(file.parent).type("config", "check", "--config", file.name)


def test_a_nightly_report_is_written(tmp_path: Path, programs: Path) -> None:
    copy = Copy("nightly-report", tmp_path, programs)
    copy.run()
    [report] = (copy.place / "reports").iterdir()
    assert "- Oil the hinges: which oil?" in report.read_text()


def test_a_pipeline_builds_reviews_and_builds_again(tmp_path: Path, programs: Path) -> None:
    copy = Copy("two-agent-pipeline", tmp_path, programs)
    copy.run()
    assert (copy.place / "out/a-lever.txt").read_text().endswith("and a test for it\n")


def test_a_function_is_an_agent(tmp_path: Path, programs: Path) -> None:
    Copy("python-agent", tmp_path, programs).run()


def test_three_workers_share_the_work(tmp_path: Path, programs: Path) -> None:
    copy = Copy("workers-on-three-machines", tmp_path, programs)
    copy.run()
    for machine in ("north", "south", "west"):
        assert "succeeded done on " + machine in (copy.place / f"{machine}.log").read_text()


def test_claude_answers_an_issue_with_a_pull_request(
    tmp_path: Path, programs: Path, stub: TrackerStub
) -> None:
    forge = Forge(stub, "The test fails on Mondays")
    copy = Copy("github-issues-claude", tmp_path, programs)
    copy.point_at(stub)
    _clone(copy.place / "src/hello")
    copy.run(forge.token)
    assert (forge.labels(1), forge.state(1)) == ({"agent:managed", "agent:pr-open"}, "open")
    assert [f"https://github.com/{REPO}/pull/31" in one for one in forge.comments(1)] == [
        False,
        True,
    ]
    called = (copy.place / "claude.args").read_text()
    assert called.startswith("-p --output-format stream-json --verbose --max-turns 60")
    assert called.count("--max-turns") == 1
    assert "The test fails on Mondays" in (copy.place / "claude.prompts").read_text()
    assert (copy.place / "claude.places").read_text().strip() != str(copy.place / "src/hello")


def test_labels_say_who_has_an_issue(tmp_path: Path, programs: Path, stub: TrackerStub) -> None:
    forge = Forge(stub, "For a person", "For an agent", label="agent:implement")
    copy = Copy("label-workflow", tmp_path, programs)
    copy.point_at(stub)
    copy.run(forge.token)
    assert forge.labels(1) == forge.labels(2) == {"agent:managed", "agent:pr-open"}


def test_a_fleet_of_herdctl_goes_on_here(tmp_path: Path, programs: Path, stub: TrackerStub) -> None:
    forge = Forge(stub, "The test fails on Mondays")
    copy = Copy("from-herdctl", tmp_path, programs)
    copy.point_at(stub)
    copy.run(forge.token)
    assert forge.labels(1) == {"agent:managed", "agent:pr-open"}


def _clone(place: Path) -> None:
    """A clone with a branch `main` at its origin."""
    place.parent.mkdir(parents=True)
    origin = place.with_name("origin")
    who = ["-c", "user.name=you", "-c", "user.email=you@example.org"]
    for words in (
        ["init", "-q", "-b", "main", origin],
        ["-C", origin, *who, "commit", "-q", "--allow-empty", "-m", "Begin"],
        ["clone", "-q", origin, place],
    ):
        subprocess.run(["git", *words], check=True)
