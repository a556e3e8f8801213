"""Opening a database: the only module that knows which databases there are."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rota.config import StateDir
from rota.config.settings import is_postgres
from rota.model.clock import Clock
from rota.model.errors import InvalidInput, StorageUnavailable

if TYPE_CHECKING:
    from rota.queue import WorkQueue
    from rota.queue.ledger import Ledger
    from rota.storage.port import Store


def make_store(url: str, clock: Clock | None = None) -> "Store":
    """A store for `postgresql://…`, `sqlite:///path` or a bare path; it is not opened yet."""
    if is_postgres(url):
        from rota.storage.postgres import PostgresStore

        return PostgresStore(url, clock=clock)
    if "://" in url and not url.startswith("sqlite://"):
        raise InvalidInput(
            f"the database {url.partition('://')[0]}:// is not known; use sqlite:///path, a path,"
            " or postgresql://…"
        )
    from rota.storage.sqlite import SqliteStore

    return SqliteStore(sqlite_path(url), clock=clock)


def sqlite_path(url: str) -> Path:
    """`sqlite:///x` is the relative path x, `sqlite:////x` the absolute one, as elsewhere."""
    path = url.removeprefix("sqlite:///").removeprefix("sqlite://")
    if not path:
        raise InvalidInput("the database path is empty; use sqlite:///path or a path")
    if path == ":memory:":  # each of our connections would have a memory of its own
        raise InvalidInput("a ledger is a file, so that nothing in it is lost; name one")
    if path.startswith(("sqlite:", "file:")):
        raise InvalidInput(f"{path[:200]!r} is no path; write sqlite:///path, or the path alone")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidInput(
            f"nothing tells where the home directory in {path} is; set HOME, or write it out"
        ) from None


def make_home(url: str) -> None:
    """A directory that is made for a ledger is private, and git leaves it alone."""
    if "://" in url and not url.startswith("sqlite://"):
        return
    with suppress(StorageUnavailable):  # which the database says in its own words
        StateDir(sqlite_path(url).parent).create()


@asynccontextmanager
async def open_store(url: str, clock: Clock | None = None) -> AsyncIterator["Store"]:
    make_home(url)
    store = make_store(url, clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_ledger(
    url: str,
    clock: Clock | None = None,
    *,
    logs: Path = Path(".rota/runs"),
    deserted: Callable[[], str | None] = lambda: None,
) -> AsyncIterator["Ledger"]:
    """The ledger on its own, without faces: for programs that embed Rota, and for the CLI."""
    from rota.queue.ledger import Ledger

    async with open_store(url, clock) as store:
        yield Ledger.on(store, logs=logs, deserted=deserted)


@asynccontextmanager
async def open_queue(url: str, clock: Clock | None = None) -> AsyncIterator["WorkQueue"]:
    async with open_ledger(url, clock) as ledger:
        yield ledger.queue
