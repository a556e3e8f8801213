"""What the files of all servers on a ledger declare, of one kind.

A declaration is removed only when a file that had it lets it go and no other server has it in its
file. A server with another file, or without one, removes nothing else.
"""

from collections.abc import Collection
from datetime import timedelta

from rota.model.clock import from_text, to_text
from rota.storage.declaration_port import DeclarationKind
from rota.storage.port import Transaction

# The declarations of a server that was not seen for this long no longer count. A shorter absence
# may be maintenance; after a longer one, they would otherwise stay for ever.
AWAITED = timedelta(days=1)


class Declarations:
    """The declarations as one transaction reads them, locked until it ends. `home` is the home of
    the asking server."""

    def __init__(self, tx: Transaction, kind: DeclarationKind, home: str, now: str) -> None:
        tx.lock_declarations()
        self._tx = tx
        self._kind = kind
        self._home = home
        self._rows = tx.declarations(kind)
        since = to_text(from_text(now) - AWAITED)
        self._here = {home_of(node.place) for node in tx.nodes_since(since)} | {home}

    def is_known(self, name: str) -> bool:
        """Whether some file has had it and it was not removed since."""
        return any(row.name == name for row in self._rows)

    def is_shared(self, name: str) -> bool:
        """Whether another server has it in its file."""
        return bool(self._wanting(name) - {self._home})

    def declare(self, names: Collection[str]) -> None:
        """Declare everything that our file contains."""
        self._tx.declare(self._kind, self._home, names)
        self._rows = self._tx.declarations(self._kind)

    def abandoned(self) -> list[str]:
        """Names that a file has let go and that no server's file contains any more."""
        let_go = {row.name for row in self._rows if not row.wanted}
        return sorted(name for name in let_go if not self._wanting(name))

    def forget(self, name: str) -> None:
        self._tx.forget_declaration(self._kind, name)

    def _wanting(self, name: str) -> set[str]:
        return {row.home for row in self._rows if row.name == name and row.wanted} & self._here


def may_go(tx: Transaction, kind: DeclarationKind, home: str) -> bool:
    """Whether there may be something to withdraw or remove. Reads without taking the lock."""
    return any(row.home == home or not row.wanted for row in tx.declarations(kind))


def home_of(place: str) -> str:
    """The part after the #. It stays the same when a container gets a new host name."""
    return place.rpartition("#")[2]
