"""What may be asked of a database about declarations in the files of servers."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class DeclarationKind(StrEnum):
    SIGNAL = "signal"
    NOTIFY = "notify"


@dataclass(frozen=True, slots=True)
class Declaration:
    """Something that a server's file contains, or has contained."""

    name: str
    home: str  # which server's file; see the glossary
    wanted: bool  # False: this file no longer contains it; another file may


class DeclarationVerbs(Protocol):
    """Part of `Transaction`."""

    def lock_declarations(self) -> None:
        """No other transaction that takes this lock goes on before this transaction ends."""

    def declarations(self, kind: DeclarationKind) -> list[Declaration]:
        """Of all homes, by name."""

    def declare(self, kind: DeclarationKind, home: str, names: Collection[str]) -> None:
        """Record everything of one kind that the file of this home contains. Declarations that the
        file no longer contains become unwanted for this home."""

    def forget_declaration(self, kind: DeclarationKind, name: str) -> None:
        """For all homes."""
