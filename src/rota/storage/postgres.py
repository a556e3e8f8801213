"""PostgreSQL behind the same port: a small fair pool of threads, each with its own connection.

Bodies are synchronous here too, so each verb is written once for both databases. A
transaction that breaks before its commit was sent is run again. If the commit was sent
and no answer came, the outcome is reported as unknown, never as failed.
"""

import asyncio
import contextlib
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.files import replacing
from rota.model.clock import Clock, DistantClock, elapsed, to_text
from rota.model.errors import (
    CommitUnknown,
    InvalidInput,
    NoFreeSlot,
    Refused,
    RotaError,
    StorageBusy,
    StorageError,
    StorageLocked,
    StorageUnavailable,
)
from rota.storage.abandoned import end_abandoned
from rota.storage.dialogue import Connection, Dialogue
from rota.storage.herald import Herald
from rota.storage.lanes import Lanes, Seat
from rota.storage.migrations import TABLE, demand_current, migrations, state_of
from rota.storage.port import Abandoned, RunAgain, SchemaState, Topic, Transaction
from rota.storage.postgres_connection import NOW, connect
from rota.storage.postgres_transaction import PostgresTransaction
from rota.storage.statements import load_statements
from rota.storage.wakeups import Wakeups

T = TypeVar("T")

LANES = 10
TRIES = 8
CLOSE_SECONDS = 30.0
QUEUE_SECONDS = 10.0  # how long a request waits for a connection
CLOCK_SECONDS = 10.0  # how old the database's time may become before it is asked again
UPGRADE_LOCK = 0x526F7461  # "Rota": one upgrade at a time, across all processes
_RUN_AGAIN = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
    RunAgain,
)


@dataclass(slots=True)
class _Request:
    body: Callable[[Transaction], Any]
    future: "asyncio.Future[Any]"
    writes: bool
    # A try that was undone had locked claimable items: other claims may have passed over them.
    has_locked: bool = False
    asked_at: float = field(default_factory=time.monotonic)


