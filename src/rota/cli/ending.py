"""How a command ends: exit codes, and errors for people or for programs.

0 ok · 1 negative answer · 2 usage · 3 not authenticated · 4 forbidden · 5 network
6 server or storage · 7 conflict or lost claim · 8 the answer could not be written
130 interrupted · 141 nobody reads on

An error is one line on standard error; with --json it is an object on standard output, so that a
reader there always gets exactly one document.
"""

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rota.cli.streams import Unwritten, prepared
from rota.cli.text import one_line, shortened
from rota.model.errors import RotaError

OK, NEGATIVE, USAGE, UNAUTHENTICATED, FORBIDDEN, NETWORK, SERVER, CONFLICT, UNWRITTEN = range(9)
INTERRUPTED, BROKEN_PIPE = 130, 141
SCHEMA_VERSION = 1
GONE = "the directory that you are in has been deleted; change to another one"

# By code, not by class, so that a help page need not import the tree of errors. Other codes are
# errors of the server.
_EXIT_CODES = {
    "not_found": NEGATIVE,
    "invalid_input": USAGE,
    "missing_requirement": USAGE,
    "bad_cursor": USAGE,
    "unauthenticated": UNAUTHENTICATED,
    "forbidden": FORBIDDEN,
    "connection_failed": NETWORK,
    "refused": CONFLICT,
    "transition_refused": CONFLICT,
    "claim_lost": CONFLICT,
    "claimed": CONFLICT,
    "no_free_slot": CONFLICT,
    "in_review_limit": CONFLICT,
    "idempotency_key_reused": CONFLICT,
    "version_mismatch": CONFLICT,
    "work_source_error": SERVER,
    "unknown_work_source": USAGE,
    "duplicate_work_source": CONFLICT,
    "malformed_reference": USAGE,
    "issue_not_found": NEGATIVE,
    "pause_unreadable": SERVER,
    "delivery_failed": NETWORK,
    "scheduler_error": SERVER,
    "schedule_trigger_error": SERVER,
    "scheduler_shutdown_error": SERVER,
    "interval_parse_error": USAGE,
    "cron_parse_error": USAGE,
    "tracker_error": NETWORK,
    "answer_unknown": NETWORK,
    "github_api_error": NETWORK,
    "gitea_api_error": NETWORK,
    "github_auth_error": UNAUTHENTICATED,
    "gitea_auth_error": UNAUTHENTICATED,
}


@dataclass(frozen=True)
class Failure:
    code: str
    message: str
    details: Mapping[str, Any]
    exit_code: int
    hint: str = ""
    help: str = ""  # a help page, printed as it is


def exit_code_of(command: Callable[[], object], *, as_json: bool, name: str = "rota") -> int:
    """Run the command. Every error becomes a message and an exit code."""
    with prepared():
        try:
            code = _outcome(command)
        except BrokenPipeError:
            return BROKEN_PIPE
        except Unwritten as error:
            _complain(
                name,
                f"the answer could not be written: {error}; see whether what was asked is done"
                " before you ask again",
            )
            return UNWRITTEN
        except Exception as error:  # noqa: BLE001 - a fault of ours must not look like an answer
            return _report(_failure(error), as_json, name)
        return _told(code, name)


def _outcome(command: Callable[[], object]) -> int:
    try:
        result = command()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return result if isinstance(result, int) else OK


def _told(code: int, name: str) -> int:
    """Flush the answer. A short answer stays in the buffer until now."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return BROKEN_PIPE if code in (OK, NEGATIVE) else code
    except Unwritten as error:
        done = "what was asked is done, but " if code == OK else ""
        _complain(name, f"{done}the answer could not be written: {error}")
        return UNWRITTEN if code in (OK, NEGATIVE) else code
    return code


def _complain(name: str, message: str) -> None:
    print(f"{name}: {message}", file=sys.stderr)


def _failure(error: Exception) -> Failure:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        path = error.ctx.command_path
        told = f"name a command; {path} --help lists them"
        return Failure("usage", told, {}, USAGE, help=error.message)
    if isinstance(error, click.UsageError):
        hint = f"\nTry: {error.ctx.command_path} --help" if error.ctx is not None else ""
        return Failure("usage", error.format_message(), {}, USAGE, hint)
    if isinstance(error, click.ClickException):
        return Failure("usage", error.format_message(), {}, USAGE)
    if isinstance(error, RotaError):
        code = str(error.details.get("code", error.code))
        return Failure(code, error.message, error.details, exit_code_for(error))
    if isinstance(error, OSError) and (told := _of_a_path(error)):
        return Failure("usage", told, {}, USAGE)
    traceback.print_exception(error)
    return Failure("internal", f"{type(error).__name__}: {error}", {}, SERVER)


def _of_a_path(error: OSError) -> str:
    """What the user can mend: another user's directory, a name that is too long. Empty if none."""
    if isinstance(error, FileNotFoundError) and is_nowhere():
        return GONE
    if not isinstance(error.filename, str) or not error.strerror:
        return ""
    path = shortened(error.filename, 200)
    return f"cannot use {path}: {error.strerror}; check the path and its permissions"


def is_nowhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def exit_code_for(error: RotaError) -> int:
    """By the error's code; for an error from a tracker, by the status that the tracker returned."""
    if "missing_scopes" in error.details:
        return FORBIDDEN
    if getattr(error, "is_rate_limit_error", False):
        return SERVER
    usual = _EXIT_CODES.get(error.code, SERVER)
    if usual in (NETWORK, UNAUTHENTICATED):
        # A tracker that answers "not found" or "forbidden" has accepted the token itself.
        return _of_status(_status_of(error) or _status_of(error.__cause__)) or usual
    return usual


def _status_of(error: BaseException | None) -> int | None:
    return error.details.get("status_code") if isinstance(error, RotaError) else None


def _of_status(status: int | None) -> int | None:
    if status is None:
        return None
    return {401: UNAUTHENTICATED, 403: FORBIDDEN, 404: NEGATIVE, 410: NEGATIVE}.get(status, SERVER)


def _report(failure: Failure, as_json: bool, name: str) -> int:
    error = {"code": failure.code, "message": failure.message, "details": dict(failure.details)}
    if as_json and _is_printed(
        json.dumps({"schema_version": SCHEMA_VERSION, "error": error}, default=str)
    ):
        return failure.exit_code
    if failure.help:
        print(failure.help, file=sys.stderr)
        return failure.exit_code
    for line in _lines(failure):
        _complain(name, line)
    return failure.exit_code


def _is_printed(line: str) -> bool:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        return True  # the reader is gone; there is nobody to tell
    except Unwritten:
        return False
    return True


def _lines(failure: Failure) -> list[str]:
    """One line, except for a file with several mistakes: one line for each."""
    told = failure.message.split("\n") if "mistakes" in failure.details else [failure.message]
    *before, last = (one_line(line) for line in told)
    return [*before, f"{last}{failure.hint}"]
