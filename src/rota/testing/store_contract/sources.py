"""The contract of `rota.storage.port` about work from outside; a part of `StoreContract`."""

from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import Claim
from rota.model.clock import IdFactory, SystemClock
from rota.model.errors import Refused, StorageError
from rota.model.sources import Approval, Firing, LiveReference, SourceClaim, SourceState
from rota.model.status import OUTCOME_OF, Status
from rota.model.work import NewItem, Project, WorkItem
from rota.storage.port import Edit, Move, Store, Take, Transaction
from rota.testing.clock import ManualClock

_ids = IdFactory(SystemClock())
_clock = ManualClock()
NOW, SOON, LATER = _clock.text(), _clock.text(60), _clock.text(3600)
REPO = "github:owner/repo"


def firing(firing_id: str = "20260501-120000-0001") -> Firing:
    return Firing(firing_id, "lucius", "home", "nonce-1")


async def stored(store: Store, ref: str, **values: Any) -> WorkItem:
    item_id = _ids.new()
    item = NewItem(
        **{
            "type": "issue",
            "description": f"issue {ref}",
            "source": REPO,
            "source_ref": ref,
            **values,
        }
    )
    await store.transact(lambda tx: tx.insert_items([(item_id, item)], None, NOW))
    return await row_of(store, item_id)


async def row_of(store: Store, item_id: str) -> WorkItem:
    row = await store.read(lambda tx: tx.get_item(item_id))
    assert row is not None
    return row


async def moved(store: Store, item: WorkItem, target: Status, **values: Any) -> WorkItem | None:
    move = Move(
        item.id,
        **{
            "sources": (item.status,),
            "target": target,
            "now": NOW,
            "reason": "test",
            "outcome": OUTCOME_OF.get(target),
            "force": True,
            **values,
        },
    )
    return await store.transact(lambda tx: tx.move(move))


async def claimed(store: Store, item: WorkItem, firing_id: str, number: int = 1) -> WorkItem:
    """Started with a lease until SOON, and recorded as open at its source."""

    def body(tx: Transaction) -> WorkItem:
        move = Move(
            item.id, (Status.QUEUED,), Status.IN_PROGRESS, NOW, "test", agent="ada", slot=0,
            new_epoch=True,
        )  # fmt: skip
        started = tx.move(move)
        assert started is not None
        tx.lease(Claim(item.id, started.epoch, f"t{number}", "ada", 0, NOW, 60, SOON))
        assert tx.insert_source_claim(started, firing(firing_id), NOW)
        return started

    return await store.transact(body)


async def claim_of(store: Store, firing_id: str, now: str = NOW) -> SourceClaim:
    found = await store.read(lambda tx: tx.find_source_claim(firing_id, now))
    assert found is not None
    return found


