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
from rota.config.settings import is_postgres
from rota.model.clock import from_text
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
    elif _is_of_others(path):
        yield Finding(
            "state directory", FAIL, f"{path} is open to others, and is not Rota's alone",
            "name one of your own with --state-dir",
        )  # fmt: skip
    else:
        yield _private("state directory", path, _PRIVATE_DIRECTORY)
        yield from _lock(StateDir(path))


def _is_of_others(path: Path) -> bool:
    """Closing it could take something away from somebody: from every user of /tmp, for example."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & stat.S_ISVTX and mode & stat.S_IWOTH:
        return True
    return bool(mode & ~_PRIVATE_DIRECTORY) and not StateDir(path).is_ours


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
        fault = fault_in(settings.database)
        found = None if fault else asyncio.run(state_of(settings.database))
    except NoLedger as error:
        # If a server still runs and has lost its file, a new empty one would only get in its way.
        state = StateDir(settings.state_dir)
        is_free = state.running() is None and (state.is_ours or not state.path.exists())
        mend = (lambda: upgrade_now(settings.database)) if is_free else None
        yield Finding("database", WARN, error.message, mend=mend)
        yield from _reach(settings, protected=False)
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
        for part in _parts(settings.database):  # now that it is known to be ours
            yield _private("database", part, _PRIVATE_FILE)
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
        yield from _reach(settings, protected=asyncio.run(_has_tokens(settings.database)))
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


async def _has_tokens(database: str) -> bool:
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        return await ledger.tokens.required()


def _reach(settings: Settings, *, protected: bool) -> Iterator[Finding]:
    if settings.on_loopback:
        return
    reached = f"ROTA_HOST {settings.host} can be reached by other machines"
    if protected:
        yield Finding("tokens", OK, f"{reached}, and every call needs a token")
    else:
        yield Finding(
            "tokens", WARN, reached,
            "rota up will want a token: rota token create NAME --scope admin",
        )  # fmt: skip


def _clock_against(settings: Settings) -> Iterator[Finding]:
    """Leases and due times are compared with the ledger's clock: this machine's, or that of the
    database server. It must not be behind what it has written."""
    whose = "the database server's clock" if is_postgres(settings.database) else "this clock"
    ahead = asyncio.run(_newest_event_ahead(settings.database))
    if ahead is None:
        return
    if ahead > _CLOCK_SLACK_SECONDS:
        yield Finding(
            "clock", FAIL, f"the newest event lies {ahead:.0f} s in the future of {whose}",
            "set it, by NTP for example; if it is right, it was ahead before, and leases do not end"
            " until it has caught up",
        )  # fmt: skip
    else:
        yield Finding("clock", OK, f"{whose} is not behind the ledger")


async def _newest_event_ahead(database: str) -> float | None:
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        last = await ledger.views.last_event()
        events = await ledger.views.events(max(last - 1, 0), 1)
        if not events:
            return None
        return (from_text(events[-1].occurred_at) - ledger.clock.now()).total_seconds()


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