class PostgresStore:
    width = 3  # while the server works on one transaction, the next is prepared here

    def __init__(self, url: str, *, lanes: int = LANES, clock: Clock | None = None) -> None:
        self.url = _shown(url)
        self._conninfo = url
        self._lanes = lanes
        # Servers on different machines share no clock but the database's.
        self._distant = DistantClock()
        self.clock: Clock = clock or self._distant
        self._requests: Lanes[_Request] = Lanes()
        self._threads: list[threading.Thread] = []
        self._wakeups = Wakeups()
        self._herald: Herald | None = None
        self._closed = True
        self.refusal: str | None = None

    # life

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        state = await asyncio.to_thread(self._schema_now)
        if not state.applied:
            await asyncio.to_thread(self._upgrade_now)
        else:
            demand_current(state, self.url)
        await asyncio.to_thread(self._settle_restored)
        self._closed = False
        self._threads = [
            threading.Thread(target=self._lane, name=f"rota-pg-{n}", daemon=True)
            for n in range(self._lanes)
        ]
        self._herald = Herald(self._conninfo, self._heard)
        for thread in self._threads:
            thread.start()
        self._herald.start()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for _ in self._threads:
            self._requests.put(None)
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        """Wait for running transactions, but not for ever: a database server that no longer
        answers would keep us from ending, and its callers would get no answer either way."""
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._herald is not None:
            self._herald.stop(deadline)

    def _connect(self) -> Connection:
        with self._translated():
            return connect(self._conninfo, "rota", self._distant)

    # reads and writes

    def transact(self, body: Callable[[Transaction], T]) -> asyncio.Future[T]:
        return self._submit(body, writes=True)

    async def read(self, body: Callable[[Transaction], T], *, long: bool = False) -> T:
        return await self._submit(body, writes=False)

    def _submit(self, body: Callable[[Transaction], T], *, writes: bool) -> asyncio.Future[T]:
        if self._closed:
            raise StorageUnavailable(f"{self.url} is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._requests.put(_Request(body, future, writes))
        return future

    def counter(self, topic: Topic) -> int:
        return self._wakeups.counter(topic)

    async def wait(self, topic: Topic, seen: int, timeout: float) -> int:
        return await self._wakeups.wait(topic, seen, timeout)

    def _heard(self, topics: set[Topic]) -> None:
        """From the listening thread: another process has committed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wakeups.bump, topics)

    # a lane: one thread, one connection

    def _lane(self) -> None:
        line, seat = _Line(self._connect), Seat[_Request]()
        while (request := self._requests.get(seat)) is not None:
            result, error, topics = None, None, set[Topic]()
            try:
                self._demand_patience(request)
                result, topics = self._run(line, request)
            except Exception as problem:  # noqa: BLE001 - the caller must be answered
                error = problem
            self._learn(request, error, topics)
            if request.has_locked:
                topics = topics | {Topic.READY}
            self._answer(request, result, error, topics)
            if self._distant.age > CLOCK_SECONDS:
                line.ask_the_time(self._distant)
        line.close()

    def _demand_patience(self, request: _Request) -> None:
        if time.monotonic() - request.asked_at > QUEUE_SECONDS:
            raise StorageUnavailable(
                f"{self.url}: all connections have been busy for too long; try again"
            )

    def _learn(self, request: _Request, error: Exception | None, topics: set[Topic]) -> None:
        """Set or clear `refusal`. Only a transaction with topics has certainly written something,
        so only that clears it. A database server that does not answer has refused nothing, nor has
        one in which this change had to give way."""
        if not request.writes or isinstance(error, StorageBusy):
            return
        answered = isinstance(cause := error and error.__cause__, psycopg.Error) and cause.sqlstate
        if isinstance(error, StorageUnavailable) and answered:
            self.refusal = error.message
        elif error is None and topics:
            self.refusal = None

    def _answer(
        self, request: _Request, result: Any, error: Exception | None, topics: set[Topic]
    ) -> None:
        if topics and self._herald is not None:
            self._herald.tell(topics)

        def deliver() -> None:
            if not request.future.done():
                if error is not None:
                    request.future.set_exception(error)
                else:
                    request.future.set_result(result)
            self._wakeups.bump(topics)

        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody left to tell
            self._loop.call_soon_threadsafe(deliver)

    def _run(self, line: "_Line", request: _Request) -> tuple[Any, set[Topic]]:
        """Run a body until it commits or is refused. Each try is one whole transaction."""
        for turn in range(TRIES):
            dialogue = line.dialogue()
            try:
                with self._translated():
                    return _once(dialogue, request)
            except _RUN_AGAIN as error:
                if turn == TRIES - 1:
                    raise _gave_up(error) from error
            except _Broken as error:
                dialogue.close()
                if turn >= 1:
                    raise StorageUnavailable(
                        f"{self.url}: the connection was lost; try again"
                    ) from error
            threading.Event().wait(random.uniform(0, 0.002) * 2**turn)
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (RotaError, RunAgain, errors.UniqueViolation):
            raise
        except (errors.SerializationFailure, errors.DeadlockDetected):
            raise
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise _translate(error, self.url) from error

    # schema and care

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        connection = self._connect()
        try:
            with self._translated():
                yield connection
        finally:
            connection.close()

    def _schema_now(self) -> SchemaState:
        with self._borrowed() as connection:
            return state_of("postgres", _applied(connection, self.url))

    def _upgrade_now(self) -> list[str]:
        """Apply all missing migrations in one transaction under a lock: a crash leaves the old
        schema whole."""
        with self._borrowed() as connection, connection.transaction():
            connection.execute("SET LOCAL lock_timeout = 0")  # another's upgrade may take long
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))
            state = state_of("postgres", _applied(connection, self.url))
            if state.unknown or state.changed:
                demand_current(state, self.url)
            connection.execute(TABLE)
            for migration in migrations("postgres"):
                if migration.name in state.pending:
                    connection.execute(migration.text)
                    connection.execute(
                        "INSERT INTO schema_migrations VALUES (%s, %s, %s)",
                        (migration.name, migration.sha256, to_text(self.clock.now())),
                    )
            return state.pending

    def _settle_restored(self) -> None:
        with self._borrowed() as connection, connection.transaction():
            sql = load_statements("postgres")
            row = connection.execute(sql["newest_txid_ahead"]).fetchone()
            if row and row[0]:
                connection.execute(sql["settle_young"])  # first: it reads the old ids
                connection.execute(sql["settle_txids"])

    async def end_abandoned(self, silent: float, looked: Collection[str]) -> list[Abandoned]:
        def now() -> list[Abandoned]:
            with self._borrowed() as connection:  # all lanes may be waiting for its lock
                return end_abandoned(connection, silent, looked)

        return await asyncio.to_thread(now)

    async def schema(self) -> SchemaState:
        return await asyncio.to_thread(self._schema_now)

    async def upgrade(self) -> list[str]:
        return await asyncio.to_thread(self._upgrade_now)

    async def backup(self, target: Path) -> None:
        await asyncio.to_thread(self._backup_now, target)

    def _backup_now(self, target: Path) -> None:
        """Written by `pg_dump` in its custom format, which `pg_restore` restores."""
        try:
            with replacing(target) as partial:
                self._dump(partial)
        except OSError as error:
            raise StorageUnavailable(f"cannot write {target}: {error.strerror}") from error

    def _dump(self, target: Path) -> None:
        where = conninfo_to_dict(self._conninfo)
        # Every user of the machine can read the arguments of a process, but not its environment.
        secret = {"PGPASSWORD": str(where.pop("password"))} if "password" in where else {}
        command = [
            "pg_dump",
            "--format=custom",
            f"--file={target}",
            "-d",
            make_conninfo("", **where),
        ]
        try:
            done = subprocess.run(
                command, env=os.environ | secret, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise StorageUnavailable(
                "pg_dump was not found; install PostgreSQL's client programs to back up"
            ) from None
        if done.returncode != 0:
            raise StorageUnavailable(f"pg_dump failed: {done.stderr.strip()[:500]}")

    async def size(self) -> int:
        def now() -> int:
            with self._borrowed() as connection:
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
                return int(row[0]) if row else 0

        return await asyncio.to_thread(now)


class _Line:
    """A lane's connection: made when it is first needed, and again after it has broken."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._dialogue: Dialogue | None = None

    def dialogue(self) -> Dialogue:
        if self._dialogue is None or self._dialogue.is_broken:
            self.close()
            self._dialogue = Dialogue(self._connect())
        return self._dialogue

    def ask_the_time(self, clock: DistantClock) -> None:
        """Nobody waits for the answer. After an error the next request gets a new connection."""
        if (dialogue := self._dialogue) is None or dialogue.is_broken:
            return
        try:
            dialogue.begin(writes=False)
            asked_at = elapsed()
            ((seconds,),), _ = dialogue.ask(b"SELECT %b" % NOW.encode(), ())
            clock.hear(datetime.fromtimestamp(seconds, UTC), asked_at, elapsed())
            dialogue.commit()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """A connection that is closed counts as broken."""
        if self._dialogue is not None:
            self._dialogue.close()


class _Broken(Exception):
    """The connection went away before the commit was sent: the transaction never happened."""


def _once(dialogue: Dialogue, request: _Request) -> tuple[Any, set[Topic]]:
    transaction = PostgresTransaction(dialogue)
    try:
        dialogue.begin(writes=request.writes)
        try:
            result = request.body(transaction)
            transaction.forget()
            dialogue.look()
        except BaseException:
            request.has_locked |= transaction.has_locked
            if not dialogue.is_broken:
                dialogue.roll_back()
            raise
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if dialogue.is_broken:
            raise _Broken from error
        raise
    try:
        dialogue.commit()
    except psycopg.Error as error:
        request.has_locked |= transaction.has_locked
        if request.writes and dialogue.is_broken:
            raise CommitUnknown(
                "the connection broke while committing; read the item again, or repeat the"
                " request with the same Idempotency-Key"
            ) from error
        raise
    return result, transaction.topics


# One statement, so that of a ledger that is being made it sees nothing or all. The tables of an
# extension (PostGIS has one) are nobody's. Other programs also have a table `schema_migrations`.
_TABLES = """
SELECT c.relname, n.nspname = current_schema(), c.relname = 'schema_migrations' AND EXISTS (
    SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'sha256')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid)
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND NOT EXISTS (
    SELECT 1 FROM pg_depend d
    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY c.relname = 'schema_migrations', c.relname
"""


def _applied(connection: Connection, url: str) -> dict[str, str]:
    """Refuses the database of another program, where no ledger is yet."""
    tables = connection.execute(_TABLES).fetchall()
    if not any(is_ours for _, _, is_ours in tables):
        strange = next((name for name, is_here, _ in tables if is_here), None)
        if strange is not None:
            raise StorageUnavailable(
                f"{url} is the database of another program (it has the table {strange!r});"
                " name another with --db or DATABASE_URL, or give the ledger a schema of its own"
            )
        return {}
    rows = connection.execute("SELECT name, sha256 FROM schema_migrations").fetchall()
    return {str(name): str(sha256) for name, sha256 in rows}


def _gave_up(error: Exception) -> RotaError:
    if isinstance(error, errors.UniqueViolation):
        name = error.diag.constraint_name or ""
        if name == "one_in_progress_per_slot":
            return NoFreeSlot("the agent already works on an item in this slot")
        if name == "one_live_item_per_source_ref":
            return Refused("a live item with this source reference exists already")
        return StorageError(f"the database refused the change: {error}")
    return StorageBusy("too much contention for this change; try again")


# The first that fits counts; some of these errors are operational errors too.
_UNAVAILABLE: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DiskFull, "{url}: the disk is full; free some space and try again"),
    (errors.ReadOnlySqlTransaction, "{url} is read-only; connect to the primary server"),
    (
        errors.InsufficientPrivilege,
        "{url}: {text}; connect as the role that owns the ledger, or grant this one its rights",
    ),
    (
        psycopg.OperationalError,
        "{url} cannot be reached: {text}; check that it runs, and that DATABASE_URL is right",
    ),
    (psycopg.InterfaceError, "{url} cannot be reached: {text}; try again"),
)