class OutsideItemsContract:
    async def test_of_one_reference_one_item_is_live(self, store: Store) -> None:
        first = await stored(store, "42")
        await stored(store, "42", source="github:owner/other")
        with pytest.raises(Refused, match="source reference"):
            await stored(store, "42")
        await moved(store, first, Status.COMPLETED)
        second = await stored(store, "42")
        await moved(store, second, Status.FAILED)
        third = await stored(store, "42")
        assert len({first.id, second.id, third.id}) == 3

    async def test_move_cannot_bring_back_what_has_a_live_twin(self, store: Store) -> None:
        old = await stored(store, "42")
        failed = await moved(store, old, Status.FAILED)
        assert failed is not None
        await stored(store, "42")
        with pytest.raises(Refused, match="source reference"):
            await moved(store, failed, Status.QUEUED)
        assert await row_of(store, old.id) == failed

    async def test_outside_item_is_the_live_one_else_the_latest(self, store: Store) -> None:
        async def standing() -> WorkItem | None:
            return await store.read(lambda tx: tx.outside_item(REPO, "42"))

        assert await standing() is None
        first = await stored(store, "42")
        await stored(store, "43")
        await stored(store, "42", source="github:owner/other")
        assert await standing() == first
        ended = await moved(store, first, Status.CANCELLED)
        assert await standing() == ended
        second = await stored(store, "42")
        assert await standing() == second
        await moved(store, second, Status.COMPLETED)
        assert (await standing() or first).id == second.id

    async def test_outside_items_are_the_live_ones_asked_for(self, store: Store) -> None:
        one, two, three = [await stored(store, ref) for ref in "123"]
        await stored(store, "1", source="github:owner/other")
        await moved(store, two, Status.COMPLETED)
        hold = {"hold_reason": "wait", "hold_by": "source"}
        held = await store.transact(lambda tx: tx.edit(Edit(three.id, NOW, dict(hold))))
        found = await store.read(lambda tx: tx.outside_items(REPO, ["1", "2", "3", "ghost"]))
        assert found == {"1": (one, None), "3": (held, "source")}
        assert await store.read(lambda tx: tx.outside_items(REPO, [])) == {}

    async def test_live_references_say_which_are_claimed_there(self, store: Store) -> None:
        one, two, three = [await stored(store, ref) for ref in "123"]
        await stored(store, "4", source="github:owner/other")
        namesake = await stored(store, "1", source="github:owner/other")
        await moved(store, await claimed(store, namesake, "f0", 2), Status.QUEUED)
        await moved(store, two, Status.COMPLETED)
        started = await claimed(store, three, "f1")
        assert await store.read(lambda tx: tx.live_references(REPO)) == [
            LiveReference(one.id, "1", Status.QUEUED, one.version, claimed=False),
            LiveReference(three.id, "3", Status.IN_PROGRESS, started.version, claimed=True),
        ]
        await store.transact(lambda tx: tx.end_source_claim("f1", "released", NOW))
        found = await store.read(lambda tx: tx.live_references(REPO))
        assert [reference.claimed for reference in found] == [False, False]

    async def test_hold_by_is_kept_with_a_hold_and_not_without(self, store: Store) -> None:
        item = await stored(store, "1")
        assert await store.read(lambda tx: tx.hold_by(item.id)) is None
        assert await store.read(lambda tx: tx.hold_by("ghost")) is None
        with pytest.raises(StorageError):
            await store.transact(lambda tx: tx.edit(Edit(item.id, NOW, {"hold_by": "source"})))
        hold: dict[str, object] = {"hold_reason": "wait", "hold_by": "source"}
        await store.transact(lambda tx: tx.edit(Edit(item.id, NOW, hold)))
        assert await store.read(lambda tx: tx.hold_by(item.id)) == "source"
        with pytest.raises(StorageError):
            await store.transact(lambda tx: tx.edit(Edit(item.id, NOW, {"hold_reason": None})))

    @pytest.mark.parametrize("kept", [{}, {"assigned_agent": "ada"}, {"type": "rare"}])
    async def test_take_never_returns_what_has_a_source(
        self, store: Store, kept: dict[str, Any]
    ) -> None:
        item = await stored(store, "1", **kept)
        take = Take(
            "ada", ["t1"], [_ids.new()], 60, SOON, types=("rare",) if "type" in kept else ()
        )
        (answer,) = await store.transact(lambda tx: tx.take([take], NOW))
        assert answer.items == []
        await moved(store, item, Status.DISPATCHED, agent="ada")
        (answer,) = await store.transact(lambda tx: tx.take([take], NOW))
        assert answer.items == []

    async def test_take_within_a_project_never_returns_what_has_a_source(
        self, store: Store
    ) -> None:
        project = Project(_ids.new(), "p", None, NOW, NOW)
        await store.transact(lambda tx: tx.insert_project(project))
        await stored(store, "1", project_id=project.id)
        take = Take("ada", ["t1"], [_ids.new()], 60, SOON, project_id=project.id)
        (answer,) = await store.transact(lambda tx: tx.take([take], NOW))
        assert answer.items == []

    async def test_queued_before_does_not_count_what_has_a_source(self, store: Store) -> None:
        await stored(store, "1", priority=1)
        plain = await stored(store, "x", source=None, source_ref=None)
        assert await store.read(lambda tx: tx.queued_before(plain)) == 0

    async def test_move_of_ours_only_refuses_what_has_a_source(self, store: Store) -> None:
        item = await stored(store, "1")
        plain = await stored(store, "x", source=None, source_ref=None)
        to: dict[str, Any] = {"target": Status.DISPATCHED, "agent": "ada", "ours_only": True}
        assert await moved(store, item, **to) is None
        assert await row_of(store, item.id) == item
        assert await moved(store, plain, **to) is not None

    async def test_uncount_attempt_only_of_the_claim_that_counted_it(self, store: Store) -> None:
        item = await claimed(store, await stored(store, "1"), "f1")

        async def uncounted(epoch: int) -> int:
            await store.transact(lambda tx: tx.uncount_attempt(item.id, epoch))
            return (await row_of(store, item.id)).attempts

        assert await uncounted(1) == 1  # still being worked on
        await moved(store, item, Status.QUEUED)
        assert await uncounted(2) == 1
        assert await uncounted(1) == 0
        assert await uncounted(1) == 0

    async def test_uncount_attempt_also_where_others_have_taken_the_item_since(
        self, store: Store
    ) -> None:
        item = await stored(store, "1")
        for number in (1, 2, 3):
            item = await claimed(store, await row_of(store, item.id), f"f{number}", number)
            if number < 3:
                await moved(store, item, Status.QUEUED)

        async def uncounted(epoch: int) -> int:
            await store.transact(lambda tx: tx.uncount_attempt(item.id, epoch))
            return (await row_of(store, item.id)).attempts

        assert await uncounted(1) == 2
        assert await uncounted(1) == 2  # it was taken twice since, and two attempts are counted
        assert await uncounted(2) == 1
        await moved(store, item, Status.COMPLETED)
        assert await uncounted(3) == 1

    async def test_keep_fleet_keeps_the_first_name(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.fleet()) is None
        for name in ("one", "two"):
            await store.transact(lambda tx, name=name: tx.keep_fleet(name))  # type: ignore[misc]
            assert await store.read(lambda tx: tx.fleet()) == "one"


