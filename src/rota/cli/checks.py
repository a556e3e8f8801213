"""The checks of `rota doctor`. A check only looks; `Finding.mend` is what --fix may run."""

import asyncio
import errno
import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.cli.findings import FAIL, OK, WARN, Finding, failed
from rota.cli.fleet_checks import left_runs
from rota.cli.source_checks import configuration, source_errors
from rota.cli.source_patience import slow_in_fleet
from rota.config import Settings, StateDir
from rota.model.errors import InvalidInput, NoLedger, RotaError, Unauthenticated
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.client.transport import Answer

_PRIVATE_DIRECTORY, _PRIVATE_FILE = 0o700, 0o600
_SCARCE_BYTES, _LITTLE_BYTES = 20 * 1024**2, 500 * 1024**2
_CLOCK_SLACK_SECONDS = 5.0
_ANSWER_SECONDS = 3.0


Check = Callable[[Settings], Iterator[Finding]]


def examine(settings: Settings) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(settings)]


def environment(settings: Settings) -> Iterator[Finding]:
    """What reading the settings has not checked."""
    from rota.app import make_store

    token, url = environ.get("ROTA_TOKEN"), environ.get("ROTA_URL")
    if token is not None and not token.startswith("rota_"):
        yield Finding(
            "environment", WARN, "ROTA_TOKEN does not look like a token of ours (rota_…)",
            "make one with rota token create, or unset it",
        )  # fmt: skip
    if url:
        yield _server_at("environment", url, token)
    if not settings.on_loopback and not token:
        yield Finding(
            "environment", WARN, f"ROTA_HOST {settings.host} can be reached by other machines",
            "rota up will want a token: rota token create NAME --scope admin",
        )  # fmt: skip
    with suppress(InvalidInput):  # the next check reports a wrong database
        yield Finding("environment", OK, f"database {make_store(settings.database).url}")


def state_dir(settings: Settings) -> Iterator[Finding]:
    path = settings.state_dir
    if not path.exists():
        yield _missing(path)
    elif not path.is_dir():
        yield Finding("state directory", FAIL, f"{path} is a file", "name another with --state-dir")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield _unwritable(path)
    else:
        yield _private("state directory", path, _PRIVATE_DIRECTORY)
        yield from _lock(StateDir(path))


def _missing(path: Path) -> Finding:
    home = next(one for one in path.absolute().parents if one.exists())
    if not os.access(home, os.W_OK | os.X_OK):
        return Finding(
            "state directory", FAIL, f"{path} cannot be made, because {home} cannot be written",
            "run as the owner, or name another directory with --state-dir",
        )  # fmt: skip
    return Finding(
        "state directory", WARN, f"{path} is not there yet", "rota up makes it",
        StateDir(path).create,
    )  # fmt: skip


def _unwritable(path: Path) -> Finding:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return Finding(
            "state directory", FAIL, f"{path} is on a file system that is read-only",
            "mount it for writing, or name another directory with --state-dir",
        )  # fmt: skip
    return Finding(
        "state directory", FAIL, f"{path} cannot be written", "run as its owner, or chown it"
    )


def _lock(state: StateDir) -> Iterator[Finding]:
    """The lock ends with its server; only the file with the address can be left behind."""
    if state.running() is None and state.server_file.exists():
        yield Finding(
            "state directory", WARN, f"{state.server_file} was left behind by a server that died",
            f"rm {state.server_file}", lambda: state.server_file.unlink(missing_ok=True),
        )  # fmt: skip


def _private(check: str, path: Path, wanted: int) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & ~wanted:
        return Finding(
            check, FAIL, f"{path} is open to others ({mode:04o})", f"chmod {wanted:o} {path}",
            lambda: path.chmod(wanted),
        )  # fmt: skip
    return Finding(check, OK, f"{path} is private ({mode:04o})")


