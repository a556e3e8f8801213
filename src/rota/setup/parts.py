"""What is put into a file, and how it is taken away again.

A part is given the file's text (None: there is no file) and what the receipt knows of the last
time, and answers with the new text and what the receipt has to know. It never touches the disk.
"""

from pathlib import Path
from typing import Any, Protocol

Facts = dict[str, Any]


class Part(Protocol):
    @property
    def path(self) -> Path: ...

    def put(self, text: str | None, facts: Facts | None) -> tuple[str, Facts]:
        """`Refused` where that would harm what others wrote."""

    def take(self, text: str, facts: Facts | None) -> str | None:
        """None: the file was ours alone, and goes. The same text: there is nothing of ours in it,
        or somebody has made it his own."""
