"""The claim loop: how bodies end, what becomes of their items, and who keeps the lease."""

import asyncio
import json
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rota.client import ClaimedItem, SyncWorkQueueClient, Work, WorkQueueClient
from rota.client._async.runtime import POLL_SECONDS
from rota.client.errors import ConnectionFailed, ServerFailed
from rota.client.heartbeats import Heartbeats
from rota.client.lease import Lease
from rota.client.transport import Answer, Request
from rota.client.worker import Worker
from rota.client.worker_run import Equipment
from rota.model.clock import SystemClock, from_text
from rota.model.errors import InvalidInput, Refused
from rota.model.fleet import AgentSpec, Limits
from rota.model.runs import RunEnd, RunStatus
from rota.model.status import Verb
from rota.queue.moves import Order
from rota.runner.budget import backoff
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from tests.faults.processes import Process, processes

# Long enough for a heartbeat to come in time on a busy machine, short enough to be waited for.
LEASE = 3.0


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()  # heartbeats are sent in real time, so leases run in it too


async def add(client: WorkQueueClient, *descriptions: str, **fields: Any) -> list[str]:
    return [
        (await client.work_add("chore", description, **fields))["id"]
        for description in descriptions
    ]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - a thread makes it so
            await asyncio.sleep(0.01)


async def lost_by(item: ClaimedItem) -> None:
    await until(lambda: item.lost)


def explode() -> None:
    raise ZeroDivisionError


async def reasons(client: WorkQueueClient, item_id: str) -> list[tuple[str, str | None]]:
    events = (await client.work_get(item_id))["events"]
    return [(one["type"].removeprefix("work."), one["reason"]) for one in events]


def take_away(served: Served, item_id: str) -> None:
    """What a dispatcher does with force."""
    order = Order(Verb.RELEASE, item_id, "boss", force=True, reason="taken")
    served.run(lambda: served.ledger.queue.apply(order))
    served.run(lambda: served.ledger.queue.hold(item_id, "so that nobody takes it again"))


# how a body ends


async def test_a_body_that_ends_has_completed_its_item(client: WorkQueueClient) -> None:
    first, second = await add(client, "One", "Two")
    seen = []
    async with client.work(agent="ann") as work:
        async for item in work:
            seen.append((item.id, item.type, item.description, item.payload, item.attempts))
            if len(seen) == 2:
                work.stop_taking()
    assert [one[0] for one in seen] == [first, second]
    assert seen[0][1:] == ("chore", "One", None, 1)


async def test_the_loop_completes_one_item_before_it_takes_the_next(
    client: WorkQueueClient,
) -> None:
    first, second = await add(client, "One", "Two")
    async with client.work(agent="ann") as work:
        async for item in work:
            if item.id == second:
                assert (await client.work_get(first))["status"] == "completed"
                break
    assert (await client.work_get(second))["status"] == "queued"


class _Counted:
    """A transport that remembers what was asked."""

    def __init__(self, within: Any) -> None:
        self._within = within
        self.asked: list[tuple[str, Any]] = []

    async def send(self, request: Request) -> Answer:
        if request.method == "POST":
            path = request.path.replace("/work/", "").split("/")[-1]
            self.asked.append((path, json.loads(request.body or b"null")))
        answer: Answer = await self._within.send(request)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)


async def test_the_loop_takes_the_next_item_with_the_completion_of_the_last(
    client: WorkQueueClient,
) -> None:
    ids = await add(client, *"abcd")
    counted = _Counted(client._transport)
    client._transport = counted  # type: ignore[assignment]
    done = []
    async with client.work(agent="ann", types=["chore"], lease_seconds=50) as work:
        async for item in work:
            done.append(item.id)
            if item.id == ids[2]:
                await item.complete(notes="by hand")
            if item.id == ids[3]:
                work.stop_taking()
    assert done == ids
    wanted = {"agent": "ann", "types": ["chore"], "lease_seconds": 50}
    assert [(path, body.get("next")) for path, body in counted.asked] == [
        ("claim", None),
        ("complete", wanted),
        ("complete", wanted),
        ("complete", None),  # by the body, which may have more to do: then the loop claims itself
        ("claim", None),
        ("complete", None),  # nothing more shall be taken
    ]
    statuses = [(await client.work_get(one))["status"] for one in ids]
    assert statuses == ["completed"] * 4


