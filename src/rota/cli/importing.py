"""Imports a ledger from a file, and work from other tools. Opens the database."""

import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli.database import database_of
from rota.cli.desks import run
from rota.cli.destination import missing_file
from rota.cli.exporting import STANDARD, Progress
from rota.cli.output import column
from rota.cli.session import config_option, group
from rota.model.errors import Refused, RotaError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.exchange.importing import Imported
    from rota.exchange.incoming import Reading
    from rota.exchange.landing import Landed

STANDARD_INPUT = "standard input"

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

import_ = group(
    "import",
    "Import a ledger, or work from another tool.\n\nEach file is imported whole or not at all. It"
    " may be imported again: items that are already here stay as they are. What cannot be mapped"
    " is listed. These commands open the database themselves, also beside a running server.",
    "rota import beads .beads/issues.jsonl --project mill",
)

_file = click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
_dry_run = click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
_UNMAPPED = [column("record", whole=True), column("field"), column("why", folds=True)]


def _landing_options(function: F) -> F:
    for option in (
        _dry_run,
        click.option(
            "--closed", is_flag=True, help="Also import what is closed; by default it is left out."
        ),
        click.option("--project", help="Put all items into this project; it is made if missing."),
    ):
        function = option(function)
    return function


def _in_store(session: "Session", deed: Callable[[Any], Awaitable[T]], *, dry_run: bool) -> T:
    """Call `deed` with the opened store."""

    async def done(database: str) -> T:
        from rota.app import open_store

        async with open_store(database) as store:
            return await deed(store)

    with _database(session, dry_run) as database:
        return run(done(database))


@contextmanager
def _database(session: "Session", dry_run: bool) -> Iterator[str]:
    """A dry run uses a temporary database, so that not even an empty one is left behind."""
    database = database_of(session)
    if not (dry_run and missing_file(database)):
        yield database
        return
    with tempfile.TemporaryDirectory(prefix="rota-try-") as place:
        yield str(Path(place) / "rota.db")


@import_.member("rota", example="rota import rota ledger.jsonl --db postgresql://rota@db/rota")
@click.argument("path", metavar="FILE|-")
@_dry_run
def import_rota(session: "Session", /, path: str, dry_run: bool) -> None:
    """Import a file that `rota export` wrote.

    Events keep their numbers. The ledger must be empty, or hold nothing different under the same
    ids and numbers; records that are already there are skipped. A record that differs is a
    conflict: exit code 7, and nothing is imported.
    """
    from rota.exchange.importing import import_ledger
    from rota.exchange.reading import check

    with _given(path) as file:
        checked = check(file)  # before the database is opened, or created

        async def deed(store: Any) -> "Imported":
            told = Progress(session, "imported")
            return await import_ledger(store, checked, dry_run=dry_run, told=told)

        try:
            done = _in_store(session, deed, dry_run=dry_run)
        except Refused as refused:
            for one in refused.details.get("conflicts", ()):
                session.output.say(f"line {one['line']}: {one['record']}: {one['why']}")
            raise
    facts = [
        ("would import" if dry_run else "imported", sum(done.stored.values())),
        ("skipped", done.skipped),
    ]
    session.output.facts({**asdict(done), "dry_run": dry_run}, facts)


@contextmanager
def _given(path: str) -> Iterator[Path]:
    """Standard input is first kept in a file: it is read twice, to be sure that it is complete."""
    if path != STANDARD:
        yield Path(path)
        return
    with tempfile.NamedTemporaryFile(prefix="rota-import-") as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.flush()
        file = Path(kept.name)
        try:
            yield file
        except RotaError as error:  # which names a file that the user does not know
            for name in (str(file), file.name):
                error.message = error.message.replace(name, STANDARD_INPUT)
            if "file" in error.details:
                error.details = {**error.details, "file": STANDARD_INPUT}
            raise


@import_.member("beads", example="rota import beads .beads/issues.jsonl --project mill")
@_file
@_landing_options
def import_beads(session: "Session", /, path: Path, **how: Any) -> None:
    """Import the issues of beads from its JSONL file."""
    from rota.exchange.beads import read

    _land(session, read(path), **how)


