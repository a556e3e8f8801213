"""The claim loop of follow-ups: taken, kept, ended or given back."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rota.client import ClaimedFollowUp, SyncWorkQueueClient, WorkQueueClient
from rota.client.errors import ConnectionFailed
from rota.client.transport import Answer, Request
from rota.model.clock import SystemClock
from rota.model.errors import Refused
from rota.model.status import Status
from rota.model.work import NewItem
from rota.signals import SignalScheduler
from rota.testing.served import Served
from rota.testing.standing import WAY, order

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
BLOCKS = {"kind": "work_item.status.transition", "to": ["blocked"]}


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()  # heartbeats are sent in real time, so leases run in it too


@pytest.fixture
def asked(served: Served) -> Callable[[str], None]:
    """`asked("Ask her")` makes a follow-up with this title."""

    async def ask(title: str) -> None:
        queue, processor = served.ledger.queue, SignalScheduler(served.store, owner="test")
        item = await queue.submit(NewItem("chore", "Mend the gate"))
        action = {"kind": "follow_up", "title": title}
        await served.signals.create(served.signals.read(BLOCKS, action, work_item_id=item.id))
        for verb in WAY[Status.BLOCKED]:
            await queue.apply(order(verb, item.id, actor="ada"))
        assert await processor.tick() == 1

    return lambda title: served.run(lambda: ask(title))


async def standing(client: WorkQueueClient) -> list[tuple[str, str, str | None]]:
    found = await client.follow_ups()
    return [(one["title"], one["status"], one["notes"]) for one in found]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - a thread makes it so
            await asyncio.sleep(0.01)


@on_both_databases
async def test_a_body_that_ends_has_completed_its_follow_up(
    client: WorkQueueClient, asked: Callable[[str], None]
) -> None:
    for title in ("One", "Two", "Three"):
        asked(title)
    seen: list[ClaimedFollowUp] = []
    async for one in client.follow_ups_for("ada", wait=False):
        seen.append(one)
        if one.title == "Two":
            await one.complete("asked", outcome="failed")
        elif one.title == "Three":
            await one.cancel("settled")
    assert [one.title for one in seen] == ["One", "Two", "Three"]
    assert await standing(client) == [
        ("One", "completed", None),
        ("Two", "completed", "asked"),
        ("Three", "cancelled", "settled"),
    ]
    assert seen[0].work_item_id == seen[0]["work_item_id"]
    with pytest.raises(Refused, match="verdict"):
        await seen[0].release()


async def test_a_body_that_is_left_gives_its_follow_up_back(
    client: WorkQueueClient, asked: Callable[[str], None]
) -> None:
    asked("One")
    async with client.follow_ups_for("ada") as found:
        async for one in found:
            assert (await client.get_follow_up(one.id))["holder"] == "ada"
            break
    assert await standing(client) == [("One", "open", None)]

    async def explode() -> None:
        async with client.follow_ups_for("ada") as found:
            async for _ in found:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await explode()
    assert await standing(client) == [("One", "open", None)]
    async for one in client.follow_ups_for("ada", wait=False):
        await one.release()
        break
    assert await standing(client) == [("One", "open", None)]


async def test_the_lease_is_kept_while_the_body_works(
    client: WorkQueueClient, asked: Callable[[str], None]
) -> None:
    asked("One")
    async for one in client.follow_ups_for("ada", lease_seconds=3, wait=False):
        for _ in range(18):
            await asyncio.sleep(0.2)  # longer than the lease, in which bob may not have it
            assert await client.claim_follow_up("bob") is None
        assert not one.lost
    assert await standing(client) == [("One", "completed", None)]


async def test_a_follow_up_that_was_taken_away_is_seen_and_not_ended(
    client: WorkQueueClient, asked: Callable[[str], None]
) -> None:
    asked("One")
    async for one in client.follow_ups_for("ada", lease_seconds=1, wait=False):
        await client.release_follow_up(one.id, one["token"])  # as an operator does
        taken = await client.claim_follow_up("bob")
        assert taken is not None
        await until(lambda one=one: one.lost)
        assert await one.complete("late") is False
    found = await client.get_follow_up(taken["id"])
    assert (found["status"], found["holder"], found["notes"]) == ("leased", "bob", None)


class _Unheard:
    """A transport that loses the answer to the first call that ends so."""

    def __init__(self, within: Any, ending: str, meanwhile: Callable[[], Any]) -> None:
        self._within = within
        self._ending: str | None = ending
        self._meanwhile = meanwhile

    async def send(self, request: Request) -> Answer:
        answer: Answer = await self._within.send(request)
        if self._ending and request.path.endswith(self._ending):
            self._ending = None
            await self._meanwhile()
            raise ConnectionFailed("the connection broke", sent=True)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)


@pytest.mark.parametrize(
    ("verb", "became"), [("complete", "completed"), ("cancel", "cancelled"), ("release", "open")]
)
async def test_a_verdict_whose_answer_was_lost_is_not_refused_the_second_time(
    client: WorkQueueClient, asked: Callable[[str], None], verb: str, became: str
) -> None:
    async def nothing() -> None:
        pass

    asked("One")
    client._transport = _Unheard(client._transport, f"/{verb}", nothing)  # type: ignore[assignment]
    async for one in client.follow_ups_for("ada", wait=False):
        assert await getattr(one, verb)() is True
        assert await standing(client) == [("One", became, None)]
        break


async def test_a_verdict_whose_answer_was_lost_does_not_take_another_s_for_its_own(
    client: WorkQueueClient, served: Served, asked: Callable[[str], None]
) -> None:
    async def taken_and_given_back() -> None:
        async with WorkQueueClient(served.url) as bob:
            taken = await bob.claim_follow_up("bob")
            assert taken is not None
            await bob.release_follow_up(taken["id"], taken["token"])

    asked("One")
    client._transport = _Unheard(client._transport, "/release", taken_and_given_back)  # type: ignore[assignment]
    async with client.follow_ups_for("ada", wait=False) as found:
        async for one in found:
            with pytest.raises(Refused, match="is open"):
                await one.release()
            break


async def test_stopping_the_client_ends_the_waiting_at_once(
    client: WorkQueueClient, asked: Callable[[str], None]
) -> None:
    seen: list[str] = []

    async def work() -> None:
        async for one in client.follow_ups_for("ada", poll_seconds=60):
            seen.append(one.title)  # noqa: PERF401 - one by one is what is looked at

    asked("One")
    working = asyncio.ensure_future(work())
    await until(lambda: seen)
    async with asyncio.timeout(30):
        await client.stop(grace=5)
        await working
    assert await standing(client) == [("One", "completed", None)]


def test_the_loop_is_the_same_for_threads(
    sync_client: SyncWorkQueueClient, asked: Callable[[str], None]
) -> None:
    asked("One")
    for one in sync_client.follow_ups_for("ada", wait=False):
        assert one.complete(notes="done") is True
    (found,) = sync_client.follow_ups()
    assert (found["status"], found["notes"], found["holder"]) == ("completed", "done", "ada")
