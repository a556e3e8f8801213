"""Of events become notifications: each once, whoever reads and whoever dies."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from rota.config.notify import NotifyConfig
from rota.model.claims import ClaimRequest
from rota.model.clock import to_text
from rota.model.errors import DeliveryFailed, InvalidInput
from rota.model.fleet import AgentSpec, Breaker, Budget, Fleet, Limits
from rota.model.notices import NOTIFICATION
from rota.model.runs import OutboxEntry, RunEnd, RunStatus, Usage
from rota.model.schedules import TriggerKind
from rota.model.status import Verb
from rota.model.work import NewItem, WorkItem
from rota.notify import Notices
from rota.notify.reading import POSITION, Plan
from rota.queue import Ledger
from rota.queue.moves import Order
from rota.signals import Signals, SignalScheduler
from rota.sources.manager import WorkSourceManager
from rota.sources.outbox import LEFT_SECONDS, LOOK_SECONDS, MOST_ATTEMPTS, TAKEN_SECONDS, Outbox
from rota.sources.registry import SourceContext
from rota.storage.port import Store
from rota.testing.clock import ManualClock

CHANNELS = {
    "desk": {"type": "webhook", "url": "https://example.org/desk"},
    "mail": {"type": "webhook", "url": "https://example.org/mail"},
}
ALL = [
    "blocked", "failed", "in_review", "stale", "budget", "breaker_open", "usage_limit",
    "signal_fired",
]  # fmt: skip
EVERYTHING = {"all": {"on": ALL, "to": "desk"}}


def plan_of(rules: dict[str, Any] = EVERYTHING, fleet: Fleet | None = None, **more: Any) -> Plan:
    config = NotifyConfig.model_validate({"channels": CHANNELS, "rules": rules, **more})
    return Plan(config, fleet or Fleet(), "https://rota.example.org")


@dataclass
class Desk:
    """What a receiver hears, or does not want to."""

    heard: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def __call__(self, entry: OutboxEntry) -> None:
        self.heard.append(entry.id)
        if self.error is not None:
            raise self.error


@dataclass
class Server:
    store: Store
    clock: ManualClock
    notices: Notices
    outbox: Outbox
    ledger: Ledger
    woken: list[None] = field(default_factory=list)

    @classmethod
    async def on(cls, store: Store, clock: ManualClock, plan: Plan, desk: Desk) -> "Server":
        ledger = Ledger.on(store)
        sources = WorkSourceManager(SourceContext(ledger=ledger, clock=clock))
        outbox = Outbox(store, ledger, sources, {NOTIFICATION: desk})
        server = cls(store, clock, Notices(store, plan), outbox, ledger)
        await server.notices.begin()
        return server

    async def waiting(self, *, buried: bool = False) -> list[OutboxEntry]:
        return await self.store.read(lambda tx: tx.list_post(buried=buried, limit=1000))

    async def told(self) -> list[tuple[str, str]]:
        """Of each letter, what its notices are and what they are about."""
        await self.notices.tick()
        return [
            (one["happening"], one["title"])
            for entry in await self.waiting()
            for one in entry.payload["notices"]
        ]

    async def item(self, title: str = "Mend the gate", **facts: Any) -> WorkItem:
        made = await self.ledger.queue.submit(NewItem(facts.pop("type", "chore"), title, **facts))
        [taken] = (await self.ledger.queue.claim(ClaimRequest("smith"))).items
        assert taken.item.id == made.id
        return await self.ledger.views.item(made.id)

    async def move(self, verb: Verb, item: WorkItem, **facts: Any) -> None:
        order = Order(verb, item.id, "smith", token=item.claim_token, **facts)
        await self.ledger.queue.apply(order)

    async def block(self, title: str = "Mend the gate", **facts: Any) -> WorkItem:
        item = await self.item(title, **facts)
        await self.move(Verb.BLOCK, item, notes="no wood")
        return item


Opened = Callable[..., Awaitable[Server]]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def server(store: Store, clock: ManualClock, desk: Desk) -> Opened:
    async def opened(plan: Plan | None = None, on: Store | None = None) -> Server:
        return await Server.on(on or store, clock, plan or plan_of(), desk)

    return opened


async def test_every_happening_is_told_with_item_reason_and_page(
    server: Opened, clock: ManualClock
) -> None:
    one = await server()
    blocked = await one.block("Blocked one")
    await one.move(Verb.FAIL, await one.item("Failed one"), outcome="failed", notes="why not")
    address = "https://example.org/pr/1"
    await one.move(Verb.HAND_OVER, await one.item("Reviewed one"), artifact_url=address)
    await one.item("Lapsed one", max_attempts=5)
    clock.advance(3600 * 24)
    await one.ledger.sweeper.tick()
    told = await one.told()
    assert sorted(told) == [
        ("blocked", "Blocked: Blocked one"),
        ("failed", "Failed: Failed one"),
        ("in_review", "In review: Reviewed one"),
        ("stale", "Stale: Lapsed one"),
    ]
    facts = {
        notice["happening"]: notice
        for entry in await one.waiting()
        for notice in entry.payload["notices"]
    }
    assert facts["blocked"]["why"] == "no wood"
    assert facts["blocked"]["url"] == f"https://rota.example.org/items/{blocked.id}"
    assert facts["blocked"]["item"]["id"] == blocked.id
    assert facts["in_review"]["why"] == f"a review is wanted: {address}"
    assert facts["stale"]["why"].startswith("lease_expired: smith was not heard of any more")
    assert facts["stale"]["agent"] == "smith"


async def test_of_long_texts_a_notice_keeps_the_beginning(server: Opened) -> None:
    """A digest holds hundreds of them."""
    one = await server()
    item = await one.item("gate " * 380)
    await one.move(Verb.BLOCK, item, notes="wood " * 4_000)
    await one.notices.tick()
    [letter] = await one.waiting()
    [notice] = letter.payload["notices"]
    found = (notice["title"], notice["why"], notice["item"]["description"])
    assert [len(text) for text in found] == [1_000] * 3


async def test_agents_that_may_not_run_are_told_of_and_budgets_once_a_day(
    server: Opened, clock: ManualClock
) -> None:
    agent = AgentSpec(
        "smith", budget=Budget(per_day=Limits(usd=1.0)), breaker=Breaker(2, timedelta(hours=1))
    )
    fleet = Fleet(agents=(agent,), budget=Budget(per_day=Limits(runs=3)))
    one = await server(plan_of(fleet=fleet))
    runs = one.ledger.runs
    for status, limit in (
        (RunStatus.FAILED, False),
        (RunStatus.FAILED, False),  # the breaker opens; a dollar is spent
        (RunStatus.SUCCEEDED, False),  # three runs of the fleet
        (RunStatus.FAILED, True),
    ):
        run = await runs.begin("smith", TriggerKind.MANUAL)
        end = RunEnd(status, usage=Usage(1, 1, 0.5), usage_limit=limit)
        await runs.end(run, end, agent)
        clock.advance(60)
    assert sorted(await one.told()) == [
        ("breaker_open", "Breaker open: agent smith"),
        ("budget", "Budget used up: smith"),
        ("budget", "Budget used up: the fleet"),
        ("usage_limit", "Usage limit reached: agent smith"),
    ]
    clock.advance(3600 * 24)
    for _ in range(3):
        run = await runs.begin("smith", TriggerKind.MANUAL)
        await runs.end(run, RunEnd(RunStatus.SUCCEEDED, usage=Usage(1, 1, 0.5)), agent)
    told = await one.told()
    assert [title for happening, title in told if happening == "budget"].count(
        "Budget used up: smith"
    ) == 2


async def test_a_signal_that_fires_is_told_of(server: Opened, store: Store) -> None:
    one = await server()
    signals = Signals(store)
    when = {"kind": "work_item.status.transition", "to": "blocked"}
    await signals.create(signals.read(when, {"kind": "hold"}, name="stop"))
    item = await one.block()
    await SignalScheduler(store, owner="here").tick()
    assert ("signal_fired", f"Signal fired: {item.description}") in await one.told()


async def test_a_signal_can_name_a_channel_or_an_address_but_not_both(
    server: Opened, store: Store
) -> None:
    one, signals = await server(), Signals(store)
    when = {"kind": "work_item.status.transition", "to": "blocked"}
    then = {"kind": "notify", "channel": "desk", "title": "{item.description}!"}
    with pytest.raises(InvalidInput, match="or a channel"):
        signals.read(when, {**then, "url": "https://example.org"})
    await signals.create(signals.read(when, then))
    await one.block()
    await SignalScheduler(store, owner="here").tick()
    [letter] = await one.waiting()
    assert (letter.kind, letter.subject) == (NOTIFICATION, "desk")
    assert letter.payload["title"] == "Mend the gate!"


async def test_rules_narrow_and_a_channel_hears_of_an_event_once(server: Opened) -> None:
    one = await server(
        plan_of(
            {
                "urgent": {"on": "blocked", "to": ["desk", "mail"], "label": "urgent"},
                "bugs": {"on": ["blocked", "failed"], "to": "desk", "type": ["bug", "crash"]},
                "mill": {"on": "blocked", "to": "mail", "project": "Mill", "agent": "smith"},
                "others": {"on": "blocked", "to": "mail", "agent": "ann"},
            }
        )
    )
    mill = await one.ledger.queue.create_project("Mill")
    await one.block("plain")
    await one.block("urgent bug", type="bug", labels=("urgent", "x"))
    await one.block("crash", type="crash")
    await one.block("of the mill", project_id=mill.id)
    await one.notices.tick()
    told = [
        (entry.payload["notices"][0]["title"], entry.payload["notices"][0]["rule"], entry.subject)
        for entry in await one.waiting()
    ]
    assert sorted(told) == [
        ("Blocked: crash", "bugs", "desk"),
        ("Blocked: of the mill", "mill", "mail"),
        ("Blocked: urgent bug", "urgent", "desk"),
        ("Blocked: urgent bug", "urgent", "mail"),
    ]


@pytest.mark.parametrize("digest", [None, "15m"])
async def test_rules_and_channels_whose_names_read_alike_together_are_told_each(
    server: Opened, clock: ManualClock, digest: str | None
) -> None:
    rules = {
        "page": {"on": "blocked", "to": "desk-mail", "digest": digest},
        "page-desk": {"on": "blocked", "to": "mail", "digest": digest},
    }
    channels = {"desk-mail": CHANNELS["desk"], "mail": CHANNELS["mail"]}
    one = await server(plan_of(rules, channels=channels))
    await one.block("first")
    await one.block("second")
    await one.notices.tick()
    clock.advance(901)
    await one.notices.tick()
    letters = await one.waiting()
    told = [(entry.subject, n["title"]) for entry in letters for n in entry.payload["notices"]]
    assert sorted(told) == [
        ("desk-mail", "Blocked: first"),
        ("desk-mail", "Blocked: second"),
        ("mail", "Blocked: first"),
        ("mail", "Blocked: second"),
    ]


async def test_the_past_is_not_told_and_off_means_that_nothing_is_kept(
    server: Opened, store: Store, clock: ManualClock, desk: Desk
) -> None:
    off = Notices(store, plan_of({}))
    await off.forget()
    assert await store.read(lambda tx: tx.get_mark(POSITION)) is None
    one = await Server.on(store, clock, plan_of(), desk)
    await one.block("before the restart")
    again = await server()
    assert await again.told() == [("blocked", "Blocked: before the restart")]
    await again.notices.forget()
    await again.block("while it was off")
    once_more = await server()
    await once_more.block("afterwards")
    assert ("blocked", "Blocked: while it was off") not in await once_more.told()
    assert ("blocked", "Blocked: afterwards") in await once_more.told()


async def test_who_is_beyond_the_end_of_the_log_begins_there_again(server: Opened) -> None:
    """An older copy of the database was put back: it would be silent until the log is as long."""
    one = await server()
    await one.block("before")
    await one.store.transact(lambda tx: tx.put_mark(POSITION, "1000000"))
    again = await server()
    await again.block("after")
    assert await again.told() == [("blocked", "Blocked: after")]


async def test_whose_position_was_forgotten_by_another_server_begins_at_the_end(
    server: Opened,
) -> None:
    one = await server()
    await one.store.transact(lambda tx: tx.forget_notifications())
    await one.block("before it looked")
    assert await one.told() == []
    await one.block("after")
    assert await one.told() == [("blocked", "Blocked: after")]


async def test_a_rule_that_is_new_finds_nothing_of_the_past(server: Opened) -> None:
    one = await server(plan_of({"bugs": {"on": "failed", "to": "desk"}}))
    await one.block("old")
    assert await one.told() == []
    assert await (await server()).told() == []


async def test_servers_at_once_and_restarts_make_one_notification_of_an_event(
    server: Opened, another_store: Callable[[], Awaitable[Store]], desk: Desk
) -> None:
    first, second = await server(), await server(on=await another_store())
    items = [await first.block(f"item {number}") for number in range(12)]
    both = [first, second] * 3
    await asyncio.gather(*(one.notices.tick() for one in both))
    await asyncio.gather(*(one.outbox.tick() for one in both))
    await (await server()).notices.tick()
    await first.outbox.tick()
    assert len(desk.heard) == len(set(desk.heard)) == len(items)
    assert await first.waiting() == []


async def test_whoever_dies_while_reading_has_done_nothing(
    server: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first, second, … write of the transaction."""
    one = await server(plan_of({"all": {"on": ALL, "to": ["desk", "mail"]}}))
    await one.block("a")
    await one.block("b")
    transact, deaths = one.store.transact, 0

    def dying(body: Any) -> Any:
        def half(tx: Any) -> Any:
            left = deaths

            class Mortal:
                def __getattr__(self, name: str) -> Any:
                    nonlocal left
                    if name in ("post", "put_mark"):
                        left -= 1
                        if left < 0:
                            raise ConnectionError("killed")
                    return getattr(tx, name)

            return body(Mortal())

        return transact(half)

    monkeypatch.setattr(one.store, "transact", dying)
    while True:
        with suppress(ConnectionError):
            await one.notices.tick()
            break
        assert await one.waiting() == [], "neither letters without position nor the reverse"
        deaths += 1
    assert deaths == 5
    assert len(await one.waiting()) == 4
    assert await one.told() == await one.told()