def database(settings: Settings) -> Iterator[Finding]:
    from rota.app.restoring import fault_in
    from rota.cli.database import demand_ledger, state_of, upgrade_now

    try:
        demand_ledger(settings.database)
        for part in _parts(settings.database):
            yield _private("database", part, _PRIVATE_FILE)
        fault = fault_in(settings.database)
        found = None if fault else asyncio.run(state_of(settings.database))
    except NoLedger as error:
        # If a server still runs and has lost its file, a new empty one would only get in its way.
        is_free = StateDir(settings.state_dir).running() is None
        mend = (lambda: upgrade_now(settings.database)) if is_free else None
        yield Finding("database", WARN, error.message, mend=mend)
        return
    except RotaError as error:
        yield failed("database", error)
        return
    if found is None:
        yield Finding(
            "database", FAIL, f"it is damaged: {fault}",
            "stop the server and restore a backup: rota db restore FILE; without one, see what"
            " rota export can still read",
        )  # fmt: skip
    else:
        yield from _schema(settings, found)


def _parts(database: str) -> list[Path]:
    from rota.app import sqlite_path

    if "://" in database and not database.startswith("sqlite://"):
        return []
    path = sqlite_path(database)
    parts = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]
    return [part for part in parts if os.path.exists(part)]  # noqa: PTH110 - whatever is in the way


def _schema(settings: Settings, found: dict[str, Any]) -> Iterator[Finding]:
    from rota.cli.database import upgrade_now

    if found["unknown"] or found["changed"]:
        names = ", ".join(found["unknown"] + found["changed"])
        yield Finding(
            "database", FAIL, f"its schema is not the one of this Rota ({names})",
            "install the Rota that wrote it, or restore a backup",
        )  # fmt: skip
    elif found["pending"]:
        yield Finding(
            "database", FAIL, f"its schema wants {', '.join(found['pending'])}",
            "rota db upgrade", lambda: upgrade_now(settings.database),
        )  # fmt: skip
    else:
        yield _takes_changes(settings, found["bytes"])
        yield from _clock_against(settings)
        yield from left_runs(settings)
        yield from source_errors(settings.database)
        yield from slow_in_fleet(settings)


def _takes_changes(settings: Settings, size: int) -> Finding:
    """A ledger that can be read may still be locked, read-only, or closed to this role."""
    try:
        asyncio.run(_write(settings.database))
    except RotaError as error:
        return failed("database", error)
    return Finding("database", OK, f"it takes changes, and its schema is current ({size} bytes)")


async def _write(database: str) -> None:
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        await ledger.writes.try_again()


def _clock_against(settings: Settings) -> Iterator[Finding]:
    """Leases and due times are compared with this clock, so it must not be behind the ledger."""
    newest = asyncio.run(_newest_event(settings.database))
    if newest is None:
        return
    ahead = (datetime.fromisoformat(newest) - datetime.now(UTC)).total_seconds()
    if ahead > _CLOCK_SLACK_SECONDS:
        yield Finding(
            "clock", FAIL, f"the newest event lies {ahead:.0f} s in the future of this clock",
            "set the clock, here or where that event was written, by NTP for example; leases do not"
            " end until it has caught up",
        )  # fmt: skip
    else:
        yield Finding("clock", OK, "it is not behind the ledger")


async def _newest_event(database: str) -> str | None:
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        last = await ledger.views.last_event()
        events = await ledger.views.events(max(last - 1, 0), 1)
        return events[-1].occurred_at if events else None


