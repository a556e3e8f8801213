"""Empty places on both databases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.cell import Place
from bench.server import databases


@contextmanager
def directory_place(parent: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        yield Place(Path(folder))


def both_databases(parent: Path) -> Iterator[tuple[str, Place]]:
    """One after the other; each is gone when the next is asked for."""
    with directory_place(parent) as place:
        yield "sqlite", place
    with databases() as server, server.place() as place:
        yield "postgres", place