class SourceClaimsContract:
    async def test_a_source_claim_comes_back_as_it_was_made(self, store: Store) -> None:
        item = await claimed(store, await stored(store, "42"), "f1")
        assert await claim_of(store, "f1") == SourceClaim(
            "f1", REPO, "42", item.id, 1, "lucius", "home", "nonce-1", None, NOW, None, None,
            Status.IN_PROGRESS, "t1",
        )  # fmt: skip
        assert await store.read(lambda tx: tx.find_source_claim("ghost", NOW)) is None

    async def test_a_firing_id_is_used_once(self, store: Store) -> None:
        await claimed(store, await stored(store, "1"), "f1")
        other = await stored(store, "2")
        again = firing("f1")
        assert not await store.transact(lambda tx: tx.insert_source_claim(other, again, NOW))
        assert (await claim_of(store, "f1")).source_ref == "1"

    async def test_a_source_claim_is_live_while_the_ledger_s_is(self, store: Store) -> None:
        item = await claimed(store, await stored(store, "42"), "f1")
        assert (await claim_of(store, "f1", NOW)).live
        lapsed = await claim_of(store, "f1", SOON)
        assert (lapsed.live, lapsed.token, lapsed.status) == (False, None, Status.IN_PROGRESS)
        assert (lapsed.lapsed, lapsed.over) == (True, False)  # a heartbeat would still renew it
        back = await moved(store, item, Status.QUEUED)
        assert back is not None
        assert (await claim_of(store, "f1", SOON)).over
        await claimed(store, back, "f2", 2)
        assert (await claim_of(store, "f2", NOW)).token == "t2"
        former = await claim_of(store, "f1", NOW)
        assert (former.live, former.token, former.epoch) == (False, None, 1)
        assert (await claim_of(store, "f1", SOON)).over

    async def test_open_source_claims_are_those_of_a_source(self, store: Store) -> None:
        first, second = await stored(store, "1"), await stored(store, "2")
        item = await claimed(store, first, "f9")
        await moved(store, item, Status.QUEUED)
        await claimed(store, second, "f1", 2)
        open_ones = await store.read(lambda tx: tx.open_source_claims(REPO, NOW))
        assert [(one.firing_id, one.live) for one in open_ones] == [("f9", False), ("f1", True)]
        assert await store.read(lambda tx: tx.open_source_claims("github:a/b", NOW)) == []
        await store.transact(lambda tx: tx.end_source_claim("f9", "released", NOW))
        open_ones = await store.read(lambda tx: tx.open_source_claims(REPO, NOW))
        assert [one.firing_id for one in open_ones] == ["f1"]

    async def test_latest_source_claim_is_the_latest_open_one(self, store: Store) -> None:
        async def latest() -> str | None:
            found = await store.read(lambda tx: tx.latest_source_claim(REPO, "1", NOW))
            return found.firing_id if found else None

        assert await latest() is None
        item = await claimed(store, await stored(store, "1"), "f1")
        await moved(store, item, Status.COMPLETED)
        again = await claimed(store, await stored(store, "1"), "f0", 2)
        await moved(store, again, Status.BLOCKED)
        await claimed(store, await stored(store, "1", source="github:owner/other"), "f7", 3)
        assert again.epoch == item.epoch
        assert await latest() == "f0"
        await store.transact(lambda tx: tx.end_source_claim("f0", "done", NOW))
        assert await latest() == "f1"

    async def test_a_source_claim_is_given_back_once_and_keeps_how_it_ended(
        self, store: Store
    ) -> None:
        for number, name in enumerate(("f1", "f2"), 1):
            item = await claimed(store, await stored(store, str(number)), name)
            await moved(store, item, Status.QUEUED)
        await store.transact(lambda tx: tx.end_source_claim("f2", "stale-swept", NOW))

        async def given_back(firing_id: str) -> bool:
            return await store.transact(
                lambda tx: tx.give_back_source_claim(firing_id, "already_claimed", NOW)
            )

        assert [await given_back(name) for name in ("f1", "f2", "ghost")] == [True, True, False]
        assert [await given_back(name) for name in ("f1", "f2")] == [False, False]
        ends = [(await claim_of(store, name)).outcome for name in ("f1", "f2")]
        assert ends == ["already_claimed", "stale-swept"]

    async def test_enter_source_claim_keeps_the_lowest_number(self, store: Store) -> None:
        await claimed(store, await stored(store, "1"), "f1")
        large = 2**40 + 7

        async def enter(firing_id: str, entry_id: int) -> bool:
            return await store.transact(lambda tx: tx.enter_source_claim(firing_id, entry_id))

        assert await enter("f1", large) is True
        assert await enter("f1", large) is True
        assert await enter("f1", large + 1) is False
        assert await enter("f1", large - 1) is True
        assert await enter("ghost", 7) is False
        assert (await claim_of(store, "f1")).entry_id == large - 1

    async def test_end_source_claim_closes_once(self, store: Store) -> None:
        await claimed(store, await stored(store, "1"), "f1")

        async def end(firing_id: str, outcome: str, now: str) -> bool:
            return await store.transact(lambda tx: tx.end_source_claim(firing_id, outcome, now))

        assert await end("f1", "released", SOON) is True
        assert await end("f1", "done", LATER) is False
        assert await end("ghost", "done", LATER) is False
        ended = await claim_of(store, "f1")
        assert (ended.ended_at, ended.outcome) == (SOON, "released")


