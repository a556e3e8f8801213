"""The outbox, for people to look at."""

from collections.abc import Sequence

from rota.model.clock import to_text
from rota.model.errors import NotFound
from rota.model.runs import FIRST_POST, OutboxEntry, PostPlace
from rota.model.work import MAX_PAGE
from rota.storage.port import Store, Topic, Transaction


class Postbox:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = store.clock

    async def list(
        self, *, buried: bool = False, limit: int = 50, after: PostPlace = FIRST_POST
    ) -> list[OutboxEntry]:
        """Waiting entries by the time of their next try, or buried ones, oldest first; after a
        place."""
        most = max(1, min(limit, MAX_PAGE))
        return await self._store.read(
            lambda tx: tx.list_post(buried=buried, limit=most, after=after)
        )

    async def awaited(self, items: Sequence[str]) -> set[str]:
        """Those of the items that have an undelivered report."""
        if not items:
            return set()
        return await self._store.read(lambda tx: tx.pending_subjects(items))

    async def retry(self, entry_id: str) -> None:
        """Let a buried entry be tried again, from now on."""
        now = to_text(self._clock.now())

        def body(tx: Transaction) -> bool:
            tx.wake(Topic.POST)
            return tx.revive(entry_id, now)

        if not await self._store.transact(body):
            raise NotFound(
                f"nothing with the id {entry_id[:100]!r} was given up; what was is in `rota outbox"
                " list --buried`",
                id=entry_id[:100],
            )
