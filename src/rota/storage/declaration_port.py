"""What may be asked of a database about what the files of servers declare."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class DeclarationKind(StrEnum):
    SIGNAL = "signal"
    NOTIFY = "notify"


@dataclass(frozen=True, slots=True)
class Declaration:
    """Something that a file has, or has had."""

    name: str
    home: str  # whose file: the server's state directory
    wanted: bool  # False: this file has it no more, and another's may


class DeclarationVerbs(Protocol):
    """Part of `Transaction`."""

    def lock_declarations(self) -> None:
        """Nobody else declares or forgets anything before this transaction ends."""

    def declarations(self, kind: DeclarationKind) -> list[Declaration]:
        """Of all homes, by name."""

    def declare(self, kind: DeclarationKind, home: str, names: Collection[str]) -> None:
        """All that the file of this home has of a kind. What it had before, and has no more, is
        not wanted there from now on."""

    def forget_declaration(self, kind: DeclarationKind, name: str) -> None:
        """Whoever declared it."""