@import_.member("taskmaster", example="rota import taskmaster .taskmaster/tasks/tasks.json")
@_file
@_landing_options
def import_taskmaster(session: "Session", /, path: Path, **how: Any) -> None:
    """Import the tasks of Task Master, from all tags.

    Each subtask becomes an item of its own.
    """
    from rota.exchange.taskmaster import read

    _land(session, read(path), **how)


@import_.member("backlog", example="rota import backlog ./backlog --project mill")
@click.argument("path", metavar="DIR", type=click.Path(path_type=Path))
@_landing_options
def import_backlog(session: "Session", /, path: Path, **how: Any) -> None:
    """Import the tasks of a Backlog.md folder.

    Drafts and the archive are left out.
    """
    from rota.exchange.backlog import read

    _land(session, read(path), **how)


@import_.member("workqueue", example="rota import workqueue work-queue.sqlite")
@_file
@_landing_options
def import_workqueue(session: "Session", /, path: Path, **how: Any) -> None:
    """Import an older work queue from its SQLite file.

    The file has the tables projects, work_items and dispatch_log.
    """
    from rota.exchange.workqueue import read

    _land(session, read(path), **how)


@import_.member("github", example="rota import github octocat/hello --project hello --dry-run")
@click.argument("repo", metavar="OWNER/REPO")
@click.option("--trusted", is_flag=True, help="Do not hold items from a public repository.")
@_landing_options
@config_option
def import_github(session: "Session", /, repo: str, trusted: bool, **how: Any) -> None:
    """Import the open issues of a repository as plain items.

    This is done once. To work on issues with claims that everybody can see, configure the
    repository as a source instead. Items from a public repository are held, so that a person reads
    them first, unless --trusted is given.
    """
    from rota.app import find_source, source_context
    from rota.exchange.issues import read
    from rota.sources.assembly import make_tracker

    source = find_source(repo, session.settings)

    async def issues() -> "tuple[Reading, str]":
        tracker = make_tracker(source, source_context(session.settings))
        try:
            return await read(tracker, trusted=trusted), tracker.source
        finally:
            await tracker.aclose()

    reading, name = run(issues())
    _land(session, reading, source=name, **how)


@import_.member("herdctl", example="rota import herdctl .herdctl/state.yaml")
@_file
@_dry_run
def import_herdctl(session: "Session", /, path: Path, dry_run: bool) -> None:
    """Import the state of herdctl's schedules.

    Does the same as `rota schedule import`. herdctl keeps no items: its work comes from trackers.
    `rota up --config herdctl.yaml` reads its configuration as it is.
    """
    from rota.cli.herdctl import take_over

    take_over(session, path, dry_run=dry_run)


def _land(
    session: "Session",
    reading: "Reading",
    *,
    project: str | None,
    closed: bool,
    dry_run: bool,
    source: str | None = None,
) -> None:
    from rota.exchange.landing import Wish, land

    wish = Wish(session.actor_name, project, closed=closed, dry_run=dry_run, source=source)
    landed = _in_store(session, lambda store: land(store, reading, wish), dry_run=dry_run)
    if session.as_json:
        session.output.document(_document(reading, landed, dry_run))
        return
    session.output.table([asdict(one) for one in landed.unmapped], _UNMAPPED)
    session.output.say(_summary(landed, dry_run))


def _document(reading: "Reading", landed: "Landed", dry_run: bool) -> dict[str, Any]:
    created = dict.fromkeys(landed.created) if dry_run else landed.created
    return {
        "tool": reading.tool,
        "dry_run": dry_run,
        **asdict(landed),
        "created": created,
        "agents": sorted(landed.agents),
    }


def _summary(landed: "Landed", dry_run: bool) -> str:
    parts = [
        f"{len(landed.created)} {'would be created' if dry_run else 'created'}",
        f"{len(landed.unchanged)} here already",
    ]
    if landed.changed:
        parts.append(f"{len(landed.changed)} changed there since, and left as they are here")
    if landed.closed:
        parts.append(f"{len(landed.closed)} left out because they are over (--closed brings them)")
    lines = ["; ".join(parts)]
    if landed.agents:
        lines.append(
            f"items wait by name for {', '.join(sorted(landed.agents))};"
            " `rota edit ID --agent none` frees one"
        )
    return "\n".join(lines)
