"""On PostgreSQL, what a holder takes next is asked for in the breath that completes the last."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from rota.model.claims import ClaimRequest
from rota.model.errors import ClaimLost, InvalidInput, RotaError
from rota.model.status import Status, Verb
from rota.model.work import NewItem
from rota.queue import Ledger, WorkQueue, claiming
from rota.queue.moves import Order
from rota.storage.dialogue import Dialogue, Question
from rota.storage.port import Edit, Finish, Store, Take, Topic, Transaction
from rota.storage.postgres_transaction import PostgresTransaction
from rota.testing.clock import ManualClock

PATIENCE = 20.0
NOW = ManualClock().text()
LATER = ManualClock().text(60)
NEXT = ClaimRequest("ada", lease_seconds=60)


@pytest.fixture
def database(empty_postgres: str) -> str:
    """Every test of this file runs on PostgreSQL alone."""
    return empty_postgres


async def submit(queue: WorkQueue, *names: str, **values: Any) -> list[str]:
    items = [NewItem(**{"type": name, "description": name, **values}) for name in names]
    return [item.id for item in (await queue.submit_many(items)).items]


def take(*types: str, labels: tuple[str, ...] = ()) -> Take:
    return Take("ada", ["token"], ["dispatch"], 60, LATER, types, labels)


async def claimed(queue: WorkQueue) -> Finish:
    (got,) = (await queue.claim(NEXT)).items
    return Finish(got.item.id, got.claim.token, None, "ada")


async def go_on(queue: WorkQueue, held: Finish, token: str | None = None) -> list[str]:
    order = Order(
        Verb.COMPLETE, held.item_id, "ada", token=token or held.token, outcome="success", next=NEXT
    )
    moved = await queue.apply(order)
    assert moved.next is not None
    return [one.item.id for one in moved.next.items]


async def test_all_that_a_holder_needs_to_know_is_asked_before_the_first_answer_is_heard(
    queue: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = await submit(queue, "chore", "chore")
    held = await claimed(queue)
    said: list[str] = []
    inquire, heard, commit = Dialogue.inquire, Dialogue.heard, Dialogue.commit

    def asked(talk: Dialogue, statement: bytes, values: Any) -> Question:
        said.append(f"asked: {statement.split(maxsplit=1)[0].decode()}")
        return inquire(talk, statement, values)

    def answered(talk: Dialogue, question: Question) -> Any:
        said.append("heard")
        return heard(talk, question)

    def done(talk: Dialogue) -> None:
        said.append("commit")
        commit(talk)

    monkeypatch.setattr(Dialogue, "inquire", asked)
    monkeypatch.setattr(Dialogue, "heard", answered)
    monkeypatch.setattr(Dialogue, "commit", done)
    assert await go_on(queue, held) == [second]
    assert said == ["asked: WITH", "asked: SELECT", "asked: SELECT", *["heard"] * 3, "commit"]


async def test_what_was_asked_ahead_and_is_not_taken_is_announced_to_who_passed_over_it(
    queue: WorkQueue, store: Store
) -> None:
    """Its row was locked for a moment, and who looked meanwhile has not seen it."""
    await submit(queue, "chore", "chore")
    held = await claimed(queue)
    before = store.counter(Topic.READY)
    with pytest.raises(ClaimLost):
        await go_on(queue, held, token="somebody else's")
    assert store.counter(Topic.READY) > before


async def test_what_was_asked_ahead_and_is_never_asked_for_is_announced_too(
    queue: WorkQueue, store: Store
) -> None:
    await submit(queue, "chore", "chore")
    held = await claimed(queue)
    before = store.counter(Topic.READY)

    def body(tx: Transaction) -> int:
        tx.foresee([NEXT])
        return len(tx.finish([held], NOW))

    assert await store.transact(body) == 1
    assert store.counter(Topic.READY) > before


async def test_what_was_asked_ahead_and_is_taken_wakes_nobody(
    queue: WorkQueue, store: Store
) -> None:
    _, second = await submit(queue, "chore", "chore")
    held = await claimed(queue)
    before = store.counter(Topic.READY)
    assert await go_on(queue, held) == [second]
    assert store.counter(Topic.READY) == before


CHANGES: dict[str, Callable[[Transaction, str], Any]] = {
    "a change with an answer": lambda tx, item: tx.edit(Edit(item, NOW, {"hold_reason": "wait"})),
    "a change without one": lambda tx, item: tx.set_labels(item, []),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_what_was_asked_ahead_is_forgotten_when_something_changes(
    queue: WorkQueue, store: Store, change: Callable[[Transaction, str], Any]
) -> None:
    _, second, third = await submit(queue, *["chore"] * 3, labels=("red",))
    held = await claimed(queue)

    def body(tx: Transaction) -> list[str]:
        tx.foresee([ClaimRequest("ada", labels=("red",), lease_seconds=60)])
        assert [item.id for item in tx.finish([held], NOW)] == [held.item_id]
        change(tx, second)
        (result,) = tx.take([take(labels=("red",))], NOW)
        return [one.item.id for one in result.items]

    assert await store.transact(body) == [third]


async def test_lanes_that_ask_for_different_items_are_not_looked_for_ahead(
    queue: WorkQueue, store: Store
) -> None:
    """What the first takes may be what was found for the second."""
    await submit(queue, "chore", "chore")
    held = await claimed(queue)

    before = store.counter(Topic.READY)

    def body(tx: Transaction) -> list[int]:
        tx.foresee([NEXT, ClaimRequest("bob", types=("chore",), lease_seconds=60)])
        tx.finish([held], NOW)
        mine, another = take(), take("chore")._replace(agent="bob", tokens=["other"])
        return [len(result.items) for result in tx.take([mine, another], NOW)]

    assert await store.transact(body) == [1, 0]
    assert store.counter(Topic.READY) == before


async def test_who_may_not_have_the_slots_for_it_does_not_look_ahead(
    queue: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lock as many as it asks for, and others would pass over them."""
    await submit(queue, *["chore"] * 5)
    held = await claimed(queue)
    foreseen: list[Any] = []
    monkeypatch.setattr(
        PostgresTransaction, "foresee", lambda tx, claims: foreseen.append(list(claims))
    )
    many = ClaimRequest("ada", limit=1000, lease_seconds=60)
    done = Order(Verb.COMPLETE, held.item_id, "ada", token=held.token, outcome="success", next=many)
    moved = await queue.apply(done)
    assert moved.next is not None
    assert (len(moved.next.items), foreseen) == (1, [])


