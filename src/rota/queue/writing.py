"""Whether the ledger accepts changes. This is learned from ordinary writes; a probe is needed only
after one was refused."""

from rota.storage.port import Store, Topic, Transaction

_PROBE = "rota:probe"


class Writes:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def refusal(self) -> str | None:
        """Why the last change could not be stored; None once a change was stored."""
        return self._store.refusal

    async def try_again(self) -> None:
        """Write something and delete it again; raises the error that refuses it. Callers who know
        that writing fails may stop writing, so recovery would otherwise go unnoticed."""
        await self._store.transact(_probe)


def _probe(tx: Transaction) -> None:
    """Adds a key that is older than all others, and deletes only that key."""
    tx.keep_key(_PROBE, "", [], "")
    tx.forget_keys("0")
    tx.wake(Topic.POST)
