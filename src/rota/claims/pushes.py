"""Reads a push: the lines that git gives to the hook, and the address of the remote."""

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rota.claims.references import host_of
from rota.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class RemoteRepo:
    host: str
    repo: str  # "owner/name"

    def __str__(self) -> str:
        return f"{self.host}/{self.repo}"


@dataclass(frozen=True, slots=True)
class PushedCommit:
    sha: str
    message: str

    def __str__(self) -> str:
        return f'{self.sha[:10]} "{self.message.strip().partition(chr(10))[0][:60]}"'


def pushed_commits(
    stdin_lines: Iterable[str], remote_name: str, directory: Path | None = None
) -> list[PushedCommit]:
    """The commits that the remote does not have yet, oldest first.

    Each line is `<local ref> <local sha> <remote ref> <remote sha>`. A deleted reference pushes no
    commits. For an existing reference, the remote's commit is known. For a new reference, or if the
    remote has moved on to a commit that is not here, everything on any remote counts as pushed.
    """
    updates = [_update(line) for line in stdin_lines if line.strip()]
    updates = [(local, remote) for local, remote in updates if local.strip("0")]
    present = _commits_present({sha for update in updates for sha in update}, directory)
    tips = {present[local] for local, _ in updates if local in present}
    bases = {present[remote] for _, remote in updates if remote in present}
    if not tips:  # without a tip, `git log` would start at HEAD
        return []
    known = all(remote in present for _, remote in updates)
    wanted = "".join(f"{sha}\n" for sha in (*tips, *(f"^{base}" for base in bases)))
    elsewhere = ("--not", f"--remotes={remote_name}" if known else "--remotes")
    return _parsed(git(directory, *_LOG, "--stdin", *elsewhere, stdin=wanted))


# A fixed format, whatever the person's git configuration makes of `git log`.
_LOG = (
    *("--no-replace-objects", "log", "--topo-order", "--reverse", "-z", "--format=%H%n%B"),
    *("--encoding=UTF-8", "--no-patch", "--no-show-signature", "--no-color"),
)


def _update(line: str) -> tuple[str, str]:
    # Split from the right: the local side may be an expression with spaces, "HEAD@{2 days ago}".
    fields = line.rstrip("\n").rsplit(" ", 3)
    if len(fields) != 4:
        raise InvalidInput(f"{line[:200]!r} is not a line that git gives to a pre-push hook")
    return fields[1], fields[3]


def _commits_present(shas: Iterable[str], directory: Path | None) -> dict[str, str]:
    """Those that resolve to a commit in this repository. A tag may point to a file; commits that
    others pushed, or that a shallow clone omits, are not here."""
    asked = list(shas)
    questions = "".join(f"{sha}^{{commit}}\n" for sha in asked)
    answers = git(directory, "cat-file", "--batch-check=%(objectname)", stdin=questions)
    return {
        sha: answer
        for sha, answer in zip(asked, answers.splitlines(), strict=True)
        if not answer.endswith((" missing", " ambiguous"))
    }


def _parsed(log: str) -> list[PushedCommit]:
    records = (record.partition("\n") for record in log.split("\0") if record)
    return [PushedCommit(sha, message) for sha, _, message in records]


# A worktree on a detached HEAD has no local branch name: only the remote side has one.
_AGENTS_BRANCH = re.compile(r"(?:^| )refs/heads/agent/([1-9][0-9]*)/([1-9][0-9]*) ")


def agents_branch(issue: str, claim: int) -> str:
    """An agent's branch names its claim. So the hook lets the holder push, and can tell a late
    push of a former holder from one of the new holder."""
    return f"agent/{issue}/{claim}"


def claims_in(stdin_lines: Iterable[str]) -> dict[int, int]:
    """By issue number: the claims that the branches of a push name."""
    found = (_AGENTS_BRANCH.search(line) for line in stdin_lines)
    return {int(one[1]): int(one[2]) for one in found if one}


_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>\[[^\]/]+\]|[^/:\[\]]+):(?P<path>.+)")
_PATH = re.compile(r"(?:.*/)?(?P<repo>[A-Za-z0-9_][\w.-]*/\.?[A-Za-z0-9_][\w.-]*?)(?:\.git)?/*")
_SSH_HOSTS = {"ssh.github.com": "github.com"}  # for networks that allow only port 443


def remote_repo(url: str) -> RemoteRepo | None:
    """The repository of a remote; None if the address is not a tracker's (a path, a bundle)."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        found = _SCP.fullmatch(url)
        return _remote(found["host"], found["path"]) if found else None
    path = rest.partition("/")[2]
    if scheme in ("http", "https"):
        return _remote(host_of(url), path)
    if scheme in ("ssh", "git+ssh", "ssh+git", "git"):  # their port is not that of the web pages
        return _remote(re.sub(r":\d*$", "", host_of(url)), path)
    return None


def _remote(host: str, path: str) -> RemoteRepo | None:
    found = _PATH.fullmatch(path)
    name = host.lower()
    return RemoteRepo(_SSH_HOSTS.get(name, name), found["repo"]) if found else None


def git(directory: Path | None, *arguments: str, stdin: str = "") -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=directory,
            input=stdin.encode(),
            capture_output=True,
            check=True,
        )
    except OSError as error:
        raise InvalidInput(f"cannot run git in {directory or Path.cwd()}: {error}") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise InvalidInput(f"git in {directory or Path.cwd()}: {said}") from error
    return done.stdout.decode("utf-8", errors="replace")
