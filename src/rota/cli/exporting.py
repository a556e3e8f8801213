"""The whole ledger as lines of JSON. Opens the database, also beside a running server."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from rota.cli.database import database_of, demand_ledger
from rota.cli.desks import run
from rota.cli.session import command
from rota.cli.targets import demand_target

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.exchange.exporting import Exported

STANDARD = "-"
_PATIENCE = 2.0


class Progress:
    """Prints a line now and then; none for what is done in a moment."""

    def __init__(self, session: "Session", what: str) -> None:
        self._say, self._what = session.output.say, what
        self._next = time.monotonic() + _PATIENCE

    def __call__(self, count: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PATIENCE
            self._say(f"{self._what} {count:,} records …")


@command("export", example="rota export --output ledger.jsonl")
@click.option(
    "--output",
    default=STANDARD,
    show_default=True,
    help="The file to write; - is standard output.",
)
@click.option("--project", help="Only this project, by name or id.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def export(session: "Session", /, output: str, project: str | None, overwrite: bool) -> None:
    """Export the whole ledger as lines of JSON.

    The export shows the ledger at one moment; others can go on working. It contains no API tokens,
    no claim tokens and no logs of runs. The file appears under its name when it is complete, and
    only its owner can read it. --json requires --output; standard output then holds one document
    about the file.
    """
    if output == STANDARD and session.as_json:
        raise click.UsageError(
            "the export itself is lines of JSON, and --json promises one document; leave --json"
            " out, or name a file with --output"
        )
    database = database_of(session)
    demand_ledger(database)
    if output == STANDARD:
        done = run(_export(session, database, sys.stdout.buffer, project))
        sys.stdout.buffer.flush()
        session.output.say(f"{done.records} records, sha256 {done.sha256}")
        return
    done = _to_file(session, database, Path(output), project, overwrite)
    data = {"path": output, "records": done.records, "sha256": done.sha256, "counts": done.counts}
    facts = [("written", output), ("records", done.records), ("sha256", done.sha256)]
    session.output.facts(data, facts)


def _to_file(
    session: "Session", database: str, target: Path, project: str | None, overwrite: bool
) -> "Exported":
    from rota.exchange.exporting import whole_file

    demand_target(session.settings, target, overwrite)
    with whole_file(target) as out:
        return run(_export(session, database, out, project))


async def _export(
    session: "Session", database: str, out: BinaryIO, project: str | None
) -> "Exported":
    from rota.app import open_store
    from rota.exchange.exporting import export as export_ledger

    async with open_store(database) as store:
        told = Progress(session, "exported")
        return await export_ledger(store, out, project=project, told=told)
