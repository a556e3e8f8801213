"""Exports the whole ledger as lines of JSON, from one snapshot, page by page."""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from rota import __version__
from rota.exchange.records import END, HEADER, VERSION, encode_line, line_of
from rota.files import replacing
from rota.model.clock import to_text
from rota.model.errors import NotFound, StorageUnavailable
from rota.model.work import Project
from rota.storage.port import Store, Transaction
from rota.storage.shapes import SHAPES, Shape

FORMAT = "rota-export"
PAGE = 200  # an item may have a megabyte

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Exported:
    records: int
    sha256: str
    counts: dict[str, int]


@dataclass(slots=True)
class _Sheet:
    """The output so far."""

    out: BinaryIO
    told: Told
    counts: Counter[str] = field(default_factory=Counter)
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, shape: Shape, line: bytes) -> None:
        self.out.write(line)
        self.digest.update(line)
        self.counts[shape.kind] += 1
        if self.counts.total() % 1_000 == 0:
            self.told(self.counts.total())

    def exported(self) -> Exported:
        return Exported(self.counts.total(), self.digest.hexdigest(), dict(self.counts))


async def export(
    store: Store,
    out: BinaryIO,
    *,
    project: str | None = None,
    told: Told = lambda _: None,
) -> Exported:
    """Write everything, or what belongs to one project (its id or name)."""
    now, begun = to_text(store.clock.now()), False

    def body(tx: Transaction) -> Exported:
        nonlocal begun
        if begun:  # the database connection was lost, and the body runs again
            _begin_again(out)
        begun = True
        chosen = find_project(tx, project) if project is not None else None
        out.write(_header(now, chosen))
        return _write(tx, _Sheet(out, told), chosen)

    return await store.read(body, long=True)


def _begin_again(out: BinaryIO) -> None:
    try:
        out.seek(0)
        out.truncate()
    except OSError:
        raise StorageUnavailable(
            "the connection to the database was lost in the midst of the export; what was written"
            " has no end and will not be imported; try again"
        ) from None


def find_project(tx: Transaction, wanted: str) -> Project:
    for project in all_projects(tx):
        if wanted in (project.id, project.name):
            return project
    raise NotFound(f"there is no project {wanted[:100]!r}; see `rota project list`")


def all_projects(tx: Transaction) -> Iterator[Project]:
    after: str | None = None
    while page := tx.list_projects(after, PAGE):
        yield from page
        after = page[-1].id


def _header(now: str, project: Project | None) -> bytes:
    return encode_line(
        {
            "kind": HEADER,
            "version": VERSION,
            "format": FORMAT,
            "rota": __version__,
            "exported_at": now,
            "project": project.id if project else None,
        }
    )


def _write(tx: Transaction, sheet: _Sheet, project: Project | None) -> Exported:
    for shape in SHAPES:
        if project is None or shape.within is not None:
            for row in rows(tx, shape, project.id if project else None):
                sheet.add(shape, line_of(shape, row))
    exported = sheet.exported()
    sheet.out.write(
        encode_line(
            {
                "kind": END,
                "version": VERSION,
                "records": exported.records,
                "sha256": exported.sha256,
                "counts": exported.counts,
            }
        )
    )
    return exported


def rows(
    tx: Transaction, shape: Shape, project_id: str | None = None
) -> Iterator[tuple[object, ...]]:
    after = None
    while page := tx.export_page(shape, after, PAGE, project_id):
        yield from page
        after = shape.key_of(page[-1])


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is completely on disk; readable by its owner only."""
    try:
        with replacing(target) as partial, partial.open("wb") as out:
            yield out
    except OSError as error:
        raise StorageUnavailable(f"cannot write {target}: {error.strerror}") from error
