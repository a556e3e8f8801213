"""How a command ends: exit codes, and errors for people or for programs.

0 ok · 1 negative answer · 2 usage · 3 not authenticated · 4 forbidden · 5 network
6 server or storage · 7 conflict or lost claim · 130 interrupted · 141 nobody reads on

An error is one line on standard error; with --json it is an object on standard output, so that
whoever reads there gets exactly one document, whatever happened.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from rota.cli.text import one_line
from rota.model.errors import RotaError

OK, NEGATIVE, USAGE, UNAUTHENTICATED, FORBIDDEN, NETWORK, SERVER, CONFLICT = range(8)
INTERRUPTED, BROKEN_PIPE = 130, 141
SCHEMA_VERSION = 1

# By code, not by class: the tree of errors need not be imported to show a page of help. Codes
# that are not here are the server's business.
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
    "idempotency_key_reused": CONFLICT,
    "version_mismatch": CONFLICT,
}


@dataclass(frozen=True)
class Failure:
    code: str
    message: str
    details: Mapping[str, Any]
    exit_code: int
    hint: str = ""


def exit_code_of(command: Callable[[], object], *, as_json: bool) -> int:
    """Run the command; whatever happens becomes a message and a number."""
    _forgive_encodings()
    try:
        result = command()
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        _close_quietly()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - a fault of ours must not look like an answer
        return _report(_failure(error), as_json)
    return result if isinstance(result, int) else OK


def _failure(error: Exception) -> Failure:
    if isinstance(error, click.UsageError):
        hint = f"\nTry: {error.ctx.command_path} --help" if error.ctx is not None else ""
        return Failure("usage", error.format_message(), {}, USAGE, hint)
    if isinstance(error, click.ClickException):
        return Failure("usage", error.format_message(), {}, USAGE)
    if isinstance(error, RotaError):
        code = str(error.details.get("code", error.code))
        exit_code = _EXIT_CODES.get(error.code, SERVER)
        return Failure(code, error.message, error.details, exit_code)
    traceback.print_exception(error)
    return Failure("internal", f"{type(error).__name__}: {error}", {}, SERVER)


def _report(failure: Failure, as_json: bool) -> int:
    try:
        if as_json:
            error = {
                "code": failure.code,
                "message": failure.message,
                "details": dict(failure.details),
            }
            print(json.dumps({"schema_version": SCHEMA_VERSION, "error": error}, default=str))
        else:
            print(f"rota: {one_line(failure.message)}{failure.hint}", file=sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_quietly()
    return failure.exit_code


def _forgive_encodings() -> None:
    """A terminal that cannot show a character shows another one; that is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _close_quietly() -> None:
    """Python flushes standard output once more at its end, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
