"""Whether the ledger takes changes. It is told by those that were tried: nobody has to write to
find out, until one was refused."""

from rota.storage.port import Store, Topic, Transaction

_PROBE = "rota:probe"


class Writes:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def refusal(self) -> str | None:
        """Why the last change that was tried could not be stored; None once one was."""
        return self._store.refusal

    async def try_again(self) -> None:
        """Store something, and leave nothing: who is told that nothing can be stored may send
        nothing any more from which to learn that it can. Raises what refuses it."""
        await self._store.transact(_probe)


def _probe(tx: Transaction) -> None:
    """A key older than all others, and it alone, comes and goes."""
    tx.keep_key(_PROBE, "", [], "")
    tx.forget_keys("0")
    tx.wake(Topic.POST)
