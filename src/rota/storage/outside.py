"""The verbs about work from sources; the statements are in sql/sources.sql."""

from collections.abc import Sequence

from rota.model.sources import (
    Approval,
    Firing,
    InReview,
    LiveReference,
    ReviewLook,
    SourceClaim,
    SourceState,
    StateNote,
)
from rota.model.work import WorkItem
from rota.storage.primitives import Primitives
from rota.storage.rows import encode, item_of, reference_of, source_claim_of

# The keys that a note may have beside `requests`: a key becomes part of the statement.
_NOTABLE = frozenset(StateNote.__annotations__) - {"requests"}


class OutsideStatements(Primitives):
    # items

    def outside_item(self, source: str, source_ref: str) -> WorkItem | None:
        row = self._one("outside_item", source=source, source_ref=source_ref)
        return item_of(row) if row else None

    def outside_items(
        self, source: str, refs: Sequence[str]
    ) -> dict[str, tuple[WorkItem, str | None]]:
        rows = self._rows("outside_items", source=source, refs=encode(list(refs)))
        found = [(item_of(row[:-1]), row[-1]) for row in rows]
        return {item.source_ref or "": (item, hold_by) for item, hold_by in found}

    def live_references(self, source: str) -> list[LiveReference]:
        return [reference_of(row) for row in self._rows("live_references", source=source)]

    def hold_by(self, item_id: str) -> str | None:
        return self._value("hold_by", id=item_id)

    def uncount_attempt(self, item_id: str, epoch: int) -> None:
        self._do("uncount_attempt", id=item_id, epoch=epoch)

    # reviews

    def waiting_reviews(self, place: str, limit: int) -> list[InReview]:
        return [InReview(*row) for row in self._rows("waiting_reviews", place=place, limit=limit)]

    def note_looks(self, source: str, looks: Sequence[ReviewLook], now: str) -> None:
        self._do("forget_reviews", source=source)
        for one in looks:
            self._do(
                "put_review",
                item_id=one.item_id,
                source=source,
                address=one.address,
                found=one.found,
                now=now,
            )

    def review_look(self, item_id: str) -> ReviewLook | None:
        row = self._one("review_look", id=item_id)
        return ReviewLook(*row) if row else None

    # the fleet's own name

    def fleet(self) -> str | None:
        return self._value("fleet")

    def keep_fleet(self, fleet: str) -> None:
        self._do("insert_fleet", id=fleet)

    # claims on trackers

    def insert_source_claim(self, item: WorkItem, firing: Firing, now: str) -> bool:
        return bool(
            self._rows(
                "insert_source_claim",
                firing_id=firing.firing_id,
                source=item.source,
                source_ref=item.source_ref,
                id=item.id,
                epoch=item.epoch,
                codename=firing.codename,
                fleet=firing.fleet,
                nonce=firing.nonce,
                now=now,
            )
        )

    def find_source_claim(self, firing_id: str, now: str) -> SourceClaim | None:
        row = self._one("find_source_claim", firing_id=firing_id, now=now)
        return source_claim_of(row) if row else None

    def open_source_claims(self, source: str, now: str) -> list[SourceClaim]:
        return [
            source_claim_of(r) for r in self._rows("open_source_claims", source=source, now=now)
        ]

    def latest_source_claim(self, source: str, source_ref: str, now: str) -> SourceClaim | None:
        row = self._one("latest_source_claim", source=source, source_ref=source_ref, now=now)
        return source_claim_of(row) if row else None

    def enter_source_claim(self, firing_id: str, entry_id: int) -> bool:
        return bool(self._rows("enter_source_claim", firing_id=firing_id, entry_id=entry_id))

    def give_back_source_claim(self, firing_id: str, outcome: str, now: str) -> bool:
        told = {"firing_id": firing_id, "outcome": outcome, "now": now}
        return bool(self._rows("give_back_source_claim", **told))

    def end_source_claim(self, firing_id: str, outcome: str, now: str) -> bool:
        return bool(self._rows("end_source_claim", firing_id=firing_id, outcome=outcome, now=now))

    # approvals, deliveries, states

    def put_approval(self, approval: Approval) -> None:
        self._do(
            "put_approval",
            source=approval.source,
            source_ref=approval.source_ref,
            text_hash=approval.text_hash,
            approved_by=approval.approved_by,
            approved_at=approval.approved_at,
            now=approval.seen_at,
        )

    def latest_approval(self, source: str, source_ref: str) -> Approval | None:
        row = self._one("latest_approval", source=source, source_ref=source_ref)
        return Approval(*row) if row else None

    def keep_delivery(self, delivery_id: str, now: str) -> bool:
        return bool(self._rows("keep_delivery", id=delivery_id, now=now))

    def forget_deliveries(self, before: str) -> int:
        return self._changed("forget_deliveries", before=before)

    def note_source_state(self, source: str, note: StateNote) -> None:
        unknown = note.keys() - _NOTABLE - {"requests"}
        if unknown:
            raise ValueError(f"not a state of a source: {sorted(unknown)}")
        self._do("insert_source_state", source=source)
        assignments = "".join(f", {name} = :{name}" for name in note if name != "requests")
        self._text(
            f"UPDATE source_states SET requests = requests + :requests{assignments}"
            " WHERE source = :source",
            {"requests": 0, **note, "source": source},
        )

    def source_state(self, source: str) -> SourceState | None:
        row = self._one("source_state", source=source)
        return SourceState(*row) if row else None

    def source_states(self) -> list[SourceState]:
        return [SourceState(*row) for row in self._rows("source_states")]
