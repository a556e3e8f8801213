"""The `pre-push` hook: it refuses to close an issue that another claimant works on.

`install` puts a script into a repository that runs `rota hook pre-push` at each push; `pre_push`
computes the answer of that command. It reads the commits that are about to be pushed, finds the
issues they say they close, and checks each. If the tracker cannot be reached, the push is refused:
a guard that lets pushes through whenever the network is down protects nothing. The message says how
to push anyway.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.claims.hook_script import (
    SKIP_VARIABLE,
    HookState,
    HookStatus,
    install,
    status,
    uninstall,
)
from rota.claims.pushes import PushedCommit, RemoteRepo, pushed_commits, remote_repo
from rota.claims.references import IssueRef, closing_references
from rota.model.errors import InvalidInput, IssueNotFound, RotaError

__all__ = [
    "SKIP_VARIABLE",
    "HookResult",
    "HookState",
    "HookStatus",
    "PushedCommit",
    "Refusal",
    "RemoteRepo",
    "check_push",
    "install",
    "pre_push",
    "pushed_commits",
    "remote_repo",
    "status",
    "uninstall",
]

Knows = Callable[[str, str], bool]  # host, owner/repo: does a configured source know it?
Verdict = Callable[[str, str, int], Awaitable[str | None]]  # host, owner/repo, number: why not?


@dataclass(frozen=True, slots=True)
class Refusal:
    subject: str  # the issue, as the commit names it
    reason: str
    commit: PushedCommit | None = None

    def __str__(self) -> str:
        said = f"\n    closed by {self.commit}" if self.commit else ""
        return f"  {self.subject}: {self.reason}{said}"


@dataclass(frozen=True, slots=True)
class HookResult:
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()  # what was not checked, and why

    @property
    def allowed(self) -> bool:
        return not self.refusals

    @property
    def text(self) -> str:
        """For the person who pushes; empty when there is nothing to report."""
        lines = [f"rota: {note}" for note in self.notes]
        if self.refusals:
            lines += ["rota: this push is refused:", *map(str, self.refusals), _WAYS_AROUND]
        return "\n".join(lines)


_WAYS_AROUND = f"""\
Talk to whoever is on it, or reword the commit so that it closes nothing. To push all the same:
  git push --no-verify            past every hook, this once
  {SKIP_VARIABLE}=1  in the environment: past this check"""


async def pre_push(
    stdin: Iterable[str],
    remote_name: str,
    remote_url: str,
    *,
    knows: Knows,
    verdict: Verdict,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> HookResult:
    """Answers git, from the stdin lines and the two arguments that git gives to the hook."""
    if (os.environ if environ is None else environ).get(SKIP_VARIABLE, "0") not in ("", "0"):
        return HookResult(notes=(f"{SKIP_VARIABLE} is set: this push is not checked",))
    here = remote_repo(remote_url)
    if here is None or not knows(here.host, here.repo):
        name = here or _without_password(remote_url)
        return HookResult(notes=(f"no configured source knows {name}: this push is not checked",))
    try:
        commits = await asyncio.to_thread(pushed_commits, list(stdin), remote_name, directory)
    except InvalidInput as error:
        return HookResult((Refusal("the commits", f"cannot be read: {error}"),))
    return await check_push(commits, here, knows=knows, verdict=verdict)


async def check_push(
    commits: Iterable[PushedCommit], here: RemoteRepo, *, knows: Knows, verdict: Verdict
) -> HookResult:
    refusals: list[Refusal] = []
    notes: list[str] = []
    for ref, host, commit in _closed_by(commits, here):
        if not knows(host, ref.full_name):
            notes.append(f"no configured source knows {host}/{ref.full_name}: {ref} is not checked")
            continue
        try:
            reason = await verdict(host, ref.full_name, ref.number)
        except IssueNotFound:
            notes.append(f"there is no {ref}, though {commit} closes it")
            continue
        except (RotaError, OSError) as error:
            refusals.append(Refusal(str(ref), f"cannot be checked: {error}", commit))
            break  # refused in any case; further questions would only wait for the same error
        if reason is not None:
            refusals.append(Refusal(str(ref), reason, commit))
    return HookResult(tuple(refusals), tuple(notes))


def _closed_by(
    commits: Iterable[PushedCommit], here: RemoteRepo
) -> Iterator[tuple[IssueRef, str, PushedCommit]]:
    """Each issue once, with its host and the oldest commit that closes it."""
    seen = set()
    for commit in commits:
        for ref in closing_references(commit.message, here.repo):
            host = ref.host or here.host
            key = (host, ref.full_name.lower(), ref.number)
            if key not in seen:
                seen.add(key)
                yield ref, host, commit


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