async def test_a_reader_that_is_slow_is_waited_for_and_nothing_comes_twice(
    server: Opened, clock: ManualClock, another_store: Callable[[], Awaitable[Store]]
) -> None:
    """The slow one has seen the event and not yet written; meanwhile another would have read it,
    told it and taken it away: then nothing would keep the slow one from writing it again."""
    plan = plan_of({"slow": {"on": "blocked", "to": "desk", "digest": "1s"}})
    quick, slow = await server(plan), await server(plan, on=await another_store())
    await quick.ledger.queue.set_agent("smith", max_concurrent=2)
    await quick.block("one")
    seen, go_on = asyncio.Event(), threading.Event()
    loop, transact = asyncio.get_running_loop(), slow.store.transact

    def late(body: Any) -> Any:
        def waits(tx: Any) -> Any:
            put = tx.put_notice

            def after_a_while(notice: Any) -> None:
                loop.call_soon_threadsafe(seen.set)
                go_on.wait(20)
                put(notice)

            tx.put_notice = after_a_while
            return body(tx)

        return transact(waits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow.store, "transact", late)
        sleeper = asyncio.create_task(slow.notices.tick())
        await seen.wait()
        racer = asyncio.create_task(_one_more(quick))
        await asyncio.wait({racer}, timeout=0.5)  # it waits; without the lock it would be through
        if racer.done():
            clock.advance(2)
            await quick.notices.tick()
        go_on.set()
        await asyncio.gather(sleeper, racer)
    clock.advance(2)
    await quick.notices.tick()
    assert await quick.told() == [("blocked", f"Blocked: {title}") for title in ("one", "two")]


