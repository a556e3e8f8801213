"""Parts: what is put into a file, and how it is removed again.

A part gets the file's text (None: there is no file) and the receipt's facts of the last time. It
returns the new text and the new facts. It never touches the disk.
"""

from pathlib import Path
from typing import Any, Protocol

Facts = dict[str, Any]


class Part(Protocol):
    @property
    def path(self) -> Path: ...

    def put(self, text: str | None, facts: Facts | None) -> tuple[str, Facts]:
        """Raises `Refused` where that would harm what others wrote."""

    def take(self, text: str, facts: Facts | None) -> str | None:
        """None: the file was ours alone, and is deleted. The same text: it contains nothing of
        ours, or somebody has edited it."""
