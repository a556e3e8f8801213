"""Looking after the database itself: these open it, also beside a running server."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.ending import NEGATIVE
from rota.cli.session import group
from rota.model.errors import NotFound, StorageUnavailable

if TYPE_CHECKING:
    from rota.cli.session import Session

db = group("db", "Look after the database.", "rota db status")


def existing_file(database: str) -> Path | None:
    """The SQLite file, when it is one and is there; looking must not create it."""
    from rota.app import sqlite_path

    if "://" in database and not database.startswith("sqlite://"):
        return None
    path = sqlite_path(database)
    if not path.exists():
        raise NotFound(
            f"there is no database {path} yet; rota db upgrade makes it, and so does rota up"
        )
    return path


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
    """Say which migrations the database has had; exit code 1 when it wants any."""
    database = session.settings.database
    existing_file(database)
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
    """Bring the database to the present schema; an empty one is filled."""
    applied = upgrade_now(session.settings.database)
    session.output.facts({"applied": applied}, [("applied", "\n".join(applied))])
    if not applied:
        session.output.say("it is current")


def upgrade_now(database: str) -> list[str]:
    from rota.app import make_store

    return asyncio.run(make_store(database).upgrade())


@db.member("backup", example="rota db backup rota-2026-05-01.db")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
def backup(session: "Session", /, target: Path, overwrite: bool) -> None:
    """Write a consistent copy while others go on working."""
    existing_file(session.settings.database)
    if target.exists() and not overwrite:
        raise click.UsageError(f"{target} exists already; --overwrite replaces it")
    if not target.absolute().parent.is_dir():
        raise StorageUnavailable(f"cannot write {target}: there is no such directory")
    asyncio.run(_backup(session.settings.database, target))
    size = target.stat().st_size
    session.output.facts({"path": str(target), "bytes": size}, [("written", target)])


async def _backup(database: str, target: Path) -> None:
    from rota.app import open_store

    async with open_store(database) as store:
        await store.backup(target)
