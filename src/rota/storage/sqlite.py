"""SQLite with group commit: full durability at the price of one fsync for many callers.

One writer thread drains all waiting bodies, runs each in its own SAVEPOINT, commits
once, then answers them all: a caller is answered only after the commit that holds
its change is on disk. Short reads run on the event loop itself (13 µs, where a hop
to a thread costs 80); long ones go to a reader thread.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from rota.files import replacing
from rota.model.clock import Clock, SystemClock, to_text
from rota.model.errors import StorageUnavailable
from rota.storage.migrations import TABLE, demand_current, migrations, state_of
from rota.storage.port import Abandoned, SchemaState, Topic, Transaction
from rota.storage.sqlite_errors import translate, translated
from rota.storage.sqlite_files import prepare
from rota.storage.sqlite_presence import Presence, log_of
from rota.storage.sqlite_transaction import SqliteTransaction
from rota.storage.wakeups import Wakeups

T = TypeVar("T")

BUSY_SECONDS = 10.0
GROUP_LIMIT = 1_000
# Each connection is used by one thread at a time, so it needs no lock around every value read.
_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
# How often the writer thread checks for commits of other processes while a caller waits.
FOREIGN_COMMIT_SECONDS = 0.05


@dataclass(slots=True)
class _Request:
    body: Callable[[Transaction], Any]
    future: "asyncio.Future[Any]"


@dataclass(slots=True)
class _Answer:
    request: _Request
    result: Any = None
    error: BaseException | None = None

    def give(self) -> None:
        if self.request.future.done():  # the caller was cancelled; the change is committed
            return
        if self.error is not None:
            self.request.future.set_exception(self.error)
        else:
            self.request.future.set_result(self.result)


class SqliteStore:
    width = 1  # there is one writer

    def __init__(
        self, path: Path | str, *, clock: Clock | None = None, busy_seconds: float | None = None
    ) -> None:
        self.path = Path(path)
        self._busy_seconds = BUSY_SECONDS if busy_seconds is None else busy_seconds
        self.url = f"sqlite:///{self.path}"
        self.clock: Clock = clock or SystemClock()
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._wakeups = Wakeups()
        self._writer: threading.Thread | None = None
        self._reader: apsw.Connection | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._listening = 0
        self._stopping = False
        self.refusal: str | None = None

    # life

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._prepare_files()
        state = await asyncio.to_thread(self._schema_now)
        if not state.applied:
            await asyncio.to_thread(self._upgrade_now)
        else:
            demand_current(state, self.url)
        self._reader = self._connect(readonly=True)
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="rota-read")
        self._stopping = False
        # Made here, not in the thread: a file moved away before the thread starts must be noticed.
        writing = (self._connect(), Presence(self.path))
        self._writer = threading.Thread(
            target=self._write_loop, args=writing, name="rota-write", daemon=True
        )
        self._writer.start()

    async def close(self) -> None:
        if self._writer is not None:
            self._stopping = True
            self._requests.put(None)
            await asyncio.to_thread(self._writer.join)
            self._writer = None
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._reader = None

    def _prepare_files(self) -> None:
        try:
            if not self.path.parent.exists():
                self.path.parent.mkdir(mode=0o700, parents=True)
            prepare(self.path)
        except OSError as error:
            raise StorageUnavailable(
                f"cannot open {self.path}: {error.strerror}; check the path and its permissions,"
                " or name another database with --db or DATABASE_URL"
            ) from error

    def _connect(self, *, readonly: bool = False) -> apsw.Connection:
        with translated(self.path):
            connection = apsw.Connection(str(self.path), _FLAGS, statementcachesize=256)
            # Without this, SQLite compiles a statement again on every call, once a parameter of it
            # was compared with the condition of a partial index: 10 to 20 µs each time.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.set_busy_timeout(int(self._busy_seconds * 1000))
            _demand_ours(connection)
            _switch_to_wal(connection, self._busy_seconds)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(
                "PRAGMA cache_size = -65536" if not readonly else "PRAGMA cache_size = -16384"
            )
            # A longer log means fewer checkpoints in the path of writers; 16 MiB is still small.
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            if readonly:
                connection.execute("PRAGMA query_only = ON")
        self._connections.append(connection)
        return connection

    # reads and writes

    def transact(self, body: Callable[[Transaction], T]) -> asyncio.Future[T]:
        if self._writer is None or self._stopping:
            raise StorageUnavailable(f"{self.url} is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._requests.put(_Request(body, future))
        return future

    async def read(self, body: Callable[[Transaction], T], *, long: bool = False) -> T:
        if self._reader is None or self._pool is None:
            raise StorageUnavailable(f"{self.url} is closed")
        if long:
            return await self._loop.run_in_executor(self._pool, self._read_in_thread, body)
        return self._read_on(self._reader, body)

    def _read_in_thread(self, body: Callable[[Transaction], T]) -> T:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect(readonly=True)
        return self._read_on(connection, body)

    def _read_on(self, connection: apsw.Connection, body: Callable[[Transaction], T]) -> T:
        with translated(self.path):
            connection.execute("BEGIN")
            try:
                return body(SqliteTransaction(connection))
            finally:
                _roll_back(connection)

    def counter(self, topic: Topic) -> int:
        return self._wakeups.counter(topic)

    async def wait(self, topic: Topic, seen: int, timeout: float) -> int:
        self._listening += 1
        if self._listening == 1:
            self._requests.put(None)  # wakes the writer to check for foreign commits
        try:
            return await self._wakeups.wait(topic, seen, timeout)
        finally:
            self._listening -= 1

    # the writer thread

    def _write_loop(self, connection: apsw.Connection, presence: Presence) -> None:
        foreign = _data_version(connection)
        while True:
            requests = [request for request in self._next_group() if request is not None]
            answers, topics = self._run_group(connection, requests, presence)
            seen = _data_version(connection)
            if seen != foreign:
                foreign, topics = seen, set(Topic)
            if answers or topics:
                self._call_loop(answers, topics)
            if self._stopping and self._requests.empty():
                return

    def _next_group(self) -> list[_Request | None]:
        """All waiting requests, up to a limit; [None] after a pause while a caller listens."""
        pause = FOREIGN_COMMIT_SECONDS if self._listening else None
        group: list[_Request | None] = []
        with contextlib.suppress(queue.Empty):
            group.append(self._requests.get(timeout=pause))
            while len(group) < GROUP_LIMIT:
                group.append(self._requests.get_nowait())
        return group or [None]

    def _call_loop(self, answers: list[_Answer], topics: set[Topic]) -> None:
        def deliver() -> None:
            for answer in answers:
                answer.give()
            self._wakeups.bump(topics)

        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody left to tell
            self._loop.call_soon_threadsafe(deliver)

    def _run_group(
        self, connection: apsw.Connection, requests: list[_Request], presence: Presence
    ) -> tuple[list[_Answer], set[Topic]]:
        if not requests:
            return [], set()
        before = connection.total_changes()
        try:
            with translated(self.path):
                connection.execute("BEGIN IMMEDIATE")
                answers, topics = self._run_bodies(connection, requests)
                connection.execute("COMMIT")
            presence.demand()
        except Exception as error:  # noqa: BLE001 - every waiting caller must be answered
            # Nothing of this group is durable, so no caller may be told that it is.
            _roll_back(connection)
            if isinstance(error, StorageUnavailable):
                self.refusal = error.message
            return [_Answer(request, error=error) for request in requests], set()
        if connection.total_changes() != before:
            self.refusal = None
        return answers, topics

    def _run_bodies(
        self, connection: apsw.Connection, requests: list[_Request]
    ) -> tuple[list[_Answer], set[Topic]]:
        if len(requests) == 1:  # no savepoint needed: a rollback undoes nobody else's change
            transaction = SqliteTransaction(connection)
            return [_Answer(requests[0], requests[0].body(transaction))], transaction.topics
        answers: list[_Answer] = []
        topics: set[Topic] = set()
        for request in requests:
            connection.execute("SAVEPOINT body")
            transaction = SqliteTransaction(connection)
            try:
                answers.append(_Answer(request, request.body(transaction)))
                topics |= transaction.topics
            except Exception as error:
                if not connection.in_transaction:
                    raise  # a full disk ends the whole transaction, and with it the group
                connection.execute("ROLLBACK TO body")
                answers.append(_Answer(request, error=translate(error, self.path)))
            connection.execute("RELEASE body")
        return answers, topics

    # schema and care

    def _schema_now(self) -> SchemaState:
        with self._borrowed() as connection, translated(self.path):
            return state_of("sqlite", _applied(connection))

    def _upgrade_now(self) -> list[str]:
        """Apply all missing migrations in one transaction: a crash leaves the old schema whole."""
        with self._borrowed() as connection, translated(self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                applied = _applied(connection)
                state = state_of("sqlite", applied)
                if state.unknown or state.changed:
                    demand_current(state, self.url)
                connection.execute(TABLE)
                for migration in migrations("sqlite"):
                    if migration.name in state.pending:
                        connection.execute(migration.text)
                        connection.execute(
                            "INSERT INTO schema_migrations VALUES (?, ?, ?)",
                            (migration.name, migration.sha256, to_text(self.clock.now())),
                        )
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
            return state.pending

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[apsw.Connection]:
        connection = self._connect()
        try:
            yield connection
        finally:
            self._connections.remove(connection)
            connection.close()

    async def schema(self) -> SchemaState:
        self._prepare_files()
        return await asyncio.to_thread(self._schema_now)

    async def upgrade(self) -> list[str]:
        self._prepare_files()
        return await asyncio.to_thread(self._upgrade_now)

    async def backup(self, target: Path) -> None:
        await asyncio.to_thread(self._backup_now, target)

    def _backup_now(self, target: Path) -> None:
        """SQLite's own backup: a consistent copy, made while writers go on."""
        try:
            with replacing(target) as partial, self._borrowed() as source, translated(partial):
                copy = apsw.Connection(str(partial))
                with copy.backup("main", source, "main") as backup:
                    # All pages in one step: if others committed between two steps, the backup would
                    # start over.
                    while not backup.done:
                        backup.step()
                copy.execute("PRAGMA journal_mode = DELETE")
                copy.close()
        except OSError as error:
            raise StorageUnavailable(f"cannot write {target}: {error.strerror}") from error

    async def end_abandoned(self, silent: float, looked: Collection[str]) -> list[Abandoned]:
        return []  # a transaction ends with its process, and a frozen one is on this machine

    async def size(self) -> int:
        return sum(file.stat().st_size for file in (self.path, log_of(self.path)) if file.exists())


