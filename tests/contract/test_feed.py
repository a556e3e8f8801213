"""The feed: everything that was committed, in one order, to everybody, once."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx2
import jsonschema_rs
import pytest

from rota.api.ws_problems import BadFrame, TooManyConnections, TooManyRequests
from rota.feed import Feed, Overrun, Reading, Wanted, source
from rota.feed.reading import PAST_PAGE
from rota.feed.source import MOST_IN_THE_PAST
from rota.model.errors import StorageUnavailable
from rota.model.events import Event, EventType, NewEvent
from rota.queue.views import Views
from rota.signals import SignalScheduler
from rota.storage.port import Store, Topic, Transaction
from rota.storage.sqlite import SqliteStore
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from tests.contract.test_postgres import OpenTransaction
from tests.integration.wired import Json, wired

SECONDS = 20.0
NOW = ManualClock().text()


class Watched:
    """The ledger's own log, with a count of what is asked of it."""

    def __init__(self, views: Views) -> None:
        self.asked = 0
        self.at_once = self.most_at_once = 0
        self.fails = 0
        self.fails_behind: int | None = None  # once, when it is asked for what comes after that
        self.behind_a_look: Callable[[], Awaitable[None]] | None = None
        self._views = views
        self.last_event = views.last_event
        self.highest_event = views.highest_event
        self.events_seen = views.events_seen
        self.wait_for_events = views.wait_for_events

    async def events_on(self, after: int, limit: int) -> tuple[list[Event], bool]:
        self.asked += 1
        if self.fails:
            self.fails -= 1
            raise StorageUnavailable("gone for a moment")
        return await self._views.events_on(after, limit)

    async def events(
        self, after: int, limit: int, work_item_id: str | None = None, types: Sequence[str] = ()
    ) -> list[Event]:
        self.asked += 1
        if after == self.fails_behind:
            self.fails_behind = None
            raise StorageUnavailable("gone for a moment")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        found = await self._views.events(after, limit, work_item_id, types)
        self.at_once -= 1
        if self.behind_a_look is not None and limit == PAST_PAGE and not found:
            act, self.behind_a_look = self.behind_a_look, None
            await act()
        return found


@pytest.fixture
def log(views: Views) -> Watched:
    return Watched(views)


@pytest.fixture
def feed(log: Watched) -> Feed:
    return Feed(log, lambda event: f"{event.seq}")


async def tell(store: Store, *names: str) -> None:
    events = [NewEvent(EventType.NOTED, NOW, work_item_id=name) for name in names]

    def body(tx: Transaction) -> None:
        tx.append(events)
        tx.wake(Topic.EVENTS)

    await store.transact(body)


async def take(reading: Reading, count: int) -> list[str | None]:
    found: list[str | None] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += [one.event.work_item_id for one in await reading.next(SECONDS)]
    return found


# one reader


async def test_followers_hear_everything_once_wherever_they_begin(store: Store, feed: Feed) -> None:
    await tell(store, "a", "b")
    async with feed.follow() as now, feed.follow(after=0) as whole:
        await tell(store, "c")
        assert await take(now, 1) == ["c"]
        assert await take(whole, 3) == ["a", "b", "c"]
        async with feed.follow(after=now.position) as late:
            await tell(store, "d", "e")
            for one in (now, whole, late):
                assert await take(one, 2) == ["d", "e"]
                assert one.position == now.position


async def test_followers_ask_the_database_no_more_than_one_does(
    store: Store, feed: Feed, log: Watched
) -> None:
    async with AsyncExitStack() as opened:
        readings = [await opened.enter_async_context(feed.follow()) for _ in range(100)]
        before = log.asked
        for number in range(10):
            await tell(store, f"{number}")
            heard = await asyncio.gather(*(take(one, 1) for one in readings))
            assert heard == [[f"{number}"]] * 100
        # One look for each commit; on PostgreSQL more, while others' transactions are open.
        assert log.asked - before < (15 if isinstance(store, SqliteStore) else 100)


