"""Steps that many tests of the contract share."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from rota.model.agents import Agent
from rota.model.claims import Claim, ClaimedItem, ClaimResult
from rota.model.clock import IdFactory, SystemClock
from rota.model.events import EVERY_EVENT, Event, EventFilter, EventType, NewEvent
from rota.model.status import OUTCOME_OF, Status
from rota.model.work import ItemFilter, NewItem, WorkItem
from rota.storage.port import Move, Store, Take, Transaction
from rota.testing.clock import ManualClock

OpenStore = Callable[[], Awaitable[Store]]

PATIENCE = 20.0  # seconds; only a failure waits that long
_clock = ManualClock(datetime(2026, 5, 1, 12, tzinfo=UTC))
new_id = IdFactory(SystemClock()).new
BEFORE, NOW, SOON, LATER = (_clock.text(seconds) for seconds in (-1, 0, 60, 3600))


def item(description: str = "Say hello", **values: Any) -> tuple[str, NewItem]:
    return new_id(), NewItem(**{"type": "chore", "description": description, **values})


async def given(store: Store, *items: tuple[str, NewItem], now: str = NOW) -> list[str]:
    """Store items, and return their ids."""
    await store.transact(lambda tx: tx.insert_items(items, None, now))
    return [item_id for item_id, _ in items]


async def one(store: Store, **values: Any) -> str:
    return (await given(store, item(**values)))[0]


async def listed(store: Store, asked: ItemFilter) -> list[WorkItem]:
    return await store.read(lambda tx: tx.list_items(asked))


async def written(store: Store, *events: NewEvent) -> None:
    await store.transact(lambda tx: tx.append(events))


async def events(
    store: Store, after: int, limit: int, asked: EventFilter = EVERY_EVENT
) -> list[Event]:
    """Off the event loop, because a read on it would block all other tasks."""
    return await store.read(lambda tx: tx.events_after(after, limit, asked), long=True)


async def is_there(store: Store, item_id: str, *, long: bool = False) -> bool:
    return await store.read(lambda tx: tx.get_item(item_id) is not None, long=long)


async def live_claim(store: Store, item_id: str) -> Claim | None:
    return await store.read(lambda tx: tx.live_claim(item_id))


async def found(store: Store, item_id: str) -> WorkItem:
    row = await store.read(lambda tx: tx.get_item(item_id))
    assert row is not None
    return row


def wanted(agent: str = "ada", tokens: Sequence[str] = ("t1",), **values: Any) -> Take:
    ids = [new_id() for _ in tokens]
    return Take(
        **{
            "agent": agent,
            "tokens": tokens,
            "dispatch_ids": ids,
            "lease_seconds": 60,
            "expires_at": SOON,
            **values,
        }
    )


async def taken(
    store: Store, agent: str = "ada", slots: int | None = None, **values: Any
) -> list[ClaimedItem]:
    take = wanted(agent, **values)

    def body(tx: Transaction) -> list[ClaimResult]:
        if slots is not None:
            tx.put_agent(Agent(agent, slots, updated_at=NOW))
        return tx.take([take], NOW)

    (result,) = await store.transact(body)
    return result.items


async def moved(store: Store, item_id: str, target: Status, **values: Any) -> WorkItem | None:
    move = Move(
        item_id,
        **{
            "sources": (Status.QUEUED,),
            "target": target,
            "now": NOW,
            "reason": "test",
            "outcome": OUTCOME_OF.get(target),
            **values,
        },
    )
    return await store.transact(lambda tx: tx.move(move))


async def in_progress(store: Store, item_id: str, agent: str = "ada", slot: int = 0) -> WorkItem:
    row = await moved(store, item_id, Status.IN_PROGRESS, agent=agent, slot=slot, new_epoch=True)
    assert row is not None
    return row


async def completed(store: Store, item_id: str) -> WorkItem:
    row = await moved(store, item_id, Status.COMPLETED)
    assert row is not None
    return row


def fact(item_id: str, kind: EventType = EventType.NOTED, **values: Any) -> NewEvent:
    return NewEvent(kind, NOW, work_item_id=item_id, **values)
