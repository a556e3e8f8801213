"""Empty places on both databases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.cell import Place
from bench.server import databases


@contextmanager
def directory_place(parent: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        yield Place(Path(folder))


def both_databases(parent: Path) -> Iterator[tuple[str, Place]]:
    """One after the other; each is removed before the next is made."""
    with directory_place(parent) as place:
        yield "sqlite", place
    with databases() as server, server.place() as place:
        yield "postgres", place


def several_places(parent: Path, count: int) -> Iterator[tuple[str, list[Place]]]:
    """The same, with `count` of each at once, so that they can be measured in turns."""
    with ExitStack() as opened:
        folders = [opened.enter_context(directory_place(parent)) for _ in range(count)]
        yield "sqlite", folders
    with databases() as server, ExitStack() as opened:
        yield "postgres", [opened.enter_context(server.place()) for _ in range(count)]
