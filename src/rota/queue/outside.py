"""Work from sources: what a source may tell the ledger, and ask of it."""

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Unpack

from rota.model.claims import ClaimedItem
from rota.model.clock import IdFactory, to_text
from rota.model.errors import NotFound, Refused
from rota.model.sources import (
    Approval,
    Firing,
    InReview,
    Mirrored,
    Mirroring,
    ReviewLook,
    SourceClaim,
    SourceState,
    StateNote,
)
from rota.model.status import Status
from rota.model.work import NewItem, WorkItem, check_name, check_text
from rota.queue import claiming, collecting, hearing, intake, mirroring
from rota.queue.hearing import Heard
from rota.queue.intake import LONGEST
from rota.storage.port import Store, Transaction

WorkEnd = Literal["success", "failure", "partial"]

MAX_NAME = 200
MAX_TEXT = 2_000


class OutsideWork:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = store.clock
        self._ids = IdFactory(self._clock)

    def _now(self) -> str:
        return to_text(self._clock.now())

    # items

    async def take(
        self,
        item: NewItem,
        agent: str,
        lease_seconds: float,
        firing: Firing,
        *,
        cleared: bool = False,
        first_lease_seconds: float | None = None,
    ) -> ClaimedItem:
        """Claim an item in the ledger, before anything is written to its source.

        The live item is brought up to date, or a new one is made. It is then
        dispatched and started, and the claim is recorded as open at the source.
        `cleared` says that the source's own hold is over. Raises a `Refused`
        that names the obstacle, and has then changed nothing.
        """
        check_name(agent, "agent")
        _check_firing(firing)
        mirroring.reference(item)
        lease = claiming.lease(self._ids, lease_seconds, first_lease_seconds)
        wanted = collecting.Collection(intake.checked(item), agent, lease, firing, cleared)
        # The clock is read inside the body: the lease begins when the transaction runs.
        return await self._store.transact(
            lambda tx: collecting.collect(tx, wanted, self._ids, self._now())
        )

    async def kept_back(self, source: str, refs: Sequence[str], agent: str) -> dict[str, str]:
        """The references that the ledger would refuse the agent now, and why."""
        if not refs:
            return {}
        now = self._now()
        return await self._store.read(
            lambda tx: collecting.kept_back(tx, source, refs, agent, now), long=True
        )

    async def mirror(self, items: Sequence[Mirrored]) -> Mirroring:
        """Keep an item for everything that the source has, queued and with the source's holds.

        An item that already matches is not touched. An operator's hold stays.
        An item that has used up its attempts is not made again.
        """
        by_source, refused = mirroring.checked(items)
        done: Counter[str] = Counter()
        for source, shown in by_source.items():
            for batch in mirroring.batches(shown):
                done += await self._mirror(source, batch)
        return Mirroring(**done, refused=tuple(refused))

    async def _mirror(self, source: str, batch: Sequence[Mirrored]) -> Counter[str]:
        """Reads first: usually nothing has changed, and no write transaction is needed."""
        pending = await self._store.read(
            lambda tx: mirroring.outdated(tx, source, batch), long=True
        )
        if not pending:
            return Counter()
        return await self._store.transact(
            lambda tx: mirroring.update(tx, source, pending, self._ids, self._now())
        )

    async def gone(
        self, source: str, seen_refs: Iterable[str], among: Iterable[str] | None = None
    ) -> list[str]:
        """Cancel queued items that are not among `seen_refs`; returns their ids.

        `seen_refs` is everything that the source has, ready or not, from a
        complete listing. An item that is worked on, or that the source still
        shows as claimed by us, stays. With `among`, only those references can be
        cancelled: an item queued after the listing has not left the source.
        """
        seen = frozenset(seen_refs)
        asked = None if among is None else frozenset(among)

        def there(tx: Transaction) -> frozenset[str]:
            if asked is None:
                return seen
            return seen | ({one.source_ref for one in tx.live_references(source)} - asked)

        if not await self._store.read(
            lambda tx: mirroring.unseen(tx, source, there(tx)), long=True
        ):
            return []
        return await self._store.transact(
            lambda tx: mirroring.cancel(tx, source, there(tx), self._now())
        )

    async def standing(self, source: str, ref: str) -> WorkItem | None:
        """The item of a reference: the live one, else the latest."""
        return await self._store.read(lambda tx: tx.outside_item(source, ref))

    async def waiting(self, source: str) -> list[str]:
        """The references of the source's queued items."""
        live = await self._store.read(lambda tx: tx.live_references(source), long=True)
        return [one.source_ref for one in live if one.status is Status.QUEUED]

    # reviews

    async def in_review(self, place: str, limit: int) -> list[InReview]:
        """Items whose artifact address begins so (`github.com/owner/repo/pull`, in lower case), the
        one looked at longest ago first."""
        return await self._store.read(lambda tx: tx.waiting_reviews(place, limit), long=True)

    async def looked(self, source: str, looks: Sequence[ReviewLook]) -> None:
        """Store what was found there, for people to see."""
        now = self._now()
        await self._store.transact(lambda tx: tx.note_looks(source, looks, now))

    # the fleet's own name

    async def fleet(self) -> str:
        """The name of this database among fleets; processes that share it are one fleet."""
        known: str | None = await self._store.read(lambda tx: tx.fleet())
        return await self._store.transact(_named_fleet) if known is None else known

    # claims at the source

    async def give_back(self, firing_id: str, why: str) -> None:
        """The source did not grant the claim: nobody has worked, so it was no attempt."""
        check_text(why, "reason", LONGEST["reason"])
        await self._store.transact(lambda tx: collecting.give_back(tx, firing_id, why, self._now()))

    async def finished(
        self,
        firing_id: str,
        reason: str,
        outcome: WorkEnd = "success",
        *,
        notes: str | None = None,
        artifact_url: str | None = None,
        review: bool = False,
    ) -> bool:
        """Record an end that the source knows and the ledger does not, because the server died
        first. False when there is nothing to record: the end is recorded already, or the item was
        taken again."""
        check_text(reason, "reason", LONGEST["reason"])
        intake.check_optional(notes, "notes")
        end = collecting.LateEnd(firing_id, outcome, reason, notes, artifact_url, review)
        return await self._store.transact(
            lambda tx: collecting.finish(tx, end, self._ids, self._now())
        )

    async def entered(self, firing_id: str, entry_id: int) -> None:
        """Store the tracker's number of our claim, once it has answered. May be repeated."""

        def body(tx: Transaction) -> None:
            if not tx.enter_source_claim(firing_id, entry_id):
                known = _demand_claim(tx, firing_id, self._now())
                raise Refused(
                    f"the claim {firing_id} stands at its source as {known.entry_id}, not as"
                    f" {entry_id}; one of the two is not ours",
                    entry_id=known.entry_id,
                )

        await self._store.transact(body)

    async def ended(self, firing_id: str, outcome: str) -> bool:
        """The source no longer shows the claim; False when that was known already."""
        check_text(outcome, "outcome", MAX_NAME)
        now = self._now()

        def body(tx: Transaction) -> bool:
            if tx.end_source_claim(firing_id, outcome, now):
                return True
            _demand_claim(tx, firing_id, now)
            return False

        return await self._store.transact(body)

    async def open_claims(self, source: str) -> list[SourceClaim]:
        """Claims that the source still shows as ours; `live` says whether somebody works on it."""
        now = self._now()
        return await self._store.read(lambda tx: tx.open_source_claims(source, now))

    async def claim_of(self, source: str, ref: str) -> SourceClaim | None:
        """The latest open claim of a reference."""
        now = self._now()
        return await self._store.read(lambda tx: tx.latest_source_claim(source, ref, now))

    async def find_claim(self, firing_id: str) -> SourceClaim | None:
        """Open or ended."""
        now = self._now()
        return await self._store.read(lambda tx: tx.find_source_claim(firing_id, now))

    # what else is known of sources

    async def approve(
        self, source: str, ref: str, text_hash: str, approved_by: int, approved_at: str
    ) -> None:
        """A trusted person has agreed to this text. May be repeated."""
        check_text(source, "source", LONGEST["source"])
        check_text(ref, "source_ref", LONGEST["source_ref"])
        check_text(text_hash, "text_hash", MAX_NAME)
        moment = intake.check_moment(approved_at, "approved_at") or ""
        approval = Approval(source, ref, text_hash, approved_by, moment, self._now())
        await self._store.transact(lambda tx: tx.put_approval(approval))

    async def approval(self, source: str, ref: str) -> Approval | None:
        """The latest."""
        return await self._store.read(lambda tx: tx.latest_approval(source, ref))

    async def remember_delivery(self, delivery_id: str, heard: Heard | None = None) -> bool:
        """False when it was seen before (within thirty days); signals hear of it only once."""
        check_text(delivery_id, "delivery", MAX_NAME)
        now = self._now()

        def body(tx: Transaction) -> bool:
            if not tx.keep_delivery(delivery_id, now):
                return False
            if heard is not None:
                hearing.write_down(tx, heard, now)
            return True

        return await self._store.transact(body)

    async def note_state(self, source: str, **note: Unpack[StateNote]) -> None:
        """Update the state of a source: named fields are set, `requests` are added to the count."""
        check_text(source, "source", LONGEST["source"])
        for field in ("poll_error", "warning"):
            text = note.get(field)
            if isinstance(text, str):
                note[field] = text[:MAX_TEXT]
        await self._store.transact(lambda tx: tx.note_source_state(source, note))

    async def states(self) -> list[SourceState]:
        return await self._store.read(lambda tx: tx.source_states())


def _named_fleet(tx: Transaction) -> str:
    tx.keep_fleet(secrets.token_hex(6))
    name = tx.fleet()
    if name is None:
        raise AssertionError("a name that was kept is there")
    return name


def _check_firing(firing: Firing) -> None:
    for field in ("firing_id", "codename", "fleet", "nonce"):
        check_text(getattr(firing, field), field, MAX_NAME)


def _demand_claim(tx: Transaction, firing_id: str, now: str) -> SourceClaim:
    found = tx.find_source_claim(firing_id, now)
    if found is None:
        raise NotFound(f"no claim was made as {firing_id[:100]!r}", id=firing_id[:100])
    return found
