"""The pre-push hook in real repositories: real pushes, through the script that was installed."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rota.claims.hook import (
    SKIP_VARIABLE,
    HookState,
    PushedCommit,
    RemoteRepo,
    check_push,
    install,
    pre_push,
    pushed_commits,
    remote_repo,
    status,
    uninstall,
)
from rota.model.errors import InvalidInput, IssueNotFound, Refused, TrackerError

URL = "git@github.com:octo/widgets.git"
HERE = RemoteRepo("github.com", "octo/widgets")
ZERO = "0" * 40

# Stands in for `rota hook pre-push`: the same entry, with a tracker that is a file.
COMMAND = """
import asyncio, json, sys
from pathlib import Path
from rota.claims.hook import pre_push
from rota.model.errors import TrackerError

tracker = json.loads(Path(sys.argv[1]).read_text())

async def verdict(host, repo, number):
    if tracker.get("down"):
        raise TrackerError("github.com does not answer")
    return tracker["in_flight"].get(f"{host}/{repo}#{number}")

result = asyncio.run(pre_push(
    sys.stdin, *sys.argv[2:4], verdict=verdict,
    knows=lambda host, repo: f"{host}/{repo}" in tracker["known"],
))
print(result.text, file=sys.stderr)
sys.exit(not result.allowed)
"""

# git speaks to "github.com" through this, so that a push to a local directory has a real address.
SSH = """#!/bin/sh
for command; do :; done
cd "$(dirname "$0")/github.com" && eval "exec git ${command#git-}"
"""


@dataclass
class Repository:
    """A work tree whose remote `origin` is `octo/widgets` on GitHub, as far as git can tell."""

    root: Path
    environ: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.root / "work"

    @property
    def tracker(self) -> Path:
        return self.root / "tracker.json"

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        return self.attempt(*arguments, cwd=cwd, check=True).stdout.strip()

    def attempt(
        self, *arguments: str, cwd: Path | None = None, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.path,
            env=self.environ | self.extra,
            capture_output=True,
            text=True,
            check=check,
        )

    def commit(self, message: str, cwd: Path | None = None) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message", message, cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd)

    def at_work(self, **issues: str) -> None:
        """`octo/widgets#5` by the name `i5`, so that it is a keyword."""
        in_flight = {f"{HERE}#{name[1:]}": reason for name, reason in issues.items()}
        self.tracker.write_text(json.dumps({"known": [str(HERE)], "in_flight": in_flight}))

    def install(self) -> None:
        install(self.path, [sys.executable, "-c", COMMAND, str(self.tracker)])

    def pushed(self, *lines: str) -> list[str]:
        """The messages of what a push with these lines to the hook would carry."""
        return [commit.message.strip() for commit in pushed_commits(lines, "origin", self.path)]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_SSH": str(ssh),
        "GIT_SSH_VARIANT": "simple",
        **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
    }
    environ.pop(SKIP_VARIABLE, None)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    made = Repository(tmp_path, environ)
    made.git("init", "--quiet", "--bare", "github.com/octo/widgets.git", cwd=tmp_path)
    made.git("init", "--quiet", "--initial-branch=main", "work", cwd=tmp_path)
    made.git("remote", "add", "origin", URL)
    made.commit("Begin")
    made.git("push", "--quiet", "origin", "main")
    made.at_work()
    return made


def foreign_hook(repository: Repository, text: str, name: str = "pre-push") -> Path:
    hook = repository.path / ".git" / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(text)
    hook.chmod(0o755)
    return hook


# Real pushes.


def test_a_push_that_closes_what_somebody_else_works_on_is_refused(repository: Repository) -> None:
    repository.install()
    repository.at_work(i5="lucius is working on it")
    repository.commit("Parse faster\n\nCloses #5")
    refused = repository.attempt("push", "origin", "main")
    assert refused.returncode != 0
    assert "octo/widgets#5: lucius is working on it" in refused.stderr
    assert '"Parse faster"' in refused.stderr
    assert "git push --no-verify" in refused.stderr
    assert f"{SKIP_VARIABLE}=1" in refused.stderr
    assert repository.git("ls-remote", "origin", "main").split()[0] != repository.git(
        "rev-parse", "main"
    )


@pytest.mark.parametrize("message", ["Closes #6", "See #5", "Prefix #5 with its name"])
def test_a_push_that_disturbs_nobody_goes_through(repository: Repository, message: str) -> None:
    repository.install()
    repository.at_work(i5="lucius is working on it")
    repository.commit(message)
    pushed = repository.git("push", "origin", "main")
    assert "refused" not in pushed


def test_a_push_can_be_forced_once_or_for_a_whole_shell(repository: Repository) -> None:
    repository.install()
    repository.at_work(i5="lucius is working on it")
    repository.commit("Closes #5")
    repository.extra = {SKIP_VARIABLE: "0"}
    assert repository.attempt("push", "origin", "main").returncode != 0
    repository.git("push", "--no-verify", "origin", "main")
    repository.commit("Closes #5 in another way")
    repository.extra = {SKIP_VARIABLE: "1"}
    repository.git("push", "origin", "main")


def test_a_push_to_a_remote_that_no_source_knows_is_let_through_and_says_so(
    repository: Repository,
) -> None:
    repository.install()
    repository.at_work(i5="lucius is working on it")
    repository.git("init", "--quiet", "--bare", "github.com/me/fork.git", cwd=repository.root)
    repository.git("remote", "add", "fork", "git@github.com:me/fork.git")
    repository.commit("Closes #5")
    pushed = repository.attempt("push", "fork", "main", check=True)
    assert "no configured source knows github.com/me/fork" in pushed.stderr


def test_a_push_is_refused_while_the_tracker_cannot_be_asked(repository: Repository) -> None:
    repository.install()
    repository.tracker.write_text(json.dumps({"known": [str(HERE)], "down": True}))
    repository.commit("Closes #5")
    refused = repository.attempt("push", "origin", "main")
    assert refused.returncode != 0
    assert "cannot be checked: github.com does not answer" in refused.stderr
    assert "git push --no-verify" in refused.stderr


def test_a_push_without_references_needs_no_tracker(repository: Repository) -> None:
    repository.install()
    repository.tracker.write_text(json.dumps({"known": [str(HERE)], "down": True}))
    repository.commit("Tidy up")
    repository.git("push", "origin", "main")


def test_a_push_is_refused_when_rota_is_gone_and_says_what_to_do(repository: Repository) -> None:
    install(repository.path, ["/nowhere/it's rota", "hook", "pre-push"])
    repository.commit("Tidy up")
    refused = repository.attempt("push", "origin", "main")
    assert refused.returncode != 0
    assert "cannot run" in refused.stderr
    assert f"{SKIP_VARIABLE}=1" in refused.stderr
    repository.extra = {SKIP_VARIABLE: "1"}
    repository.git("push", "origin", "main")


def test_nothing_to_push_is_nothing_to_refuse(repository: Repository) -> None:
    repository.install()
    assert repository.attempt("push", "origin", "main").returncode == 0


def test_a_deleted_branch_closes_nothing(repository: Repository) -> None:
    repository.commit("Closes #5")
    repository.git("push", "origin", "main:old")
    repository.install()
    repository.at_work(i5="lucius is working on it")
    repository.git("push", "origin", "--delete", "old")


def test_a_worktree_is_guarded_by_the_hook_of_its_repository(repository: Repository) -> None:
    tree = repository.root / "tree"
    repository.git("worktree", "add", "--quiet", "-b", "other", str(tree))
    install(tree, [sys.executable, "-c", COMMAND, str(repository.tracker)])
    repository.at_work(i5="lucius is working on it")
    repository.commit("Closes #5", cwd=tree)
    assert repository.attempt("push", "origin", "other", cwd=tree).returncode != 0
    assert status(tree) == status(repository.path)


# A hook that was there before.


def test_a_hook_that_was_there_runs_first_and_gets_the_same(repository: Repository) -> None:
    said = repository.root / "said"
    foreign_hook(repository, f'#!/bin/sh\n{{ printf "%s|" "$@"; cat; }} > {said}\n')
    repository.install()
    repository.at_work(i5="lucius is working on it")
    sha = repository.commit("Closes #5")
    before = repository.git("rev-parse", "HEAD~")
    assert repository.attempt("push", "origin", "main").returncode != 0
    assert said.read_text() == f"origin|{URL}|refs/heads/main {sha} refs/heads/main {before}\n"


def test_a_hook_that_was_there_still_refuses(repository: Repository) -> None:
    foreign_hook(repository, '#!/bin/sh\necho "not on a Friday" >&2\nexit 3\n')
    repository.install()
    repository.commit("Tidy up")
    repository.extra = {SKIP_VARIABLE: "1"}
    refused = repository.attempt("push", "origin", "main")
    assert refused.returncode != 0
    assert "not on a Friday" in refused.stderr


def test_a_hook_that_does_not_read_its_input_does_no_harm(repository: Repository) -> None:
    foreign_hook(repository, "#!/bin/sh\nexit 0\n")
    repository.install()
    repository.commit("Tidy up")
    assert "rror" not in repository.attempt("push", "origin", "main", check=True).stderr


@pytest.mark.parametrize(
    "head", ["#!/bin/sh", "#!/bin/sh -e", "#!/usr/bin/env bash", "#! /bin/bash"]
)
def test_a_shell_script_that_was_there_keeps_its_name_and_place(
    repository: Repository, head: str
) -> None:
    """As husky has it: what to run is found by the name it was called by."""
    said = repository.root / "said"
    foreign_hook(repository, f'echo "$(basename "$0") $1" > {said}\n', "runner")
    foreign_hook(repository, f'{head}\n. "$(dirname "$0")/runner"\n')
    repository.install()
    repository.commit("Tidy up")
    repository.git("push", "origin", "main")
    assert said.read_text() == "pre-push origin\n"


def test_a_program_that_was_there_is_run_as_it_is(repository: Repository) -> None:
    said = repository.root / "said"
    foreign_hook(
        repository,
        f"#!{sys.executable}\nimport sys\nopen({str(said)!r}, 'w').write(sys.argv[1])\n",
    )
    repository.install()
    repository.commit("Tidy up")
    repository.git("push", "origin", "main")
    assert said.read_text() == "origin"


def test_a_hook_that_was_switched_off_stays_so(repository: Repository) -> None:
    foreign_hook(repository, "#!/bin/sh\nexit 1\n").chmod(0o644)
    repository.install()
    repository.commit("Tidy up")
    repository.git("push", "origin", "main")


# Installing.


def test_installing_twice_is_installing_once(repository: Repository) -> None:
    hook = foreign_hook(repository, "#!/bin/sh\nexit 0\n")
    repository.install()
    first = hook.read_text()
    repository.install()
    assert hook.read_text() == first
    assert Path(f"{hook}.before-rota").read_text() == "#!/bin/sh\nexit 0\n"
    left = {path.name for path in hook.parent.iterdir() if path.suffix != ".sample"}
    assert left == {"pre-push", "pre-push.before-rota"}


def test_installing_again_takes_the_new_command(repository: Repository) -> None:
    repository.install()
    where = install(repository.path, ["/opt/rota/bin/rota", "hook", "pre-push"]).path
    assert "/opt/rota/bin/rota hook pre-push" in where.read_text()


def test_uninstalling_brings_back_what_was_there(repository: Repository) -> None:
    hook = foreign_hook(repository, "#!/bin/sh\nexit 0\n")
    repository.install()
    assert (status(repository.path).state, status(repository.path).chained) == ("installed", True)
    after = uninstall(repository.path)
    assert (after.state, after.chained) == (HookState.FOREIGN, False)
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    assert os.access(hook, os.X_OK)


def test_a_link_that_was_there_is_a_link_again(repository: Repository) -> None:
    real = repository.path / "scripts-pre-push"
    real.write_text("#!/bin/sh\nexit 0\n")
    hook = repository.path / ".git" / "hooks" / "pre-push"
    hook.symlink_to("../../scripts-pre-push")
    repository.install()
    assert real.read_text() == "#!/bin/sh\nexit 0\n"
    uninstall(repository.path)
    assert hook.readlink() == Path("../../scripts-pre-push")


def test_a_link_that_leads_nowhere_just_now_is_kept_too(repository: Repository) -> None:
    hook = repository.path / ".git" / "hooks" / "pre-push"
    hook.symlink_to("../../not-checked-out")
    assert status(repository.path).state is HookState.FOREIGN
    repository.install()
    uninstall(repository.path)
    assert hook.readlink() == Path("../../not-checked-out")


def test_uninstalling_where_nothing_was_leaves_nothing(repository: Repository) -> None:
    repository.install()
    assert uninstall(repository.path).state is HookState.ABSENT
    assert uninstall(repository.path).state is HookState.ABSENT


def test_a_hook_that_is_not_ours_is_not_uninstalled(repository: Repository) -> None:
    hook = foreign_hook(repository, "#!/bin/sh\nexit 0\n")
    assert uninstall(repository.path).state is HookState.FOREIGN
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


def test_two_hooks_of_others_are_one_too_many(repository: Repository) -> None:
    repository.install()
    hook = foreign_hook(repository, "#!/bin/sh\nexit 1\n")
    kept = foreign_hook(repository, "#!/bin/sh\nexit 0\n", "pre-push.before-rota")
    with pytest.raises(Refused, match="before-rota"):
        repository.install()
    assert (hook.read_text()[-2], kept.read_text()[-2]) == ("1", "0")


def test_a_hook_that_others_wrote_anew_is_taken_in_again(repository: Repository) -> None:
    foreign_hook(repository, "#!/bin/sh\nexit 0\n")
    repository.install()
    foreign_hook(repository, "#!/bin/sh\nexit 0\n")
    repository.install()
    assert status(repository.path).state is HookState.INSTALLED


def test_core_hooks_path_is_respected_from_any_directory(repository: Repository) -> None:
    repository.git("config", "core.hooksPath", ".githooks")
    below = repository.path / "src" / "deep"
    below.mkdir(parents=True)
    installed = install(below, [sys.executable, "-c", COMMAND, str(repository.tracker)])
    assert installed.path.resolve() == repository.path / ".githooks" / "pre-push"
    assert installed.shared
    repository.at_work(i5="lucius is working on it")
    repository.commit("Closes #5")
    assert repository.attempt("push", "origin", "main").returncode != 0


def test_the_hooks_of_a_repository_alone_are_not_shared(repository: Repository) -> None:
    repository.install()
    assert not status(repository.path).shared


def test_hooks_that_are_switched_off_cannot_be_installed(repository: Repository) -> None:
    repository.git("config", "core.hooksPath", "/dev/null")
    with pytest.raises(Refused, match="/dev/null"):
        repository.install()


def test_outside_of_a_repository_there_is_no_hook(tmp_path: Path) -> None:
    for ask in (install, uninstall, status):
        with pytest.raises(InvalidInput, match="not a git repository"):
            ask(tmp_path)


# Which commits a push carries.


def test_an_existing_branch_carries_what_the_remote_lacks(repository: Repository) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.commit("one")
    new = repository.commit("two")
    assert repository.pushed(f"refs/heads/main {new} refs/heads/main {old}\n") == ["one", "two"]


def test_a_new_branch_carries_what_stands_on_no_remote(repository: Repository) -> None:
    new = repository.commit("one")
    assert repository.pushed(f"refs/heads/x {new} refs/heads/x {ZERO}\n") == ["one"]


def test_what_another_remote_has_is_new_to_an_existing_branch_only(repository: Repository) -> None:
    """A new branch begins somewhere, often at what was fetched from another remote."""
    old = repository.git("rev-parse", "HEAD")
    fetched = repository.commit("fetched from upstream")
    repository.git("update-ref", "refs/remotes/upstream/main", fetched)
    new = repository.commit("mine")
    assert repository.pushed(f"refs/heads/x {new} refs/heads/x {ZERO}") == ["mine"]
    assert repository.pushed(f"refs/heads/main {new} refs/heads/main {old}") == [
        "fetched from upstream",
        "mine",
    ]


def test_a_first_push_carries_everything(repository: Repository) -> None:
    repository.git("remote", "remove", "origin")
    new = repository.commit("one")
    assert repository.pushed(f"refs/heads/x {new} refs/heads/x {ZERO}") == ["Begin", "one"]


def test_a_deleted_branch_carries_nothing(repository: Repository) -> None:
    old = repository.commit("one")
    assert repository.pushed(f"(delete) {ZERO} refs/heads/x {old}") == []


def test_no_lines_carry_nothing(repository: Repository) -> None:
    repository.commit("one")
    assert repository.pushed() == []
    assert repository.pushed("\n") == []


def test_many_references_carry_each_commit_once(repository: Repository) -> None:
    old = repository.git("rev-parse", "HEAD")
    one = repository.commit("one")
    two = repository.commit("two")
    lines = [
        f"refs/heads/main {two} refs/heads/main {old}",
        f"refs/heads/x {one} refs/heads/x {ZERO}",
        f"(delete) {ZERO} refs/heads/y {old}",
    ]
    assert repository.pushed(*lines) == ["one", "two"]


def test_tags_carry_the_commits_they_lead_to(repository: Repository) -> None:
    repository.commit("one")
    repository.git("tag", "--annotate", "v1", "--message", "Closes #9")
    tag = repository.git("rev-parse", "v1")
    assert repository.pushed(f"refs/tags/v1 {tag} refs/tags/v1 {ZERO}") == ["one"]


def test_a_tag_on_a_file_carries_no_commit(repository: Repository) -> None:
    repository.commit("one")
    blob = repository.git("hash-object", "-w", str(repository.tracker))
    assert repository.pushed(f"refs/tags/key {blob} refs/tags/key {ZERO}") == []


def test_what_a_remote_has_that_we_never_saw_is_no_obstacle(repository: Repository) -> None:
    new = repository.commit("one")
    unseen = "1234567890" * 4
    assert repository.pushed(f"refs/heads/main {new} refs/heads/main {unseen}") == ["one"]


def test_a_rebased_branch_does_not_carry_what_it_was_rebased_onto(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "mine")
    old = repository.commit("mine")
    repository.git("push", "--quiet", "origin", "mine")
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs")
    repository.git("push", "--quiet", "origin", "main")
    repository.git("checkout", "--quiet", "mine")
    repository.git("rebase", "--quiet", "main")
    new = repository.git("rev-parse", "HEAD")
    assert repository.pushed(f"refs/heads/mine {new} refs/heads/mine {old}") == ["mine"]


def test_a_shallow_clone_carries_what_it_has(repository: Repository) -> None:
    repository.commit("two")
    repository.git("push", "--quiet", "origin", "main")
    source = (repository.root / "github.com/octo/widgets.git").as_uri()
    repository.git(
        "clone", "--quiet", "--depth=1", "--branch=main", source, "shallow", cwd=repository.root
    )
    shallow = repository.root / "shallow"
    new = repository.commit("three", cwd=shallow)
    gone = repository.git("rev-parse", "main~")
    line = f"refs/heads/main {new} refs/heads/main {gone}"
    assert [commit.message for commit in pushed_commits([line], "origin", shallow)] == ["three\n"]


def test_a_local_name_may_hold_blanks(repository: Repository) -> None:
    new = repository.commit("one")
    assert repository.pushed(f"HEAD@{{2 days ago}} {new} refs/heads/x {ZERO}") == ["one"]


def test_a_merge_is_read_too(repository: Repository) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("side")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "--message", "Closes #5", "side")
    new = repository.git("rev-parse", "HEAD")
    assert repository.pushed(f"refs/heads/main {new} refs/heads/main {old}") == [
        "side",
        "Closes #5",
    ]


def test_the_looks_of_a_log_do_not_matter(repository: Repository) -> None:
    for name, value in {
        "log.showSignature": "true",
        "format.pretty": "oneline",
        "color.ui": "always",
        "log.decorate": "full",
        "i18n.logOutputEncoding": "ISO-8859-1",
    }.items():
        repository.git("config", name, value)
    new = repository.commit("Größer\n\nfixes #5")
    assert repository.pushed(f"refs/heads/x {new} refs/heads/x {ZERO}") == ["Größer\n\nfixes #5"]


def test_a_replacement_does_not_hide_what_is_pushed(repository: Repository) -> None:
    begin = repository.git("rev-parse", "HEAD")
    new = repository.commit("Closes #5")
    harmless = repository.git("commit-tree", f"{new}^{{tree}}", "-p", begin, "-m", "Nothing")
    repository.git("replace", new, harmless)
    assert repository.pushed(f"refs/heads/x {new} refs/heads/x {ZERO}") == ["Closes #5"]


@pytest.mark.parametrize("line", ["refs/heads/x", f"{ZERO} {ZERO} {ZERO}"])
def test_a_line_that_git_does_not_write_is_refused(repository: Repository, line: str) -> None:
    with pytest.raises(InvalidInput, match="pre-push"):
        repository.pushed(line)


async def test_commits_that_cannot_be_read_are_not_let_through(tmp_path: Path) -> None:
    result = await pre_push(
        [f"x {'1' * 40} y {ZERO}"],
        "origin",
        URL,
        knows=everything,
        verdict=fine,
        environ={},
        directory=tmp_path,
    )
    assert not result.allowed
    assert "not a git repository" in result.text


# What is asked about them.


def everything(_host: str, _repo: str) -> bool:
    return True


async def fine(_host: str, _repo: str, _number: int) -> str | None:
    return None


async def test_each_issue_is_asked_for_once_and_where_it_lives() -> None:
    asked = []

    async def verdict(host: str, repo: str, number: int) -> str | None:
        asked.append(f"{host}/{repo}#{number}")
        return None

    commits = [
        PushedCommit("a" * 40, "Closes #5, fixes OCTO/Widgets#5"),
        PushedCommit("b" * 40, "Closes #5 and https://git.local:3000/octo/widgets/issues/5"),
    ]
    result = await check_push(commits, HERE, knows=everything, verdict=verdict)
    assert result.allowed
    assert asked == ["github.com/octo/widgets#5", "git.local:3000/octo/widgets#5"]


async def test_every_refusal_is_told() -> None:
    async def verdict(_host: str, _repo: str, number: int) -> str | None:
        return f"taken by {number}"

    commits = [PushedCommit("a" * 40, "Closes #5"), PushedCommit("b" * 40, "Closes #6")]
    result = await check_push(commits, HERE, knows=everything, verdict=verdict)
    assert [str(refusal) for refusal in result.refusals] == [
        '  octo/widgets#5: taken by 5\n    closed by aaaaaaaaaa "Closes #5"',
        '  octo/widgets#6: taken by 6\n    closed by bbbbbbbbbb "Closes #6"',
    ]


async def test_an_issue_of_a_repository_that_no_source_knows_is_not_asked_for() -> None:
    async def verdict(_host: str, _repo: str, _number: int) -> str | None:
        raise AssertionError("asked")

    commits = [PushedCommit("a" * 40, "Closes acme/tools#5")]
    result = await check_push(commits, HERE, knows=lambda *_: False, verdict=verdict)
    assert result.allowed
    assert "acme/tools#5 is not checked" in result.text


@pytest.mark.parametrize("error", [TrackerError("no answer"), TimeoutError("slow"), OSError("cut")])
async def test_a_tracker_that_fails_refuses_and_is_not_asked_again(error: Exception) -> None:
    asked = []

    async def verdict(_host: str, _repo: str, number: int) -> str | None:
        asked.append(number)
        raise error

    commits = [PushedCommit("a" * 40, "Closes #5, #6, #7")]
    result = await check_push(commits, HERE, knows=everything, verdict=verdict)
    assert not result.allowed
    assert f"cannot be checked: {error}" in result.text
    assert asked == [5]


async def test_an_issue_that_does_not_exist_is_in_nobodys_way() -> None:
    async def verdict(_host: str, _repo: str, _number: int) -> str | None:
        raise IssueNotFound("no such issue")

    commits = [PushedCommit("a" * 40, "Closes #5")]
    result = await check_push(commits, HERE, knows=everything, verdict=verdict)
    assert result.allowed
    assert "there is no octo/widgets#5" in result.text


async def test_a_fault_of_our_own_is_not_taken_for_a_yes() -> None:
    async def verdict(_host: str, _repo: str, _number: int) -> str | None:
        raise KeyError("oops")

    commits = [PushedCommit("a" * 40, "Closes #5")]
    with pytest.raises(KeyError):
        await check_push(commits, HERE, knows=everything, verdict=verdict)


@pytest.mark.parametrize("url", ["https://ada:secret@example.org/x", "/srv/git/o/r.git"])
async def test_an_unknown_remote_is_named_without_its_password(url: str) -> None:
    result = await pre_push([], url, url, knows=everything, verdict=fine, environ={})
    assert result.allowed
    assert "is not checked" in result.text
    assert "secret" not in result.text


# Where a remote's issues are.


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:octo/widgets.git",
        "github.com:octo/widgets",
        "git@github.com:/octo/widgets.git/",
        "ssh://git@github.com/octo/widgets.git",
        "ssh://git@github.com:22/octo/widgets.git",
        "ssh://git@ssh.github.com:443/octo/widgets.git",
        "git+ssh://git@github.com/octo/widgets",
        "git://github.com/octo/widgets.git",
        "https://github.com/octo/widgets",
        "https://github.com/octo/widgets.git",
        "https://github.com/octo/widgets/",
        "https://www.github.com:443/octo/widgets.git",
        "https://ada:secret@GitHub.com/octo/widgets.git",
    ],
)
def test_a_remote_is_the_same_repository_however_it_is_reached(url: str) -> None:
    assert remote_repo(url) == HERE


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("https://git.local:3000/o/r.git", "git.local:3000/o/r"),
        ("ssh://git@git.local:2222/o/r.git", "git.local/o/r"),
        ("https://git.local/gitea/o/r.git", "git.local/o/r"),
        ("https://github.com/o/.github", "github.com/o/.github"),
        ("https://github.com/o/r.github.io.git", "github.com/o/r.github.io"),
        ("git@[::1]:o/r.git", "[::1]/o/r"),
    ],
)
def test_a_remote_may_be_anywhere(url: str, where: str) -> None:
    assert str(remote_repo(url)) == where


@pytest.mark.parametrize(
    "url",
    [
        *("", "/srv/git/o/r.git", "../o/r", "./o:r/x", "file:///srv/o/r.git", "o/r"),
        *("https://github.com", "https://github.com/o", "git@github.com:r.git"),
        *("s3://bucket/o/r", "git@github.com:~o/r r"),
    ],
)
def test_what_leads_to_no_tracker_has_no_issues(url: str) -> None:
    assert remote_repo(url) is None


def test_a_long_address_is_read_in_one_go() -> None:
    for filling in ("a", "a/", ".git", "-", "a.git/"):
        assert remote_repo("https://github.com/" + filling * 20_000 + " ") is None
        assert remote_repo("git@github.com:" + filling * 20_000 + " ") is None
