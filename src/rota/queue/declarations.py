"""What the files of all servers on a ledger declare, of one kind.

Only what a file has had, and lets go, is taken away, and only once no server has it in its file:
one with another file, or without one, leaves the rest alone.
"""

from collections.abc import Collection
from datetime import timedelta

from rota.model.clock import from_text, to_text
from rota.storage.declaration_port import DeclarationKind
from rota.storage.port import Transaction

# Who was not seen for so long is not waited for. It may be down for maintenance; or it was taken
# away for good, and what only its file had would stay for ever.
AWAITED = timedelta(days=1)


class Declarations:
    """As one transaction finds them, and nobody changes them before it ends. `home` is who asks:
    the state directory of a server."""

    def __init__(self, tx: Transaction, kind: DeclarationKind, home: str, now: str) -> None:
        tx.lock_declarations()
        self._tx = tx
        self._kind = kind
        self._home = home
        self._rows = tx.declarations(kind)
        since = to_text(from_text(now) - AWAITED)
        self._here = {home_of(node.place) for node in tx.nodes_since(since)} | {home}

    def is_known(self, name: str) -> bool:
        """Some file has had it, and nobody has taken it away since."""
        return any(row.name == name for row in self._rows)

    def is_shared(self, name: str) -> bool:
        """Another server has it in its file."""
        return bool(self._wanting(name) - {self._home})

    def declare(self, names: Collection[str]) -> None:
        """All that our file has."""
        self._tx.declare(self._kind, self._home, names)
        self._rows = self._tx.declarations(self._kind)

    def abandoned(self) -> list[str]:
        """What a file has let go, and no server's has any more."""
        let_go = {row.name for row in self._rows if not row.wanted}
        return sorted(name for name in let_go if not self._wanting(name))

    def forget(self, name: str) -> None:
        self._tx.forget_declaration(self._kind, name)

    def _wanting(self, name: str) -> set[str]:
        return {row.home for row in self._rows if row.name == name and row.wanted} & self._here


def may_go(tx: Transaction, kind: DeclarationKind, home: str) -> bool:
    """Whether there may be anything to let go, or to take away: a look that keeps nobody
    waiting."""
    return any(row.home == home or not row.wanted for row in tx.declarations(kind))


def home_of(place: str) -> str:
    """A container has another host name each time, and what is behind the # is the same."""
    return place.rpartition("#")[2]