async def test_what_came_with_a_completion_is_given_back_when_the_loop_was_stopped_meanwhile(
    client: WorkQueueClient,
) -> None:
    first, second = await add(client, "One", "Two")
    stop = asyncio.Event()
    complete = client.complete

    async def stopped_while_it_is_asked(*words: Any, **fields: Any) -> Any:
        answer = await complete(*words, **fields)
        stop.set()
        return answer

    client.complete = stopped_while_it_is_asked  # type: ignore[method-assign]
    async for item in client.work(agent="ann", stop=stop):
        assert item.id == first
    shown = await client.work_get(second)
    assert (shown["status"], shown["attempts"]) == ("queued", 0)
    assert (await reasons(client, second))[-1] == ("released", "shut_down")


async def test_verdicts_are_the_bodys_to_give(client: WorkQueueClient) -> None:
    done, failed, blocked, reviewed, released = await add(client, *"abcde")
    await client.set_agent("ann", max_concurrent=1)
    async with client.work(agent="ann") as work:
        async for item in work:
            match item.description:
                case "a":
                    await item.note("half way")
                    await item.progress("1 of 2")
                    assert await item.complete(notes="fine")
                    with pytest.raises(Refused, match="verdict already"):
                        await item.fail()
                case "b":
                    assert await item.fail("broken")
                case "c":
                    with pytest.raises(InvalidInput):
                        await item.block("")
                    assert await item.block("waits for Daniel")
                case "d":
                    assert await item.hand_over("https://example.org/pull/1")
                case "e":
                    assert await item.release("not today", available_at="2999-01-01T00:00:00Z")
                    break
    found = {item["id"]: item for item in await client.work_list()}
    statuses = [found[one]["status"] for one in (done, failed, blocked, reviewed, released)]
    assert statuses == ["completed", "failed", "blocked", "in_review", "queued"]
    assert (found[done]["notes"], found[failed]["notes"]) == ("fine", "broken")
    assert (await reasons(client, released))[-1] == ("released", "not today")


async def test_a_break_gives_the_item_back(client: WorkQueueClient) -> None:
    [item_id] = await add(client, "Left")
    async with client.work(agent="ann") as work:
        async for _ in work:
            break
    assert (await client.work_get(item_id))["status"] == "queued"
    assert (await reasons(client, item_id))[-1] == ("released", "body_left")


async def test_a_bare_loop_gives_the_item_back_when_python_closes_it(
    client: WorkQueueClient,
) -> None:
    [item_id] = await add(client, "Left")
    async for _ in client.work(agent="ann"):
        break
    async with asyncio.timeout(30):
        while (await client.work_get(item_id))["status"] != "queued":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (await reasons(client, item_id))[-1] == ("released", "body_left")


async def test_an_exception_gives_the_item_back_with_its_name(client: WorkQueueClient) -> None:
    [item_id] = await add(client, "Explodes")

    async def worker() -> None:
        async with client.work(agent="ann") as work:
            async for _ in work:
                explode()

    with pytest.raises(ZeroDivisionError):
        await worker()
    assert (await reasons(client, item_id))[-1] == ("released", "body_raised: ZeroDivisionError")
    back = await client.work_get(item_id)
    assert back["available_at"] is not None  # later, not at once again


async def test_whatever_an_exception_says_the_loop_goes_on(
    client: WorkQueueClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "rota.client")  # a report of the words could not be sent either
    ids = await add(client, "Explodes", "Explodes again", max_attempts=1)
    work = client.work(agent="ann")

    async def body(item: ClaimedItem) -> None:
        if item.id == ids[-1]:
            work.stop_taking()
        raise OSError("no file named half a \ud83d pair\0")

    await work.run(body)
    for item_id in ids:
        item = await client.work_get(item_id)
        assert (item["status"], item["notes"]) == (
            "failed",
            "OSError: no file named half a ? pair",
        )


async def test_an_exception_at_the_last_attempt_fails_the_item(client: WorkQueueClient) -> None:
    [item_id] = await add(client, "Explodes", max_attempts=1)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the loop is what raises
        async with client.work(agent="ann") as work:
            async for _ in work:
                explode()
    failed = await client.work_get(item_id)
    assert (failed["status"], failed["attempts"]) == ("failed", 1)
    assert failed["notes"].startswith("ZeroDivisionError: ")


async def test_a_cancelled_task_gives_its_item_back(client: WorkQueueClient) -> None:
    [item_id] = await add(client, "Cut short")
    begun = asyncio.Event()

    async def worker() -> None:
        async with client.work(agent="ann") as work:
            async for _ in work:
                begun.set()
                await asyncio.sleep(60)

    task = asyncio.ensure_future(worker())
    await asyncio.wait_for(begun.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await client.work_get(item_id))["status"] == "queued"
    assert (await reasons(client, item_id))[-1] == ("released", "shut_down")


