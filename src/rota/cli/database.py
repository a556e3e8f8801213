"""Commands that look after the database. They open it themselves, also beside a running server."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.destination import missing_file
from rota.cli.ending import NEGATIVE
from rota.cli.session import group
from rota.cli.targets import demand_target
from rota.model.errors import NoLedger
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.cli.session import Session

db = group("db", "Check, upgrade, back up and restore the database.", "rota db status")


def demand_ledger(database: str) -> None:
    """A command that only looks must not create a ledger."""
    path = missing_file(database)
    if path is not None:
        raise NoLedger(
            f"there is no ledger at {path} yet; `rota up` makes one, and so does `rota db upgrade`;"
            " or name another with --db or --state-dir"
        )


def database_of(session: "Session") -> str:
    """Never a server's: it would have to hold its snapshot, or its lock, for a remote client."""
    remote = session.url or (
        not session.database and not environ.get("DATABASE_URL") and environ.get("ROTA_URL")
    )
    if remote:
        raise click.UsageError(
            f"this command opens the database itself, and {remote} is a server; run it where the"
            " database can be reached, and name that with --db or DATABASE_URL"
        )
    return session.settings.database


def _database(session: "Session") -> str:
    """The database of this machine, even when ROTA_URL names a server."""
    if session.url:
        raise click.UsageError(
            "--url is not for this command: it opens the database itself; name that with --db or"
            " --state-dir"
        )
    return session.settings.database


async def state_of(database: str) -> dict[str, Any]:
    from rota.app import make_store

    store = make_store(database)
    schema = await store.schema()
    return {
        "database": store.url,
        "bytes": await store.size(),
        "current": not (schema.pending or schema.unknown or schema.changed),
        "applied": schema.applied,
        "pending": schema.pending,
        "unknown": schema.unknown,
        "changed": schema.changed,
    }


@db.member("status", example="rota db status --db postgresql://rota@db/rota")
def status(session: "Session", /) -> None:
    """Show the database, its size and its migrations.

    Exit code 1 when the schema is not current.
    """
    database = _database(session)
    demand_ledger(database)
    found = asyncio.run(state_of(database))
    facts = [
        ("database", found["database"]),
        ("size", f"{found['bytes'] / 1024 / 1024:.1f} MiB"),
        ("schema", "current" if found["current"] else "not current"),
        *((name, "\n".join(found[name])) for name in ("applied", "pending", "unknown", "changed")),
    ]
    session.output.facts(found, facts)
    if not found["current"]:
        raise click.exceptions.Exit(NEGATIVE)


@db.member("upgrade", example="rota db upgrade")
def upgrade(session: "Session", /) -> None:
    """Upgrade the database to the current schema.

    An empty database gets the whole schema. Prints the migrations that were applied.
    """
    applied = upgrade_now(_database(session))
    session.output.facts({"applied": applied}, [("applied", "\n".join(applied))])
    if not applied:
        session.output.say("it is current")


def upgrade_now(database: str) -> list[str]:
    from rota.app import make_home, make_store

    make_home(database)
    return asyncio.run(make_store(database).upgrade())


@db.member("backup", example="rota db backup rota-2026-05-01.db")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def backup(session: "Session", /, target: Path, overwrite: bool) -> None:
    """Write a consistent copy of the database to TARGET.

    Servers and workers can go on meanwhile.
    """
    database = _database(session)
    demand_ledger(database)
    demand_target(session.settings, target, overwrite)
    asyncio.run(_backup(database, target))
    size = target.stat().st_size
    session.output.facts({"path": str(target), "bytes": size}, [("written", target)])


async def _backup(database: str, target: Path) -> None:
    from rota.app import open_store

    async with open_store(database) as store:
        await store.backup(target)


@db.member("restore", example="rota db restore rota-2026-05-01.db")
@click.argument("file", type=click.Path(path_type=Path))
def restore(session: "Session", /, file: Path) -> None:
    """Replace the ledger with a backup, and keep the old ledger.

    The old ledger is kept beside the new one under another name. This works only while no server
    runs on the ledger and no process has it open. The backup is checked first. Whatever happens,
    either the old or the new ledger is there afterwards, whole. For SQLite only; PostgreSQL has
    pg_restore.
    """
    from rota.app.restoring import restore as restore_ledger

    database = database_of(session)
    if not os.path.isfile(file):  # noqa: PTH113 - whatever is in the way
        raise click.UsageError(f"there is no file {file}; name one that rota db backup wrote")
    done = restore_ledger(session.settings, file)
    data = {
        "database": database,
        "restored": str(file),
        "kept": str(done.kept) if done.kept else None,
        "pending": done.pending,
    }
    pending = "\n".join(done.pending)
    session.output.facts(
        data, [("restored", database), ("old ledger", done.kept), ("pending", pending)]
    )
    if done.pending:
        session.output.say("it was written by an older Rota; rota db upgrade brings it up to date")