def _translate(error: Exception, url: str) -> RotaError:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, psycopg.DataError | UnicodeEncodeError):
        return InvalidInput(f"a value that no database can hold: {text}")
    if isinstance(error, errors.LockNotAvailable):
        return StorageLocked(f"{url}: another session has held a lock for too long; try again")
    if isinstance(error, errors.QueryCanceled):
        return StorageLocked(f"{url}: the server has ended the statement ({text}); try again")
    for kind, message in _UNAVAILABLE:
        if isinstance(error, kind):
            return StorageUnavailable(message.format(url=url, text=text))
    return StorageError(f"{url}: {text}")


def _shown(url: str) -> str:
    """The address without secrets, for logs, errors and `rota doctor`. It is built from what the
    library has parsed, and from nothing that could be part of a password."""
    try:
        where = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.ProgrammingError:  # its message may quote a part of the password
        raise _unreadable() from None
    ports, hosts = where.get("port", "").split(","), where.get("host", "").split(",")
    # An unescaped / ? or @ in a password ends up in the host, the port or the name.
    name = where.get("dbname", "")
    if not all(port.isdigit() or not port for port in ports) or "@" in "".join([*hosts, name]):
        raise _unreadable()
    places = zip_longest(hosts, ports if len(ports) == len(hosts) else ports * len(hosts))
    shown = ",".join(_place(host or "", port or "") for host, port in places)
    user = f"{quote(where['user'], safe='')}@" if "user" in where else ""
    return f"postgresql://{user}{shown}/{quote(name)}"


def _place(host: str, port: str) -> str:
    named = f"[{host}]" if ":" in host else quote(host, safe="")
    return f"{named}:{port}" if port else named


def _unreadable() -> InvalidInput:
    return InvalidInput(
        "the address of the database cannot be read: it is postgresql://user:password@host:port/name,"
        " and of a password / ? # @ : and % are written as %2F %3F %23 %40 %3A and %25",
        field="database",
    )