def test_a_program_that_is_interrupted_gives_back_what_a_bare_loop_held(
    served: Served, sync_client: SyncWorkQueueClient
) -> None:
    """asyncio.run cancels every task at its end; what is given back must get through."""
    item = sync_client.work_add("chore", "Held at the end")

    async def program() -> None:
        async with WorkQueueClient(served.url) as client:
            async for _ in client.work(agent="ann"):
                raise asyncio.CancelledError  # as Ctrl-C does

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(program())
    assert sync_client.work_get(item["id"])["status"] == "queued"


async def test_a_loop_that_is_begun_again_gives_back_what_the_former_left(
    client: WorkQueueClient,
) -> None:
    await add(client, "One", "Two")
    async with client.work(agent="ann") as work:
        seen = []
        async for item in work:
            seen.append(item.id)
            break
        async for item in work:  # the agent has one slot: else there would be nothing
            seen.append(item.id)
            break
    assert seen[0] == seen[1]


# stopping


async def test_stopping_the_client_ends_a_long_poll_at_once(client: WorkQueueClient) -> None:
    async def worker() -> list[str]:
        return [item.id async for item in client.work(agent="ann")]

    task = asyncio.ensure_future(worker())
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await client.stop()
    assert await task == []
    assert time.monotonic() - began < POLL_SECONDS / 2


async def test_stopping_gives_back_what_is_held_after_the_grace(client: WorkQueueClient) -> None:
    [item_id] = await add(client, "Takes long")
    held: list[ClaimedItem] = []

    async def worker() -> None:
        async for item in client.work(agent="ann"):
            held.append(item)
            await until(lambda: held[0].lost)
            assert not await item.complete("too late")

    task = asyncio.ensure_future(worker())
    await until(lambda: held)
    await client.stop(grace=0.05)
    await task
    assert (await client.work_get(item_id))["status"] == "queued"
    assert ("released", "shut_down") in await reasons(client, item_id)
    assert (await reasons(client, item_id))[-1][0] == "late_result"


async def test_a_stop_event_of_ones_own_ends_the_loop(client: WorkQueueClient) -> None:
    stop = asyncio.Event()
    first, second = await add(client, "One", "Two")
    async for _ in client.work(agent="ann", stop=stop):
        stop.set()
    assert (await client.work_get(first))["status"] == "completed"
    assert (await client.work_get(second))["status"] == "queued"


# the lease


async def test_the_lease_is_kept_while_the_body_works(
    client: WorkQueueClient, served: Served
) -> None:
    [item_id] = await add(client, "Longer than its lease")
    async with client.work(agent="ann", lease_seconds=LEASE) as work:
        async for item in work:
            await asyncio.sleep(1.2 * LEASE)
            served.run(served.ledger.sweeper.tick)
            assert not item.lost
            assert await item.complete()
            break
    detail = await client.work_get(item_id)
    assert (detail["status"], detail["attempts"]) == ("completed", 1)


async def test_a_body_that_blocks_the_event_loop_keeps_its_lease(
    client: WorkQueueClient, served: Served
) -> None:
    [item_id] = await add(client, "Does not await")
    async with client.work(agent="ann", lease_seconds=LEASE) as work:
        async for item in work:
            time.sleep(1.2 * LEASE)  # noqa: ASYNC251 - what many agents do
            served.run(served.ledger.sweeper.tick)
            assert await item.complete()
            break
    assert (await client.work_get(item_id))["status"] == "completed"


async def test_a_lost_claim_is_seen_and_its_result_kept_but_not_believed(
    client: WorkQueueClient, served: Served
) -> None:
    lost, other = await add(client, "Taken away", "Another")
    async with client.work(agent="ann", lease_seconds=LEASE) as work:
        async for item in work:
            if item.id == lost:
                take_away(served, item.id)
                await lost_by(item)
                assert not await item.complete(notes="my result")
            else:
                work.stop_taking()  # the loop went on
    assert (await client.work_get(other))["status"] == "completed"
    detail = await client.work_get(lost)
    assert (detail["status"], detail["notes"]) == ("queued", None)
    [late] = detail["late_results"]
    assert late["payload"]["notes"] == "my result"


