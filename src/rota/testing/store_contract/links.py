"""Items that wait for others."""

import itertools

from rota.model.status import Status
from rota.storage.port import Store, Transaction
from rota.testing.store_contract.deeds import NOW, completed, found, given, item, moved


class LinksContract:
    async def test_add_blockers_counts_only_those_still_open(self, store: Store) -> None:
        done, waiting, failed, dependent = await given(store, item(), item(), item(), item())
        await completed(store, done)
        await moved(store, failed, Status.FAILED)
        asked = [done, waiting, "ghost", failed]
        missing = await store.transact(lambda tx: tx.add_blockers(dependent, asked))
        assert missing == ["ghost"]
        assert (await found(store, dependent)).open_blockers == 2
        assert (await found(store, waiting)).dependents == 1
        links = await store.read(lambda tx: tx.blockers_of(dependent))
        assert {(link.blocker_id, link.blocker_status) for link in links} == {
            (done, Status.COMPLETED),
            (waiting, Status.QUEUED),
            (failed, Status.FAILED),
        }
        (back,) = await store.read(lambda tx: tx.blocked_by(waiting))
        assert (back.item_id, back.blocker_id) == (dependent, waiting)

    async def test_unblock_dependents_returns_those_that_wait_for_nothing_more(
        self, store: Store
    ) -> None:
        first, second, both, single = await given(store, item(), item(), item(), item())

        def link(tx: Transaction) -> None:
            tx.add_blockers(both, [first, second])
            tx.add_blockers(single, [first])

        await store.transact(link)
        free = await store.transact(lambda tx: tx.unblock_dependents(first, NOW))
        assert [row.id for row in free] == [single]
        assert (await found(store, both)).open_blockers == 1
        free = await store.transact(lambda tx: tx.unblock_dependents(second, NOW))
        assert [row.id for row in free] == [both]

    async def test_unblock_dependents_leaves_what_waits_for_others(self, store: Store) -> None:
        done, waiting, dependent = await given(store, item(), item(), item())
        await store.transact(lambda tx: tx.add_blockers(dependent, [waiting]))
        assert await store.transact(lambda tx: tx.unblock_dependents(done, NOW)) == []
        assert (await found(store, dependent)).open_blockers == 1

    async def test_clear_blockers_takes_all_links_off(self, store: Store) -> None:
        first, second, dependent = await given(store, item(), item(), item())
        await store.transact(lambda tx: tx.add_blockers(dependent, [first, second]))
        await store.transact(lambda tx: tx.clear_blockers(dependent))
        assert (await found(store, dependent)).open_blockers == 0
        assert (await found(store, first)).dependents == 0
        assert await store.read(lambda tx: tx.blockers_of(dependent)) == []
        assert await store.read(lambda tx: tx.blocked_by(first)) == []

    async def test_reaches_follows_links_to_any_depth(self, store: Store) -> None:
        chain = await given(store, *(item() for _ in range(6)))

        def link(tx: Transaction) -> None:
            for dependent, blocker in itertools.pairwise(chain):
                tx.add_blockers(dependent, [blocker])

        await store.transact(link)
        assert await store.read(lambda tx: tx.reaches(chain[0], chain[-1])) is True
        assert await store.read(lambda tx: tx.reaches(chain[-1], chain[0])) is False
        assert await store.read(lambda tx: tx.reaches(chain[0], chain[0])) is True
