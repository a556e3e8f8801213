"""Reads an export twice: first to check that it is complete, then to read its records."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rota.exchange.exporting import FORMAT
from rota.exchange.records import (
    END,
    HEADER,
    LONGEST_LINE,
    Fault,
    parse,
    row_of,
    shape_of,
    unreadable,
)
from rota.model.errors import InvalidInput
from rota.storage.primitives import Row
from rota.storage.shapes import SHAPES, Shape

_ORDER = {shape.kind: place for place, shape in enumerate(SHAPES)}
_LAST_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that was read to its end and matches its last line."""

    path: Path
    records: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    number: int  # of its line
    shape: Shape
    row: Row
    line: bytes


def lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise unreadable(path, number, f"longer than {LONGEST_LINE} bytes")
        yield line


def open_file(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise InvalidInput(f"{path} is a directory; name the file")
        file = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    if not file.seekable():
        file.close()
        raise InvalidInput(
            f"{path} can be read only once, and an export is read twice; give it as standard input:"
            " rota import rota -"
        )
    return file


def check(path: Path) -> Checked:
    """Raises `InvalidInput` for anything but a complete export."""
    with open_file(path) as file:
        _demand_header(path, file.readline(LONGEST_LINE + 1))
        end = _end(path, file)
        file.seek(0)
        digest, records = _digest(lines(file, path))
    if (end.get("records"), end.get("sha256")) != (records, digest):
        raise InvalidInput(
            f"{path} was changed or damaged: its last line speaks of {str(end.get('records'))[:20]}"
            f" records with the check sum {str(end.get('sha256'))[:12]}…, it holds {records} with"
            f" {digest[:12]}…; export again",
            file=str(path),
        )
    return Checked(path, records, digest)


def _digest(given: Iterator[bytes]) -> tuple[str, int]:
    """Over the records, without the first and the last line."""
    digest, total, held = hashlib.sha256(), 0, b""
    for line in given:
        if total > 1:
            digest.update(held)
        held, total = line, total + 1
    return digest.hexdigest(), max(total - 2, 0)


def _demand_header(path: Path, line: bytes) -> None:
    if not line:
        raise InvalidInput(f"{path} is empty", file=str(path))
    try:
        header = parse(line)
    except Fault as fault:
        raise unreadable(path, 1, fault) from None
    if header["kind"] != HEADER or header.get("format") != FORMAT:
        raise unreadable(
            path, 1, "this is no export of Rota; for files of other tools see `rota import --help`"
        )


def _end(path: Path, file: BinaryIO) -> dict[str, Any]:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_LINE))
    tail = file.read()
    last = tail.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        record = parse(last) if tail.endswith(b"\n") else {}
    except Fault:
        record = {}
    if record.get("kind") != END:
        raise InvalidInput(
            f"{path} is cut off: its last line is not the end of an export; nothing was imported,"
            " copy or export it again",
            file=str(path),
        )
    return record


def entries(checked: Checked) -> Iterator[Entry]:
    """The records in their order; records out of order, or duplicates, are refused."""
    with open_file(checked.path) as file:
        digest, order = hashlib.sha256(), _Order()
        number = 1
        for number, line in enumerate(lines(file, checked.path), start=1):
            if number == 1 or number == checked.records + 2:
                continue
            digest.update(line)
            try:
                entry = _entry(number, line)
                order.demand(entry)
            except Fault as fault:
                raise unreadable(checked.path, number, fault) from None
            yield entry
        if digest.hexdigest() != checked.sha256 or number != checked.records + 2:
            raise InvalidInput(f"{checked.path} was changed while it was read; try again")


def _entry(number: int, line: bytes) -> Entry:
    record = parse(line)
    shape = shape_of(record)
    return Entry(number, shape, row_of(shape, record), line)


class _Order:
    """An export is sorted by kind and key, so that a comparison with the record before finds
    duplicates. Some kinds once had another key: their records may be in either order throughout."""

    def __init__(self) -> None:
        self._kind = -1
        self._last: dict[tuple[str, ...], Row] = {}  # by each key that they are still sorted by

    def demand(self, entry: Entry) -> None:
        shape, kind = entry.shape, _ORDER[entry.shape.kind]
        if kind > self._kind:
            keys = filter(None, (shape.key, shape.older_key))
            self._kind, self._last = kind, dict.fromkeys(keys, ())
        before = self._last if kind == self._kind else {}
        here = {names: shape.values(entry.row, names) for names in before}
        self._last = {names: at for names, at in here.items() if at > before[names]}
        if not self._last:
            fault = "comes twice" if here and here == before else "is out of order"
            raise Fault(f"{shape.kind} {words(shape.key_of(entry.row))} {fault}")


def words(key: Row) -> str:
    return " ".join(str(part)[:100] for part in key)