async def test_of_a_crowd_that_catches_up_few_ask_the_database_at_once(
    store: Store, feed: Feed, log: Watched
) -> None:
    """All others would wait behind them."""
    await tell(store, *map(str, range(3)))
    async with AsyncExitStack() as opened:
        readings = [await opened.enter_async_context(feed.follow(after=0)) for _ in range(50)]
        heard = await asyncio.gather(*(take(one, 3) for one in readings))
    assert heard == [["0", "1", "2"]] * 50
    # And one more that joins the others, under the feed's own lock.
    assert log.most_at_once <= MOST_IN_THE_PAST + 1


async def test_who_wants_little_is_told_little_and_falls_off_nowhere(
    store: Store, log: Watched
) -> None:
    feed = Feed(log, lambda event: f"{event.seq}", kept=4)
    async with feed.follow(Wanted(work_item_id="mine")) as reading:
        waiting = asyncio.create_task(take(reading, 1))
        for number in range(30):
            await tell(store, f"{number}")
        await tell(store, "mine")
        assert await waiting == ["mine"]


async def test_a_database_that_is_away_costs_nothing_but_time(
    store: Store, feed: Feed, log: Watched
) -> None:
    async with feed.follow() as reading:
        log.fails = 2
        await tell(store, "a")
        assert await take(reading, 1) == ["a"]


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(types=(EventType.NOTED,))], ids=str)
async def test_a_database_that_goes_away_between_two_looks_at_the_past_costs_nothing_but_time(
    store: Store, feed: Feed, log: Watched, views: Views, wanted: Wanted
) -> None:
    await tell(store, "a", "b")
    log.fails_behind = await views.last_event()
    async with feed.follow(wanted, after=0) as reading:
        with pytest.raises(StorageUnavailable):
            await reading.next(SECONDS)
        assert await take(reading, 2) == ["a", "b"]