def clock(settings: Settings) -> Iterator[Finding]:
    """The wall clock must run as fast as the monotonic clock, which nobody can set."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.05)  # the two clocks are compared over this span
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    if drift > 0.02:
        yield Finding(
            "clock", WARN, f"it jumped by {drift * 1000:.0f} ms within a moment",
            "see whether two programs set it",
        )  # fmt: skip
    else:
        yield Finding("clock", OK, f"it runs steadily, now {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")


def port(settings: Settings) -> Iterator[Finding]:
    """The port that `rota up` would use. It may be taken by our own server."""
    settings = _listening(settings)
    where = f"{settings.host}:{settings.port}"
    error = _refusal(settings.host, settings.port)
    if error is None:
        yield Finding("port", OK, f"{where} is free")
        return
    if error.errno != errno.EADDRINUSE:
        from rota.daemon import cannot_listen

        yield failed("port", cannot_listen(settings.host, settings.port, error))
        return
    answer = _health(settings.url)
    running = StateDir(settings.state_dir).running()
    if _is_ours(answer) and running is not None and running.url == settings.url:
        yield Finding("port", OK, f"{where} is taken by the server of {settings.state_dir}")
        return
    who = (
        f"it is a Rota server that answers there, but not that of {settings.state_dir}"
        if _is_ours(answer)
        else "it is no Rota server that answers there"
    )
    yield Finding(
        "port", FAIL, f"{where}: {error.strerror}; {who}",
        "have `rota up` take another: set PORT=…, or write web: {port: …} in rota.yaml",
    )  # fmt: skip


def server(settings: Settings) -> Iterator[Finding]:
    """The server that runs here: it may have lost its database, or its disk, since it started."""
    running = StateDir(settings.state_dir).running()
    if running is None:
        return
    answer = _health(running.url)
    if answer is None:
        yield Finding(
            "server", WARN, f"{running.url} (pid {running.pid}) does not answer",
            "it may be about to start or to end; see what it has printed",
        )  # fmt: skip
    elif answer.status == HTTPStatus.OK:
        yield Finding("server", OK, f"{running.url} answers, and takes changes")
        yield from _not_let_in(running.url)
    else:
        wrong, _, advice = json.loads(answer.body)["detail"].partition("; ")
        yield Finding("server", FAIL, f"{running.url}: {wrong}", advice or None)


def _listening(settings: Settings) -> Settings:
    from rota.config.loading import load_fleet

    try:
        web = load_fleet(settings.config).web
    except InvalidInput:
        return settings  # the check of the configuration reports what is wrong
    return settings.listening(web.host, web.port)


def _refusal(host: str, number: int) -> OSError | None:
    """The error that prevents listening there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def _server_at(check: str, url: str, token: str | None) -> Finding:
    from rota.client import SyncWorkQueueClient

    try:
        with SyncWorkQueueClient(url, token, timeout=_ANSWER_SECONDS) as client:
            client.health()
            client.events(limit=1)
    except RotaError as error:
        return Finding(check, FAIL, f"ROTA_URL: {error.message}", "correct ROTA_URL or ROTA_TOKEN")
    return Finding(check, OK, f"the server at {url} answers")


def _not_let_in(url: str) -> Iterator[Finding]:
    """Health is for everybody; a command that is typed here may need another token."""
    from rota.client import SyncWorkQueueClient

    try:
        with SyncWorkQueueClient(url, timeout=_ANSWER_SECONDS) as client:
            client.events(limit=1)
    except Unauthenticated as error:
        yield Finding(
            "server", WARN, f"commands from here are refused: {error.message}", "correct ROTA_TOKEN"
        )
    except RotaError:
        return  # what it may not do, or what passes, is told by the command that needs it


def _health(url: str) -> "Answer | None":
    from rota.client.plain import PlainTransport
    from rota.client.transport import Request

    transport = PlainTransport(url)
    try:
        return transport.send(Request("GET", "/health", {}, timeout=_ANSWER_SECONDS))
    except RotaError:
        return None
    finally:
        transport.close()


def _is_ours(answer: "Answer | None") -> bool:
    return answer is not None and b'"status"' in answer.body and b'"database"' in answer.body


def disk(settings: Settings) -> Iterator[Finding]:
    place = settings.state_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    size = f"{free / 1024**3:.1f} GiB are free at {place}"
    if free < _LITTLE_BYTES:
        status = FAIL if free < _SCARCE_BYTES else WARN
        yield Finding("disk", status, size, "free some space; no restart is needed afterwards")
    else:
        yield Finding("disk", OK, size)


CHECKS: tuple[Check, ...] = (
    environment,
    state_dir,
    database,
    clock,
    server,
    port,
    disk,
    configuration,
)