async def _one_more(server: Server) -> None:
    await server.block("two")
    await server.notices.tick()


async def test_what_a_dead_server_was_delivering_is_delivered_by_another(
    server: Opened, clock: ManualClock, desk: Desk
) -> None:
    one = await server()
    await one.block()
    await one.notices.tick()
    now, until = clock.text(), clock.text(TAKEN_SECONDS)
    [taken] = await one.store.transact(lambda tx: tx.take_post(now, until, 10))
    heir = await server()
    await heir.outbox.resume()
    await heir.outbox.tick()
    assert desk.heard == [], "the other may be at it"
    clock.advance(TAKEN_SECONDS)
    await heir.outbox.tick()
    assert desk.heard == [taken.id]


async def test_a_server_leaves_messages_to_the_server_that_has_their_channel(
    server: Opened, clock: ManualClock, desk: Desk
) -> None:
    one = await server()
    sources = WorkSourceManager(SourceContext(ledger=one.ledger, clock=clock))

    def outbox(deliver: Desk, *channels: str) -> Outbox:
        couriers = {NOTIFICATION: deliver, "notify": deliver}
        return Outbox(one.store, one.ledger, sources, couriers, channels=lambda: channels)

    without = Desk(error=DeliveryFailed("there is no channel 'desk'"))
    having, lacking = outbox(desk, "desk", "other"), outbox(without)
    await one.block("first")
    await one.notices.tick()
    assert await lacking.tick() == LOOK_SECONDS, "nothing here is for this server"
    assert without.heard == []
    await having.tick()
    assert len(desk.heard) == 1
    # If nobody has the channel, somebody says so.
    await one.block("second")
    await one.notices.tick()
    clock.advance(LEFT_SECONDS)
    await lacking.tick()
    [waits] = await one.waiting()
    assert (waits.attempts, waits.error) == (1, "there is no channel 'desk'")
    # What goes to an address can be delivered by any server.
    address = OutboxEntry("notify-1", "notify", None, "firing", {}, clock.text())
    await one.store.transact(lambda tx: tx.post(address))
    await lacking.tick()
    assert without.heard == [waits.id, "notify-1"]