async def test_a_lost_wake_up_costs_nothing_but_time(
    store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LOOK_AGAIN_SECONDS", 0.05)
    async with feed.follow() as reading:
        await store.transact(
            lambda tx: tx.append([NewEvent(EventType.NOTED, NOW, work_item_id="silent")])
        )
        assert await take(reading, 1) == ["silent"]


async def test_what_wakes_a_follower_is_not_passed_over_with_what_comes_next(
    store: Store, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was woken, and before it had its turn the feed went on by something that it does not
    want."""
    monkeypatch.setattr(source, "LIVE_PAGE", 1)
    async with feed.follow(Wanted(work_item_id="mine")) as reading:
        waiting = asyncio.create_task(take(reading, 1))
        await asyncio.sleep(0)
        await tell(store, "mine", "other", "another")
        assert await waiting == ["mine"]


async def test_the_feed_stands_still_while_a_follower_comes_out_of_the_past(
    store: Store, feed: Feed, log: Watched
) -> None:
    await tell(store, "a", "b")

    async def meanwhile() -> None:
        """Behind the back of who has just read the rest of the past."""
        await tell(store, "c")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await another.next(1)

    async with feed.follow() as another, feed.follow(after=0) as reading:
        log.behind_a_look = meanwhile
        assert await take(reading, 3) == ["a", "b", "c"]


async def test_a_burst_larger_than_the_shelf_pushes_nobody_off_who_reads(
    store: Store, log: Watched
) -> None:
    feed = Feed(log, lambda event: "x" * 1000, kept=8, kept_characters=5000)
    names = [f"{number}" for number in range(300)]
    async with feed.follow() as one, feed.follow() as other:
        reading = asyncio.gather(take(one, 300), take(other, 300))
        await asyncio.sleep(0)
        await tell(store, *names)
        assert await reading == [names, names]


# too slow


async def test_who_falls_behind_is_told_and_can_go_back(store: Store, log: Watched) -> None:
    feed = Feed(log, lambda event: f"{event.seq}", kept=4)
    fallen: list[str] = []
    async with (
        feed.follow(fallen=lambda: fallen.append("slow")) as slow,
        feed.follow() as quick,
    ):
        await tell(store, "0")
        assert await take(slow, 1) == await take(quick, 1) == ["0"]
        for number in range(1, 10):
            await tell(store, f"{number}")
            assert await take(quick, 1) == [f"{number}"]
        assert fallen
        with pytest.raises(Overrun):
            await slow.next(SECONDS)
        slow.go_back()
        assert await take(slow, 9) == [f"{number}" for number in range(1, 10)]
        await tell(store, "live")
        assert await take(slow, 1) == await take(quick, 1) == ["live"]


async def test_nobody_waits_for_a_client_that_does_not_read(
    store: Store, log: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PATIENCE_SECONDS", 1_000)
    feed = Feed(log, lambda event: f"{event.seq}", kept=4)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with feed.follow() as stuck, feed.follow() as quick:
        await tell(store, "0")
        assert await take(stuck, 1) == await take(quick, 1) == ["0"]
        sending = asyncio.create_task(stuck.hand_out(never))
        for number in range(1, 20):
            await tell(store, f"{number}")
            assert await take(quick, 1) == [f"{number}"]
        sending.cancel()


async def test_large_events_push_others_off_sooner(store: Store, log: Watched) -> None:
    feed = Feed(log, lambda event: "x" * 1000, kept_characters=3000)
    async with feed.follow() as reading:
        for number in range(10):
            await tell(store, f"{number}")
            await take(reading, 1)
        assert feed.shelf.head - feed.shelf.base == 3


# late commits, on PostgreSQL alone


on_postgres = pytest.mark.parametrize("database", ["postgres"], indirect=True)


@pytest.fixture
def begin(database: str) -> Iterator[Callable[[], OpenTransaction]]:
    opened: list[OpenTransaction] = []

    def begin() -> OpenTransaction:
        opened.append(OpenTransaction(database))
        return opened[-1]

    yield begin
    for transaction in opened:
        transaction.abandon()


@on_postgres
async def test_a_transaction_that_commits_late_is_skipped_by_no_reader(
    store: Store, feed: Feed, begin: Callable[[], OpenTransaction]
) -> None:
    async with feed.follow() as live, feed.follow(after=0) as past:
        await tell(store, "first")
        assert await take(live, 1) == await take(past, 1) == ["first"]
        old, young = begin(), begin()
        old.begin_counting()
        young.append("lower number, younger")
        old.append("higher number, older")
        await tell(store, "committed while both are open")
        # Nothing may be shown yet: whoever took this would stand behind the other two.
        assert await live.next(0.2) == await past.next(0.2) == []
        old.commit()
        assert await take(live, 1) == await take(past, 1) == ["higher number, older"]
        async with feed.follow(after=live.position) as resumed:
            young.commit()
            rest = ["lower number, younger", "committed while both are open"]
            for one in (live, past, resumed):
                assert await take(one, 2) == rest
        async with feed.follow(after=0) as whole:
            assert await take(whole, 4) == ["first", "higher number, older", *rest]


@on_postgres
async def test_what_is_held_back_is_shown_although_nobody_says_when(
    store: Store, feed: Feed, begin: Callable[[], OpenTransaction], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.feed.source.LOOK_AGAIN_SECONDS", SECONDS * 10)
    async with feed.follow() as live:
        old = begin()
        old.begin_counting()
        await tell(store, "behind one that leaves nothing")
        assert await live.next(0.2) == []
        old.roll_back()
        assert await take(live, 1) == ["behind one that leaves nothing"]


@on_postgres
async def test_resuming_behind_each_event_gives_exactly_the_rest(
    store: Store, feed: Feed, begin: Callable[[], OpenTransaction]
) -> None:
    """Numbers that do not ascend: from any of them on there is no gap and no repeat."""
    for _ in range(5):
        old, young = begin(), begin()
        old.begin_counting()
        young.append("y")
        old.append("o")
        old.commit()
        young.commit()
    async with feed.follow(after=0) as whole:
        order: list[int] = []
        while len(order) < 10:
            order += [one.event.seq for one in await whole.next(SECONDS)]
        assert order != sorted(order)
        for index, seq in enumerate(order[:-1]):
            async with feed.follow(after=seq) as resumed:
                rest: list[int] = []
                while len(rest) < len(order) - index - 1:
                    rest += [one.event.seq for one in await resumed.next(SECONDS)]
                assert rest == order[index + 1 :]


@on_postgres
def test_a_late_commit_reaches_a_websocket(
    served: Served, begin: Callable[[], OpenTransaction]
) -> None:
    with wired(served.url) as live:
        live.get("subscribe")
        old, young = begin(), begin()
        early, late = old.append("early number, late commit"), young.append("late number")
        young.commit()
        live.get("work.create", type="x", description="y")
        assert live.has_heard_nothing_more()
        old.commit()
        heard = [one["seq"] for one in live.events(3)]
        assert heard[:2] == [early, late]
        with wired(served.url) as resumed:
            resumed.get("subscribe", after=early)
            assert [one["seq"] for one in resumed.events(2)] == heard[1:]


# the published schema


@pytest.fixture
def served(database: str) -> Iterator[Served]:
    with serve(database) as server:
        yield server


def test_every_frame_is_as_the_published_schema_says(served: Served) -> None:
    schema = httpx2.get(f"{served.url}/ws/schema.json").json()
    sent, received = (_judge(schema, name) for name in ("Sent", "Received"))
    with wired(served.url) as ws:
        ws.get("ping")
        ws.get("subscribe", after=0)
        item = ws.get("work.create", type="chore", description="build", payload={"a": [1]})["id"]
        trigger = {"kind": "work_item.status.transition", "to": ["completed"]}
        signal = ws.get("work.signal.create", work_item_id=item, trigger=trigger)["id"]
        ws.get("work.signal.list", status="active")
        ws.get("work.list", status=["queued"], limit=1)
        ws.get("work.transition", work_item_id=item, verb="dispatch", assigned_agent="smith")
        (taken,) = ws.get("work.claim", agent="smith")["items"]
        token = taken["claim"]["token"]
        ws.refused("work.transition", work_item_id=item, verb="complete", token="another")
        ws.refused("work.transition", work_item_id=item, verb="cancel")
        ws.refused("work.get", work_item_id="nowhere")
        ws.get(
            "work.transition", work_item_id=item, status="completed", outcome="success", token=token
        )
        ws.get("work.get", work_item_id=item)
        served.run(SignalScheduler(served.store, owner="test").tick)
        while (fired := ws.events(1)[0])["type"] != "work.signal.fired":
            pass
        other = ws.get("work.signal.create", trigger=trigger, max_fires=None)["id"]
        ws.get("work.signal.cancel", signal_id=other)
        ws.get("unsubscribe", subscription="s1")
        for frame in ("nonsense", "{}", b"{}", '{"request_id": "x", "type": "no.such"}'):
            ws.connection.send(frame)
            ws.hear()
        said, heard = ws.said, ws.heard
    assert fired["payload"]["signal_id"] == signal
    assert fired["payload"]["firing_id"].startswith(signal)
    follow_up = httpx2.get(f"{served.url}/work/{fired['payload']['enqueued_job_id']}").json()
    assert follow_up["payload"]["signal"]["follows"] == item
    for frame in said:
        sent.validate(frame)
    for frame in heard:
        received.validate(frame)
    assert len(heard) > 25


def test_the_schema_refuses_what_the_server_refuses(served: Served) -> None:
    schema = httpx2.get(f"{served.url}/ws/schema.json").json()
    sent, received = (_judge(schema, name) for name in ("Sent", "Received"))
    for payload in ({}, {"type": "x", "description": "y", "more": 1}, {"type": 1}):
        assert not sent.is_valid({"request_id": "r", "type": "work.create", "payload": payload})
    assert not sent.is_valid({"request_id": "r", "type": "no.such", "payload": {}})
    assert not sent.is_valid({"type": "ping"})
    assert not received.is_valid({"request_id": "r", "type": "ping", "ok": True})
    assert not received.is_valid({"event_id": "1", "type": "work.noted", "payload": {}})


def _judge(schema: Json, name: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**schema, "anyOf": [{"$ref": f"#/$defs/{name}"}]}
    return jsonschema_rs.Draft202012Validator(whole)


def test_every_request_type_and_ending_is_described(served: Served) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "websocket.md").read_text()
    schema = httpx2.get(f"{served.url}/ws/schema.json").json()
    kinds = [one["properties"]["type"]["const"] for one in schema["$defs"]["Sent"]["anyOf"]]
    assert re.findall(r"^\| `([a-z.]+)` \|.*\|.*\|$", page, re.MULTILINE)[: len(kinds)] == kinds
    for error in (BadFrame, TooManyRequests, TooManyConnections):
        assert f"| `{error.code}` | {error.status} |" in page