def _switch_to_wal(connection: apsw.Connection, patience: float) -> None:
    """SQLite ignores the busy timeout here: while others open a new file, it fails at once."""
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(apsw.BusyError):
            connection.execute("PRAGMA journal_mode = WAL")
            return
        if time.monotonic() > deadline:
            raise apsw.BusyError("it could not be switched to WAL")
        time.sleep(0.01)  # there is no notification when the other process has finished


def _tables(connection: apsw.Connection) -> list[str]:
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return [str(name) for (name,) in connection.execute(names).fetchall()]


def _demand_ours(connection: apsw.Connection) -> None:
    """Refuse the database of another program. Runs before the switch to WAL, which changes it."""
    tables = _tables(connection)
    if tables and not {"name", "sha256"} <= _columns(connection, "schema_migrations"):
        # Other programs also have a table of this name, so the error names another table.
        strange = [name for name in tables if name != "schema_migrations"] or tables
        raise StorageUnavailable(
            f"{connection.filename} is the database of another program (it has the table"
            f" {strange[0]!r}); name another file with --db or DATABASE_URL"
        )


def _columns(connection: apsw.Connection, table: str) -> set[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return {str(name) for (name,) in rows}


def _applied(connection: apsw.Connection) -> dict[str, str]:
    if "schema_migrations" not in _tables(connection):
        return {}
    rows = connection.execute("SELECT name, sha256 FROM schema_migrations").fetchall()
    return {str(name): str(sha256) for name, sha256 in rows}


def _data_version(connection: apsw.Connection) -> int:
    """A number that changes when another connection commits; costs a few microseconds."""
    with contextlib.suppress(apsw.Error):
        return int(str(connection.execute("PRAGMA data_version").fetchall()[0][0]))
    return -1


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute("ROLLBACK")
