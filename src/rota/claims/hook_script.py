"""The `pre-push` script in a repository: install it, inspect it, remove it."""

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rota.claims.pushes import git
from rota.files import replacing
from rota.model.errors import Refused

SKIP_VARIABLE = "LABEL_STATE_SKIP_DEDUP_CHECK"  # the name that `label-state` uses
CHAINED_SUFFIX = ".before-rota"


class HookState(StrEnum):
    ABSENT = "absent"
    INSTALLED = "installed"
    FOREIGN = "foreign"  # a hook that Rota did not write


@dataclass(frozen=True, slots=True)
class HookStatus:
    path: Path
    state: HookState
    chained: bool  # an earlier hook is kept beside ours and runs first
    shared: bool  # core.hooksPath: other repositories may use the same directory


_MARK = "# rota pre-push hook"
_SHELLS = re.compile(r"#! *(?P<command>[\w./ -]*(?<=[/ ])(?:sh|bash|dash|ksh|zsh)(?: -\w+)*) *")

# An earlier hook may derive what it is from its own name (husky's hooks do). So a shell script is
# not run under its new name: its shell sources it, and `$0` still names `pre-push`.
_SCRIPT = """\
#!/bin/sh
{mark}: written by `rota hook install`, and taken away by `rota hook uninstall`.
pushed=$(cat; echo .) && pushed=${{pushed%.}} # the dot saves the end of the last line
if [ -x "$0{suffix}" ]; then
    printf %s "$pushed" | {before} "$@" || exit
fi
case ${{{variable}:-0}} in 0) ;; *) exit 0 ;; esac
printf %s "$pushed" | {command} "$@"
status=$?
case $status in 126 | 127)
    printf '%s\\n' {cannot_run} >&2 ;;
esac
exit $status
"""


def install(repo_path: Path, command: Sequence[str] = ("rota", "hook", "pre-push")) -> HookStatus:
    """Idempotent. An existing hook is kept, and runs before ours."""
    hook = _hook_path(repo_path)
    before = Path(f"{hook}{CHAINED_SUFFIX}")
    with _writing(hook):
        hook.parent.mkdir(parents=True, exist_ok=True)
        if _state(hook) is HookState.FOREIGN:
            _keep(hook, before)
        _write(hook, _script(before, command))
    return status(repo_path)


def uninstall(repo_path: Path) -> HookStatus:
    """Restores the earlier hook. A hook that Rota did not write is left alone."""
    hook = _hook_path(repo_path)
    before = Path(f"{hook}{CHAINED_SUFFIX}")
    if _state(hook) is HookState.INSTALLED:
        with _writing(hook):
            if os.path.lexists(before):
                before.replace(hook)
            else:
                hook.unlink()
    return status(repo_path)


def status(repo_path: Path) -> HookStatus:
    hook = _hook_path(repo_path)
    own = Path(repo_path, git(repo_path, "rev-parse", "--git-common-dir").strip()).resolve()
    return HookStatus(
        hook,
        _state(hook),
        chained=os.path.lexists(f"{hook}{CHAINED_SUFFIX}"),
        shared=not hook.parent.resolve().is_relative_to(own),
    )


def _hook_path(repo_path: Path) -> Path:
    """Asked from the top of the work tree: git resolves a relative core.hooksPath from there."""
    top = Path(repo_path, git(repo_path, "rev-parse", "--show-cdup").strip())
    return Path(top, git(top, "rev-parse", "--git-path", "hooks").strip(), "pre-push").absolute()


def _state(hook: Path) -> HookState:
    if not os.path.lexists(hook):
        return HookState.ABSENT
    with contextlib.suppress(OSError):
        return HookState.INSTALLED if _MARK in _head(hook) else HookState.FOREIGN
    return HookState.FOREIGN


def _head(hook: Path) -> str:
    with hook.open("rb") as file:  # bytes: a hook may be a binary program
        return file.read(200).decode(errors="replace")


def _keep(hook: Path, before: Path) -> None:
    if os.path.lexists(before) and not _same(hook, before):
        raise Refused(
            f"both {hook} and {before} hold a hook that is not Rota's; put what you need of both"
            " into one of them, remove the other, and install again"
        )
    hook.replace(before)


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.read_bytes() == other.read_bytes()
    return False


def _script(before: Path, command: Sequence[str]) -> str:
    wanted = shlex.join(command)
    return _SCRIPT.format(
        mark=_MARK,
        suffix=CHAINED_SUFFIX,
        before=_run_before(before),
        variable=SKIP_VARIABLE,
        command=wanted,
        cannot_run=shlex.quote(
            f"rota: the pre-push hook cannot run `{wanted}`; install it again from where rota is,"
            f" or push with {SKIP_VARIABLE}=1 or --no-verify"
        ),
    )


def _run_before(before: Path) -> str:
    with contextlib.suppress(OSError):
        if shell := _SHELLS.fullmatch(_head(before).partition("\n")[0]):
            return f"""{shell["command"]} -c '. "$0{CHAINED_SUFFIX}"' "$0\""""
    return f'"$0{CHAINED_SUFFIX}"'


def _write(hook: Path, text: str) -> None:
    """Whole or not at all: a push may run the hook at any moment."""
    with replacing(hook, mode=0o755) as partial:
        partial.write_text(text)


@contextlib.contextmanager
def _writing(hook: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(f"cannot change {hook}: {error.strerror or error}") from error