class SourceKnowledgeContract:
    async def test_the_latest_approval_counts_whichever_was_seen_first(self, store: Store) -> None:
        async def approve(text_hash: str, by: int, at: str, seen_at: str) -> None:
            approval = Approval(REPO, "1", text_hash, by, at, seen_at)
            await store.transact(lambda tx: tx.put_approval(approval))

        async def latest() -> Approval | None:
            return await store.read(lambda tx: tx.latest_approval(REPO, "1"))

        assert await latest() is None
        large = 2**40
        await approve("h1", large, NOW, NOW)
        assert await latest() == Approval(REPO, "1", "h1", large, NOW, NOW)
        await approve("h2", 2, SOON, SOON)
        await approve("h1", 3, NOW, LATER)  # seen again
        assert await latest() == Approval(REPO, "1", "h2", 2, SOON, SOON)
        await approve("h1", 4, LATER, LATER)  # the first text once more
        assert await latest() == Approval(REPO, "1", "h1", 4, LATER, LATER)
        await approve("h1", 5, SOON, LATER)  # an older one, seen late
        assert await latest() == Approval(REPO, "1", "h1", 4, LATER, LATER)
        assert await store.read(lambda tx: tx.latest_approval(REPO, "2")) is None

    async def test_a_delivery_is_kept_once_and_forgotten_when_old(self, store: Store) -> None:
        async def keep(delivery_id: str, now: str) -> bool:
            return await store.transact(lambda tx: tx.keep_delivery(delivery_id, now))

        assert await keep("d1", NOW) is True
        assert await keep("d1", SOON) is False
        assert await keep("d2", LATER) is True
        assert await store.transact(lambda tx: tx.forget_deliveries(NOW)) == 0
        assert await store.transact(lambda tx: tx.forget_deliveries(SOON)) == 1
        assert await keep("d1", LATER) is True
        assert await keep("d2", LATER) is False

    async def test_a_state_keeps_what_is_not_named_and_counts_requests(self, store: Store) -> None:
        async def state() -> SourceState | None:
            return await store.read(lambda tx: tx.source_state(REPO))

        assert await state() is None
        await store.transact(lambda tx: tx.note_source_state(REPO, {}))
        empty = SourceState(REPO, None, None, None, None, None, 0, None, None, None)
        assert await state() == empty
        await store.transact(
            lambda tx: tx.note_source_state(
                REPO, {"polled_at": NOW, "poll_error": "no answer", "requests": 3}
            )
        )
        await store.transact(
            lambda tx: tx.note_source_state(
                REPO,
                {
                    "poll_error": None, "swept_at": SOON, "warning": "Δ was doubled",
                    "settle_seconds": 20.5, "requests": 2**40, "rate_remaining": 4_999,
                    "rate_limit": 5_000, "rate_reset_at": LATER,
                },
            )
        )  # fmt: skip
        full = SourceState(
            REPO, NOW, None, SOON, "Δ was doubled", 20.5, 2**40 + 3, 4_999, 5_000, LATER
        )
        assert await state() == full
        await store.transact(lambda tx: tx.note_source_state("a:b", {"requests": 1}))
        other = replace(empty, source="a:b", requests=1)
        assert await store.read(lambda tx: tx.source_states()) == [other, full]

    async def test_a_state_has_only_known_parts(self, store: Store) -> None:
        unknown: Any = {"source": "x"}
        with pytest.raises(ValueError, match="source"):
            await store.transact(lambda tx: tx.note_source_state(REPO, unknown))


class SourcesContract(OutsideItemsContract, SourceClaimsContract, SourceKnowledgeContract):
    """Everything about work from outside."""