async def test_a_body_that_did_not_notice_its_loss_does_not_complete_the_item(
    client: WorkQueueClient, served: Served
) -> None:
    [item_id] = await add(client, "Taken away")
    async with client.work(agent="ann") as work:
        async for item in work:
            take_away(served, item.id)
            work.stop_taking()
    detail = await client.work_get(item_id)
    assert detail["status"] == "queued"
    assert len(detail["late_results"]) == 1


async def test_a_body_that_stops_half_way_because_it_lost_its_claim_completes_nothing(
    client: WorkQueueClient,
) -> None:
    """Lost by our own clock, while the server was away and has not noticed anything."""
    first, second = await add(client, "In a loop", "In a lane")
    await client.set_agent("ann", max_concurrent=2)
    async with client.work(agent="ann") as work:
        async for item in work:
            item.lease.lose()
            work.stop_taking()
    lane = client.work(agent="ann")

    async def body(item: ClaimedItem) -> None:
        lane.stop_taking()
        item.lease.lose()
        await asyncio.sleep(60)

    await asyncio.wait_for(lane.run(body), 30)
    found = {item["id"]: item["status"] for item in await client.work_list()}
    assert found == {first: "in_progress", second: "in_progress"}


# lanes


async def test_lanes_run_bodies_side_by_side(client: WorkQueueClient) -> None:
    await client.set_agent("ann", max_concurrent=3)
    await add(client, *"abcdef")
    together, most, done = 0, 0, 0
    meeting = asyncio.Barrier(3)
    work = client.work(agent="ann", concurrency=3)

    async def body(item: ClaimedItem) -> None:
        nonlocal together, most, done
        together += 1
        most = max(most, together)
        await meeting.wait()  # nobody passes alone
        together -= 1
        done += 1
        if done == 6:
            work.stop_taking()

    await asyncio.wait_for(work.run(body), 30)
    assert most == 3
    assert {item["status"] for item in await client.work_list()} == {"completed"}


async def test_a_loop_with_one_body_refuses_concurrency(client: WorkQueueClient) -> None:
    with pytest.raises(ValueError, match="run"):
        async for _ in client.work(agent="ann", concurrency=2):
            pass


async def test_a_lane_cancels_the_body_whose_claim_is_lost(
    client: WorkQueueClient, served: Served
) -> None:
    await add(client, "Taken away", "Another")
    ended: list[str] = []
    work = client.work(agent="ann", lease_seconds=LEASE)

    async def body(item: ClaimedItem) -> None:
        if item.description == "Another":
            ended.append("another")
            work.stop_taking()
            return
        take_away(served, item.id)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    await asyncio.wait_for(work.run(body), 30)
    assert ended == ["cancelled", "another"]


async def test_a_lane_survives_a_body_that_raises(client: WorkQueueClient) -> None:
    [doomed] = await add(client, "Explodes", max_attempts=1)
    [patient] = await add(client, "Explodes once", max_attempts=2)
    [fine] = await add(client, "Fine", priority=5)
    work = client.work(agent="ann")

    async def body(item: ClaimedItem) -> None:
        if item.id == fine:
            work.stop_taking()
            return
        raise RuntimeError("boom")

    await asyncio.wait_for(work.run(body), 30)
    found = {item["id"]: item for item in await client.work_list()}
    assert (found[doomed]["status"], found[doomed]["notes"]) == ("failed", "RuntimeError: boom")
    assert found[patient]["status"] == "queued"
    assert found[patient]["available_at"] is not None  # later, not at once again
    assert (await reasons(client, patient))[-1] == ("released", "body_raised: RuntimeError")
    assert found[fine]["status"] == "completed"