async def test_reports_of_runs_do_not_queue_behind_notifications(server: Opened) -> None:
    one = await server()
    await one.block()
    await one.notices.tick()
    one.clock.advance(60)
    report = OutboxEntry("report-1", "report", "smith", "item", {}, one.clock.text())
    await one.store.transact(lambda tx: tx.post(report))
    now, until = one.clock.text(), one.clock.text(60)
    [first] = await one.store.transact(lambda tx: tx.take_post(now, until, 1))
    assert first.id == "report-1"


async def test_what_is_of_no_interest_moves_the_position_now_and_then(
    server: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.notify.chore.FAR_BEHIND", 5)
    one = await server()
    for number in range(8):
        await one.ledger.queue.submit(NewItem("chore", f"item {number}"))
        await one.notices.tick()
    kept = int(await one.store.read(lambda tx: tx.get_mark(POSITION)) or 0)
    last = await one.store.read(lambda tx: tx.last_event())
    assert 0 < last - kept < 5
    await (await server()).block("later", priority=1)
    assert ("blocked", "Blocked: later") in await one.told()


async def test_a_position_that_another_has_moved_on_is_not_put_back(
    server: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.notify.chore.FAR_BEHIND", 1)
    one, other = await server(), await server()
    await one.ledger.queue.submit(NewItem("chore", "of no interest"))
    seen = await one.store.read(lambda tx: tx.last_event())
    await other.block("later", priority=1)
    await other.notices.tick()
    kept = await one.store.read(lambda tx: tx.get_mark(POSITION))
    await one.notices._keep(seen)
    assert await one.store.read(lambda tx: tx.get_mark(POSITION)) == kept


async def test_a_digest_is_one_message_of_all_that_came(
    server: Opened, clock: ManualClock, another_store: Callable[[], Awaitable[Store]]
) -> None:
    plan = plan_of({"slow": {"on": ["blocked", "failed"], "to": "desk", "digest": "15m"}})
    one, other = await server(plan), await server(plan, on=await another_store())
    await one.block("first")
    assert await one.told() == []
    clock.advance(600)
    await one.block("second")
    assert await one.told() == []
    clock.advance(301)
    await asyncio.gather(one.notices.tick(), other.notices.tick(), one.notices.tick())
    [letter] = await one.waiting()
    assert letter.id.startswith("digest-")
    assert [n["title"] for n in letter.payload["notices"]] == ["Blocked: first", "Blocked: second"]
    await one.block("third")
    await one.notices.tick()
    clock.advance(901)
    await (await server(plan)).notices.tick()
    single = [entry for entry in await one.waiting() if entry.id != letter.id]
    assert [entry.id.split("-")[0] for entry in single] == ["notice"], "one alone is no digest"


async def test_a_digest_of_very_many_is_several_messages(
    server: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.notify.gathering.MOST_TOGETHER", 2)
    one = await server(plan_of({"slow": {"on": ["blocked"], "to": "desk", "digest": "15m"}}))
    titles = [f"number {number}" for number in range(5)]
    for title in titles:
        await one.block(title)
    assert await one.told() == []
    clock.advance(901)
    told = await one.told()
    assert sorted(told) == [("blocked", f"Blocked: {title}") for title in titles]
    assert [len(entry.payload["notices"]) for entry in await one.waiting()].count(2) == 2


async def test_what_comes_in_quiet_hours_comes_together_afterwards(
    server: Opened, clock: ManualClock
) -> None:
    hours = {"from": "11:00", "to": "14:00", "timezone": "UTC", "except": ["failed"]}
    rules = {
        "soon": {"on": ["blocked", "failed"], "to": "desk"},
        "slow": {"on": "blocked", "to": "mail", "digest": "5m"},
    }
    one = await server(plan_of(rules, quiet_hours=hours))
    await one.block("first")
    await one.block("second")
    await one.move(Verb.FAIL, await one.item("urgent"), outcome="failed")
    assert await one.told() == [("failed", "Failed: urgent")]
    clock.advance(7199)
    assert len(await one.told()) == 1
    clock.advance(2)
    await one.notices.tick()
    digests = [e for e in await one.waiting() if e.id.startswith("digest-")]
    assert {(e.subject, len(e.payload["notices"])) for e in digests} == {("desk", 2), ("mail", 2)}
    await one.block("in the afternoon")
    assert ("blocked", "Blocked: in the afternoon") in await one.told()


async def test_what_is_not_taken_is_tried_again_and_then_kept_for_a_person(
    server: Opened, clock: ManualClock, desk: Desk
) -> None:
    one = await server()
    await one.block()
    await one.notices.tick()
    assert one.outbox.woken.look()
    assert not one.outbox.woken.look()
    desk.error = DeliveryFailed("it answered 429", after=900.0)
    await one.outbox.tick()
    [waits] = await one.waiting()
    assert waits.error == "it answered 429"
    assert waits.next_attempt_at == to_text(clock.now() + timedelta(seconds=900))
    desk.error = DeliveryFailed("it answered 503")
    pauses = []
    while waiting := await one.waiting():
        before = clock.now()
        clock.advance(TAKEN_SECONDS * 10)
        await one.outbox.tick()
        pauses.append((clock.now() - before).total_seconds())
        assert waiting[0].attempts < MOST_ATTEMPTS + 1
    assert len(desk.heard) == MOST_ATTEMPTS
    assert len(set(desk.heard)) == 1, "always the same id"
    [dead] = await one.waiting(buried=True)
    assert dead.error == "it answered 503"
    desk.error = None
    await one.ledger.post.retry(dead.id)
    assert one.outbox.woken.look()
    await one.outbox.tick()
    assert await one.waiting() == []
    assert await one.waiting(buried=True) == []


async def test_a_receiver_is_left_alone_for_a_day_at_most_whatever_it_says(
    server: Opened, clock: ManualClock, desk: Desk
) -> None:
    one = await server()
    await one.block()
    await one.notices.tick()
    desk.error = DeliveryFailed("it answered 429", after=1e9)
    await one.outbox.tick()
    [waits] = await one.waiting()
    assert waits.next_attempt_at == to_text(clock.now() + timedelta(days=1))


async def test_what_will_never_be_taken_is_given_up_at_once(server: Opened, desk: Desk) -> None:
    one = await server()
    await one.block()
    await one.notices.tick()
    desk.error = DeliveryFailed("it answered 404", final=True)
    await one.outbox.tick()
    [dead] = await one.waiting(buried=True)
    assert (dead.attempts, dead.error) == (1, "it answered 404")


async def test_attempts_of_many_are_spread_and_grow(
    server: Opened, clock: ManualClock, desk: Desk
) -> None:
    one = await server()
    for number in range(10):
        await one.block(f"item {number}")
    await one.notices.tick()
    desk.error = DeliveryFailed("no answer within 10 s")
    await one.outbox.tick()
    waits = {entry.next_attempt_at for entry in await one.waiting()}
    assert len(waits) == 10
    assert all(clock.text(3.75) <= moment <= clock.text(5) for moment in waits)


async def test_a_message_that_waits_keeps_no_item_and_no_claim(server: Opened) -> None:
    one = await server()
    item = await one.block()
    await one.notices.tick()
    assert await one.store.read(lambda tx: tx.pending_subjects([item.id])) == set()
    assert await one.outbox.keeping.tick() > 1