async def test_an_agent_whose_reviews_are_counted_wakes_nobody_either(
    queue: WorkQueue, store: Store
) -> None:
    await queue.set_agent("ada", max_in_review=5)
    _, second = await submit(queue, "chore", "chore")
    held = await claimed(queue)
    before = store.counter(Topic.READY)
    assert await go_on(queue, held) == [second]
    assert store.counter(Topic.READY) == before


@pytest.mark.parametrize("when", ["in the body", "at the commit"])
async def test_what_was_locked_and_is_not_taken_after_all_is_announced(
    queue: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    await submit(queue, "chore", "chore")
    before = store.counter(Topic.READY)

    def fails(*_: object) -> None:
        raise psycopg.errors.ForeignKeyViolation("not this time")

    def body(tx: Transaction) -> None:
        tx.take([take()], NOW)
        if when == "in the body":
            raise InvalidInput("not this time")
        monkeypatch.setattr(Dialogue, "commit", fails)

    with pytest.raises(RotaError):
        await store.transact(body)
    monkeypatch.undo()
    assert store.counter(Topic.READY) > before


async def test_what_a_claim_has_locked_and_left_is_announced_to_who_passed_over_it(
    store: Store,
    queue: WorkQueue,
    another_store: Callable[[], Awaitable[Store]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of several types the best of each is looked at, and one is taken."""
    monkeypatch.setattr(claiming, "LOOK_AGAIN_SECONDS", 10 * PATIENCE)
    first, second = await submit(queue, "a", "b")
    locked, go, waits = threading.Event(), threading.Event(), asyncio.Event()

    def body(tx: Transaction) -> list[str]:
        (result,) = tx.take([take("a", "b")], NOW)
        locked.set()
        go.wait(PATIENCE)
        return [one.item.id for one in result.items]

    other = await another_store()
    wait = other.wait

    async def tell_and_wait(topic: Topic, seen: int, timeout: float) -> int:
        waits.set()
        return await wait(topic, seen, timeout)

    monkeypatch.setattr(other, "wait", tell_and_wait)
    ours = store.transact(body)
    assert await asyncio.to_thread(locked.wait, PATIENCE)
    wanted = ClaimRequest("eve", wait_seconds=2 * PATIENCE)
    theirs = asyncio.create_task(Ledger.on(other).queue.claim(wanted))
    await asyncio.wait_for(waits.wait(), PATIENCE)  # it has looked, and both were locked
    go.set()
    assert await ours == [first]
    (got,) = (await asyncio.wait_for(theirs, PATIENCE)).items
    assert (got.item.id, got.item.status) == (second, Status.IN_PROGRESS)