async def test_cancelling_the_lanes_gives_everything_back(client: WorkQueueClient) -> None:
    await client.set_agent("ann", max_concurrent=2)
    await add(client, "One", "Two")
    held: list[ClaimedItem] = []

    async def body(item: ClaimedItem) -> None:
        held.append(item)
        await asyncio.sleep(60)

    task = asyncio.ensure_future(client.work(agent="ann", concurrency=2).run(body))
    await until(lambda: len(held) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {item["status"] for item in await client.work_list()} == {"queued"}


async def test_a_wrong_request_ends_the_loop_instead_of_being_repeated(
    client: WorkQueueClient,
) -> None:
    with pytest.raises(InvalidInput):
        async for _ in client.work(agent="NOT A NAME"):
            pass


# threads


def test_the_loop_is_the_same_for_threads(sync_client: SyncWorkQueueClient, served: Served) -> None:
    for description in ("Fine", "Left"):
        sync_client.work_add("chore", description)
    for item in sync_client.work(agent="ann", lease_seconds=LEASE):
        if item.description == "Left":
            break
        time.sleep(1.2 * LEASE)  # a body that is longer than its lease
        served.run(served.ledger.sweeper.tick)
        assert not item.lost
    statuses = {item["description"]: item["status"] for item in sync_client.work_list()}
    assert statuses == {"Fine": "completed", "Left": "queued"}


def test_lanes_of_threads_run_side_by_side_and_stop(sync_client: SyncWorkQueueClient) -> None:
    sync_client.set_agent("ann", max_concurrent=2)
    for n in range(4):
        sync_client.work_add("chore", str(n))
    meeting, lock, done = threading.Barrier(2), threading.Lock(), []
    work = sync_client.work(agent="ann", concurrency=2)

    def body(item: Any) -> None:
        meeting.wait(30)  # nobody passes alone
        with lock:
            done.append(item.id)
            if len(done) == 4:
                work.stop_taking()

    work.run(body)
    assert {item["status"] for item in sync_client.work_list()} == {"completed"}


LANES = """
import sys, threading, time
from rota.client import SyncWorkQueueClient

stop = threading.Event()

def body(item):
    print('"begun"', flush=True)
    stop.wait()
    print('"stopping"', flush=True)
    while sys.argv[2] == "goes on" and not item.lost:
        time.sleep(0.01)

with SyncWorkQueueClient(sys.argv[1]) as client:
    client.work(agent="ann", concurrency=2, stop=stop).run(body)
"""


def interrupt_until_it_ends(program: Process) -> None:
    """A second Ctrl-C that comes before the first has left its wait is one with it."""
    for _ in range(3):
        program.signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            program.join(15)
            return


@pytest.mark.parametrize(("body", "becomes"), [("ends", "completed"), ("goes on", "queued")])
def test_lanes_of_threads_end_by_themselves_at_the_first_ctrl_c_and_give_back_at_the_second(
    served: Served, sync_client: SyncWorkQueueClient, body: str, becomes: str
) -> None:
    item = sync_client.work_add("chore", "Held at the end")
    with processes() as start:
        program: Process = start("-c", LANES, served.url, body)
        assert program.hear() == "begun"
        program.signal(signal.SIGINT)
        assert program.hear() == "stopping"
        if body == "goes on":
            interrupt_until_it_ends(program)
        assert program.join() == -signal.SIGINT
    assert sync_client.work_get(item["id"])["status"] == becomes


LATE = """
import json, sys, threading
from rota.client._sync.runtime import side_by_side

stop, answer = threading.Event(), threading.Event()

def say(word):
    sys.stdout.write(json.dumps(word) + "\\n")  # whole lines, whoever else writes
    sys.stdout.flush()

def lane():
    say("begun")
    stop.wait()
    say("stopping")
    answer.wait()
    say(threading.current_thread().is_alive())

try:
    side_by_side(lane, 2, stop)
finally:
    answer.set()
"""


def test_a_process_waits_at_its_end_for_every_lane_that_ctrl_c_has_left_behind() -> None:
    """Such a lane may be about to give back what it has just claimed."""
    with processes() as start:
        program: Process = start("-c", LATE)
        assert [program.hear(), program.hear()] == ["begun", "begun"]
        program.signal(signal.SIGINT)
        assert [program.hear(), program.hear()] == ["stopping", "stopping"]
        interrupt_until_it_ends(program)
        assert [program.hear(), program.hear()] == [True, True]
        assert program.join() == -signal.SIGINT


def test_an_exception_among_threads_gives_the_item_back(sync_client: SyncWorkQueueClient) -> None:
    item = sync_client.work_add("chore", "Explodes")

    def worker() -> None:
        with sync_client.work(agent="ann") as work:
            for _ in work:
                explode()

    with pytest.raises(ZeroDivisionError):
        worker()
    back = sync_client.work_get(item["id"])
    last = back["events"][-1]
    assert (last["type"], last["reason"]) == ("work.released", "body_raised: ZeroDivisionError")
    assert back["available_at"] is not None


# answers that are late, and answers that are none


class _Changed(_Counted):
    """A transport that does something with an answer before it hands it on."""

    def __init__(self, within: Any, *changes: tuple[str, Callable[[Answer], Any]]) -> None:
        super().__init__(within)
        self._changes = list(changes)  # in order: of which call, and what is done

    async def send(self, request: Request) -> Answer:
        answer = await super().send(request)
        if self._changes and request.path.endswith(self._changes[0][0]):
            return await self._changes.pop(0)[1](answer)  # type: ignore[no-any-return]
        return answer


def changed(client: WorkQueueClient, *changes: tuple[str, Callable[[Answer], Any]]) -> _Changed:
    transport = _Changed(client._transport, *changes)
    client._transport = transport  # type: ignore[assignment]
    return transport


@pytest.fixture
async def bob(served: Served) -> AsyncIterator[WorkQueueClient]:
    async with WorkQueueClient(served.url) as client:
        yield client


async def taken_by(bob: WorkQueueClient) -> None:
    """Until a lease is over, and the item is bob's."""
    async with asyncio.timeout(30):
        while not await bob.claim("bob", lease_seconds=60):  # noqa: ASYNC110 - time makes it so
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", ["cancelled", "stopped"])
@pytest.mark.parametrize("call", ["/claim", "/complete"])
async def test_what_is_claimed_in_the_moment_in_which_the_loop_ends_is_given_back(
    client: WorkQueueClient, call: str, how: str
) -> None:
    ids = await add(client, "One", "Two")
    on_its_way, arrived = asyncio.Event(), asyncio.Event()

    async def late(answer: Answer) -> Answer:
        on_its_way.set()
        await arrived.wait()
        return answer

    changed(client, (call, late))
    work = client.work(agent="ann", lease_seconds=60)

    async def worker() -> None:
        async for _ in work:
            pass

    task = asyncio.ensure_future(worker())
    await asyncio.wait_for(on_its_way.wait(), 30)
    if how == "cancelled":
        task.cancel()
    else:
        work.stop_taking()
    for _ in range(20):  # turns of the event loop, in which the end is noticed everywhere
        await asyncio.sleep(0)
    arrived.set()
    await asyncio.wait({task}, timeout=30)
    assert task.cancelled() == (how == "cancelled")
    statuses = [(await client.work_get(one))["status"] for one in ids]
    assert statuses == (["queued", "queued"] if call == "/claim" else ["completed", "queued"])
    for one in ids:
        assert (await client.work_get(one))["attempts"] == int(one == ids[0] and call != "/claim")


async def test_a_loop_that_is_cancelled_just_when_its_answer_comes_keeps_nothing(
    client: WorkQueueClient,
) -> None:
    [item_id] = await add(client, "One", max_attempts=50)
    on_its_way, arrived = asyncio.Event(), asyncio.Event()

    async def late(answer: Answer) -> Answer:
        on_its_way.set()
        await arrived.wait()
        return answer

    async def worker() -> None:
        async with client.work(agent="ann", lease_seconds=60) as work:
            async for _ in work:
                await asyncio.sleep(60)

    turns = 12  # of the event loop; by then the body has begun
    changed(client, *[("/claim", late)] * turns)
    for turn in range(turns):
        on_its_way.clear()
        arrived.clear()
        task = asyncio.ensure_future(worker())
        await asyncio.wait_for(on_its_way.wait(), 30)
        arrived.set()
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        assert (await client.work_get(item_id))["status"] == "queued", turn


async def test_a_body_begins_only_while_its_lease_holds_however_late_the_answer_came(
    client: WorkQueueClient, bob: WorkQueueClient
) -> None:
    [lost] = await add(client, "One")

    async def much_too_late(answer: Answer) -> Answer:
        await taken_by(bob)
        await add(bob, "Two", "Three")
        return answer

    async def late(answer: Answer) -> Answer:
        await asyncio.sleep(0.5)  # of a lease of one second
        return answer

    asked = changed(client, ("/claim", much_too_late), ("/complete", late)).asked
    seen = []
    async with client.work(agent="ann", lease_seconds=1) as work:
        async for item in work:
            assert not item.lease.lapsed
            seen.append(item.description)
            if len(seen) == 2:
                work.stop_taking()
    assert seen == ["Two", "Three"]
    paths = [path for path, _ in asked]
    assert paths[:3] == ["claim", "heartbeat", "claim"]  # it is bob's: nobody began with it
    assert paths[-3:] == ["complete", "heartbeat", "complete"]  # ours still, for a whole lease
    assert (await client.work_get(lost))["assigned_agent"] == "bob"


async def test_a_worker_runs_nothing_whose_lease_was_over_when_the_answer_came(
    client: WorkQueueClient, bob: WorkQueueClient, tmp_path: Path
) -> None:
    class Never:
        async def execute(self, request: Any) -> Any:
            pytest.fail("it is bob's")

    async def much_too_late(answer: Answer) -> Answer:
        await taken_by(bob)
        return answer

    [item_id] = await add(client, "One")
    asked = changed(client, ("/claim", much_too_late)).asked
    of_ann = Equipment(client, AgentSpec("ann"), None, Never(), tmp_path, Limits(), "here")
    worker = Worker(of_ann, lease_seconds=1, once=True)
    await worker.work(asyncio.Event(), asyncio.Event(), 0.0)
    assert [path for path, _ in asked] == ["claim", "heartbeat"]
    assert worker.runs == 0
    assert await client.list_runs(work_item_id=item_id) == []


async def test_what_a_worker_claims_in_the_moment_in_which_it_stops_is_given_back(
    client: WorkQueueClient, tmp_path: Path
) -> None:
    class Never:
        async def execute(self, request: Any) -> Any:
            pytest.fail("it has stopped")

    stop, arrived = asyncio.Event(), asyncio.Event()

    async def late(answer: Answer) -> Answer:
        stop.set()
        await arrived.wait()
        return answer

    [item_id] = await add(client, "One")
    changed(client, ("/claim", late))
    of_ann = Equipment(client, AgentSpec("ann"), None, Never(), tmp_path, Limits(), "here")
    working = asyncio.ensure_future(Worker(of_ann).work(stop, asyncio.Event(), 30.0))
    await asyncio.wait_for(stop.wait(), 30)
    for _ in range(20):  # turns of the event loop, in which the worker notices it
        await asyncio.sleep(0)
    arrived.set()
    await asyncio.wait_for(working, 30)
    back = await client.work_get(item_id)
    assert (back["status"], back["attempts"]) == ("queued", 0)


async def test_an_item_whose_body_failed_and_could_not_be_given_back_is_not_kept(
    client: WorkQueueClient,
) -> None:
    [item_id] = await add(client, "Explodes")

    class Refusing(_Counted):
        async def send(self, request: Request) -> Answer:
            if request.path.endswith("/release"):
                return Answer(500, {}, b"")
            return await super().send(request)

    client._transport = Refusing(client._transport)  # type: ignore[assignment]

    async def body(item: ClaimedItem) -> None:
        explode()

    with pytest.raises(ServerFailed):
        await client.work(agent="ann", lease_seconds=1).run(body)
    await taken_by(client)
    assert (await client.work_get(item_id))["assigned_agent"] == "bob"


# heartbeats on their own


class _Silent:
    """A server that does not answer heartbeats, or answers what it is told to."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked = threading.Event()

    def send(self, request: Request) -> Answer:
        status = self.answers.pop(0) if self.answers else 503
        self.asked.set()
        return Answer(status, {}, b'{"code": "claim_lost"}' if status == 409 else b"{}")

    def open(self, request: Request) -> Any:
        raise NotImplementedError  # this transport is never asked for a stream

    def beside(self) -> "_Silent":
        return self

    def close(self) -> None:
        pass


def test_a_lease_that_cannot_be_renewed_is_lost_when_its_time_is_over() -> None:
    heartbeats, lost = Heartbeats(_Silent(), {}), threading.Event()
    lease = Lease("x", "token", 0.3)
    lease.when_lost(lost.set)
    began = time.monotonic()
    heartbeats.hold(lease)
    assert lost.wait(10)
    assert time.monotonic() - began >= 0.3
    heartbeats.close()


def test_every_lease_is_lost_in_time_when_the_server_is_silent() -> None:
    class Hole(_Silent):
        def send(self, request: Request) -> Answer:
            time.sleep(request.timeout)
            raise ConnectionFailed("no answer", sent=True)

    heartbeats, lost = Heartbeats(Hole(), {}), threading.Semaphore(0)
    began, many = time.monotonic(), 20
    for n in range(many):
        lease = Lease(f"x-{n}", "token", 0.6)
        lease.when_lost(lost.release)
        heartbeats.hold(lease)
    for _ in range(many):
        assert lost.acquire(timeout=30)
    assert time.monotonic() - began < 3 * 0.6  # one by one it is more than twenty thirds of it
    heartbeats.close()


def test_whoever_cannot_be_told_of_a_loss_costs_the_other_leases_nothing() -> None:
    heartbeats, lost = Heartbeats(_Silent(), {}), threading.Event()
    gone, lease = Lease("x", "token", 0.03), Lease("y", "token", 0.3)
    gone.when_lost(explode)
    lease.when_lost(lost.set)
    for one in (gone, lease):
        heartbeats.hold(one)
    assert lost.wait(30)
    assert gone.lost
    heartbeats.close()


def test_a_single_missed_heartbeat_costs_nothing() -> None:
    silent = _Silent(503, 200, 200, 200)
    heartbeats, lease = Heartbeats(silent, {}), Lease("x", "token", LEASE)
    heartbeats.hold(lease)
    deadline = time.monotonic() + 30
    while silent.answers:  # the last comes when the first lease would be over
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not lease.lost
    heartbeats.close()


def test_an_ended_claim_is_no_loss_while_the_verdict_is_on_its_way() -> None:
    silent = _Silent(409)
    heartbeats, lease = Heartbeats(silent, {}), Lease("x", "token", 0.03)
    lease.settling = True
    heartbeats.hold(lease)
    assert silent.asked.wait(10)
    heartbeats.close()
    assert not lease.lost


def test_closing_does_not_wait_for_a_server_that_does_not_answer() -> None:
    class Hanging(_Silent):
        answer = threading.Event()
        closed = threading.Event()

        def send(self, request: Request) -> Answer:
            self.asked.set()
            self.answer.wait(300)
            return Answer(200, {}, b"{}")

        def close(self) -> None:
            self.closed.set()

    hanging = Hanging()
    heartbeats = Heartbeats(hanging, {})
    heartbeats.hold(Lease("x", "token", 0.03))
    assert hanging.asked.wait(10)
    began = time.monotonic()
    heartbeats.close()
    assert time.monotonic() - began < 60
    hanging.answer.set()
    assert hanging.closed.wait(10)  # by the thread, when it comes back


def test_one_who_asks_after_the_loss_is_told_at_once() -> None:
    lease, told = Lease("x", "token", 60), []
    lease.lose()
    lease.lose()
    lease.when_lost(lambda: told.append(True))
    assert told == [True]


def test_the_thread_ends_when_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.client.heartbeats._LINGER_SECONDS", 0.01)
    heartbeats, lease = Heartbeats(_Silent(), {}), Lease("x", "token", 60)
    for _ in range(2):  # and begins anew
        heartbeats.hold(lease)
        (thread,) = heartbeats._threads
        heartbeats.let_go(lease)
        with heartbeats._changed:
            heartbeats._changed.notify()
        thread.join(10)
        assert not thread.is_alive()
    heartbeats.close()


def test_work_is_what_the_client_hands_out() -> None:
    assert isinstance(WorkQueueClient("http://127.0.0.1:1").work(agent="ann"), Work)


# clocks that differ


@pytest.fixture
async def elsewhere(database: str, tmp_path: Path) -> AsyncIterator[WorkQueueClient]:
    """Of a server whose clock is months behind that of this machine, and stands still."""
    with serve(database, clock=ManualClock(), logs=tmp_path / "runs") as far:
        async with WorkQueueClient(far.url) as client:
            yield client


async def put_off(client: WorkQueueClient, item_id: str) -> float:
    """For how many seconds, by the server's clock."""
    until = from_text((await client.work_get(item_id))["available_at"])
    return (until - ManualClock().now()).total_seconds()


async def test_what_a_body_could_not_do_is_put_off_by_the_servers_clock(
    elsewhere: WorkQueueClient,
) -> None:
    [item_id] = await add(elsewhere, "Explodes")
    work = elsewhere.work(agent="ann")

    async def body(item: ClaimedItem) -> None:
        work.stop_taking()
        explode()

    await work.run(body)
    assert 2.0 <= await put_off(elsewhere, item_id) < 30


async def test_and_so_is_what_the_run_of_a_worker_could_not_do(
    elsewhere: WorkQueueClient, tmp_path: Path
) -> None:
    class Failing:
        async def execute(self, request: Any) -> RunEnd:
            return RunEnd(RunStatus.FAILED, error="it does not build")

    [item_id] = await add(elsewhere, "One")
    ann = AgentSpec("ann")
    of_ann = Equipment(elsewhere, ann, None, Failing(), tmp_path, Limits(), "here")
    await Worker(of_ann, once=True).work(asyncio.Event(), asyncio.Event(), 0.0)
    least = backoff(ann.retry.backoff, ann.retry.max_backoff, 1).total_seconds()
    assert least <= await put_off(elsewhere, item_id) < least + 30
