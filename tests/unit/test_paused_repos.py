"""Paused repositories: by which names, and that a pause holds whatever happens to its file."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.claims import pauses
from rota.claims.pauses import PausedRepos, is_repo_paused, list_paused_repos, set_repo_paused
from rota.model.errors import MalformedReference, PauseUnreadable, Refused, StorageUnavailable

# Pauses a hundred repositories of its own, one by one.
BUSY_OPERATOR = """
import sys
from pathlib import Path
from rota.claims.pauses import PausedRepos
for number in range(100):
    PausedRepos(Path(sys.argv[1])).set(f"{sys.argv[2]}/repo-{number}", True)
"""


@pytest.fixture
def repos(tmp_path: Path) -> PausedRepos:
    return PausedRepos(tmp_path / "state" / "paused-repos.json")


def with_paused(repos: PausedRepos, *names: str) -> PausedRepos:
    repos.path.parent.mkdir(exist_ok=True)
    repos.path.write_text(json.dumps({"paused": names}))
    return repos


# The file.


def test_without_a_file_nothing_is_paused(repos: PausedRepos) -> None:
    assert not repos.is_paused("octo/widgets")
    assert repos.list() == []
    assert not repos.path.parent.exists(), "looking changes nothing"


def test_a_pause_is_seen_by_everybody_until_it_is_lifted(repos: PausedRepos) -> None:
    assert repos.set("octo/widgets", True) == ["octo/widgets"]
    assert repos.set("acme/tools", True) == ["acme/tools", "octo/widgets"]
    assert PausedRepos(repos.path).is_paused("octo/widgets")
    assert repos.set("octo/widgets", False) == ["acme/tools"]
    assert not PausedRepos(repos.path).is_paused("octo/widgets")


def test_the_file_can_be_read_by_people_and_by_label_state(repos: PausedRepos) -> None:
    repos.set("widgets", True)
    assert json.loads(repos.path.read_text()) == {"paused": ["widgets"]}


def test_state_is_private_to_its_owner(repos: PausedRepos) -> None:
    repos.set("widgets", True)
    assert repos.path.stat().st_mode & 0o777 == 0o600
    assert repos.path.parent.stat().st_mode & 0o777 == 0o700


def test_the_state_directory_of_the_environment_is_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STATE_DIR", str(tmp_path / "one"))
    assert tmp_path / "one" / "paused-repos.json" == pauses.PAUSED_REPOS_FILE
    assert set_repo_paused("widgets", True) == list_paused_repos() == ["widgets"]
    assert is_repo_paused("octo/widgets")
    monkeypatch.setenv("ROTA_STATE_DIR", str(tmp_path / "two"))
    assert not is_repo_paused("octo/widgets")
    monkeypatch.delenv("ROTA_STATE_DIR")
    assert Path(".rota/paused-repos.json") == pauses.PAUSED_REPOS_FILE


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_text(""),
    "cut short": lambda path: path.write_text('{"paused": ["octo/wid'),
    "not an object": lambda path: path.write_text('["octo/widgets"]'),
    "nothing": lambda path: path.write_text("null"),
    "without the list": lambda path: path.write_text("{}"),
    "no list": lambda path: path.write_text('{"paused": "octo/widgets"}'),
    "no names": lambda path: path.write_text('{"paused": [1]}'),
    "no repository": lambda path: path.write_text('{"paused": ["octo/wid gets"]}'),
    "an address": lambda path: path.write_text('{"paused": ["https://github.com/o/r"]}'),
    "two lists": lambda path: path.write_text('{"paused": ["octo/widgets"], "paused": []}'),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
    "too deep": lambda path: path.write_text("[" * 100_000),
    "a directory": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to(path.parent / "unmounted"),
}


@pytest.mark.parametrize("spoil", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_list_that_cannot_be_read_is_never_taken_for_an_empty_one(
    repos: PausedRepos, spoil: Callable[[Path], object]
) -> None:
    repos.path.parent.mkdir()
    spoil(repos.path)
    for ask in (
        repos.list,
        lambda: repos.is_paused("octo/widgets"),
        lambda: repos.set("a/b", True),
        lambda: repos.set("a/b", False),
    ):
        with pytest.raises(PauseUnreadable, match=r"nothing is picked up: .*paused-repos\.json"):
            ask()


def test_why_a_file_cannot_be_read_is_told_in_words(repos: PausedRepos) -> None:
    repos.path.parent.write_text("a file where a directory should be")
    with pytest.raises(PauseUnreadable, match=rf"{repos.path}: Not a directory; mend"):
        repos.list()


def test_a_file_that_cannot_be_read_is_not_written_over(repos: PausedRepos) -> None:
    repos.path.parent.mkdir()
    repos.path.write_text("paused: octo/widgets")
    with pytest.raises(PauseUnreadable):
        repos.set("a/b", True)
    assert repos.path.read_text() == "paused: octo/widgets"


def test_a_failed_write_changes_nothing_and_leaves_nothing(
    repos: PausedRepos, monkeypatch: pytest.MonkeyPatch
) -> None:
    repos.set("octo/widgets", True)
    before = sorted(repos.path.parent.iterdir())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageUnavailable, match="No space left"):
            repos.set("octo/widgets", False)
    assert repos.list() == ["octo/widgets"]
    assert sorted(repos.path.parent.iterdir()) == before


def test_a_pause_is_on_disk_before_it_counts_and_stays_there(
    repos: PausedRepos, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def replaced(path: Path, target: Path) -> Path:
        steps.append("replace")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    repos.set("octo/widgets", True)
    assert steps == ["file", "replace", "directory"]


def test_operators_who_pause_at_the_same_time_both_succeed(repos: PausedRepos) -> None:
    command = [sys.executable, "-c", BUSY_OPERATOR, str(repos.path)]
    operators = [subprocess.Popen([*command, name]) for name in ("ada", "bob", "eve")]
    assert [operator.wait() for operator in operators] == [0, 0, 0]
    assert len(repos.list()) == 300


# The names.


@pytest.mark.parametrize(
    ("paused", "asked", "answer"),
    [
        ("octo/widgets", "octo/widgets", True),
        ("octo/widgets", "Octo/WIDGETS", True),
        ("OCTO/Widgets", "octo/widgets", True),
        ("octo/widgets", "widgets", True),
        ("widgets", "octo/widgets", True),
        ("widgets", "acme/widgets", True),
        ("octo/widgets", "acme/widgets", False),
        ("octo/widgets", "octo/widgets-2", False),
        ("octo/widgets", "octo", False),
        ("widgets", "gets", False),
    ],
)
def test_a_name_without_an_owner_is_everybodys(
    repos: PausedRepos, paused: str, asked: str, answer: bool
) -> None:
    assert with_paused(repos, paused).is_paused(asked) is answer


@pytest.mark.parametrize("name", ["", "a b", "a/b/c", "/b", "a/", "https://github.com/a/b", "b#5"])
def test_what_is_no_repository_is_refused(repos: PausedRepos, name: str) -> None:
    for ask in (repos.is_paused, lambda name: repos.set(name, True)):
        with pytest.raises(MalformedReference, match="OWNER/REPO"):
            ask(name)


@pytest.mark.parametrize(
    ("standing", "repo", "left"),
    [
        (["widgets"], "octo/widgets", []),
        (["octo/widgets"], "widgets", []),
        (["octo/widgets"], "WIDGETS", []),
        (["octo/widgets", "acme/widgets"], "octo/widgets", ["acme/widgets"]),
        (["octo/widgets"], "acme/widgets", ["octo/widgets"]),
        (["octo/widgets", "widgets"], "octo/widgets", []),
        (["octo/widgets", "widgets"], "widgets", []),
        (["acme/tools"], "widgets", ["acme/tools"]),
    ],
)
def test_resuming_takes_away_whatever_paused_it(
    repos: PausedRepos, standing: list[str], repo: str, left: list[str]
) -> None:
    assert with_paused(repos, *standing).set(repo, False) == left


@pytest.mark.parametrize(
    ("standing", "repo"),
    [
        (["acme/widgets", "octo/widgets"], "widgets"),
        (["acme/widgets", "widgets"], "octo/widgets"),
    ],
)
def test_resuming_what_may_be_somebody_elses_is_refused_and_names_them(
    repos: PausedRepos, standing: list[str], repo: str
) -> None:
    with pytest.raises(Refused, match=", ".join(standing)):
        with_paused(repos, *standing).set(repo, False)
    assert repos.list() == standing


def test_a_pause_of_everybodys_swallows_those_of_single_owners(repos: PausedRepos) -> None:
    repos.set("octo/widgets", True)
    repos.set("acme/widgets", True)
    assert repos.set("widgets", True) == ["widgets"]
    assert repos.set("octo/widgets", True) == ["widgets"]


def test_pausing_twice_is_pausing_once(repos: PausedRepos) -> None:
    repos.set("octo/widgets", True)
    assert repos.set("OCTO/widgets", True) == ["octo/widgets"]


NAMES = st.sampled_from(["widgets", "octo/widgets", "ACME/Widgets", "tools", "octo/tools"])


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=8))
def test_what_was_paused_is_and_what_was_resumed_is_not(
    tmp_path_factory: pytest.TempPathFactory, orders: list[tuple[str, bool]]
) -> None:
    repos = PausedRepos(tmp_path_factory.mktemp("state") / "paused-repos.json")
    for name, paused in orders:
        before = repos.list()
        try:
            repos.set(name, paused)
        except Refused:
            assert not paused
            assert repos.list() == before
        else:
            assert repos.is_paused(name) is paused
