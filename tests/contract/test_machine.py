"""Both databases and a model of forty fields, asked the same questions in any order.

Hypothesis makes up the orders. After every step each database must have answered as the model
does, hold the rows that the model holds, and agree with itself (`rota.testing.audit`).
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from hypothesis.stateful import run_state_machine_as_test as run_machine

from rota.app import make_store
from rota.model.claims import ClaimRequest
from rota.model.errors import RotaError
from rota.model.status import OUTCOME_OF, RULES, TERMINAL, Status, Verb, allowed_from
from rota.model.work import NewItem, WorkItem
from rota.queue import Ledger
from rota.storage.port import Store
from rota.storage.postgres import PostgresStore
from rota.storage.sqlite import SqliteStore
from rota.testing.audit import faults, read_ledger
from rota.testing.clock import ManualClock
from rota.testing.emptying import empty
from rota.testing.standing import NEEDS, order

LABELS = st.sampled_from([frozenset[str](), frozenset({"red"}), frozenset({"red", "blue"})])
LEASE = 60.0
QUIET = 30 * 60.0
SLOTS = {"ada": 1, "bob": 2}
MOST = 6
ONWARD = (Verb.DISPATCH, Verb.START, Verb.BLOCK, Verb.RESUME)  # deep into the table
DROPS_AGENT = (Verb.RELEASE, Verb.REOPEN, Verb.RETRY)
ENTERS_WORK = (Verb.START, Verb.RESUME)


# the model


@dataclass
class Item:
    """What we believe of an item. Times are seconds since the beginning."""

    number: int
    priority: int
    agent: str | None
    pinned: bool
    max_attempts: int
    available_at: float | None
    deferred: bool
    open_blockers: int
    updated: float
    labels: frozenset[str]
    status: Status = Status.QUEUED
    reason: str | None = None
    slot: int | None = None
    epoch: int = 0
    attempts: int = 0
    notes: str | None = None
    hold: str | None = None
    ended: float | None = None
    claim: int | None = None  # the epoch of the live claim
    expires: float | None = None
    version: int = 1
    by_holder: bool = False  # the last move ended a claim, and its holder made it
    dependents: list[int] = field(default_factory=list)


class Refusal(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Model:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.now = 0.0
        self.late_results: set[tuple[int, int, Verb]] = set()  # said again, it is kept once

    def submit(self, new: dict[str, Any]) -> Item:
        blocker = new["blocker"]
        waits = blocker is not None and self.items[blocker].status is not Status.COMPLETED
        available_at = None if new["delay"] is None else self.now + new["delay"]
        item = Item(
            len(self.items),
            new["priority"],
            new["agent"],
            new["agent"] is not None,
            new["max_attempts"],
            available_at,
            available_at is not None and available_at > self.now,
            int(waits),
            self.now,
            new["labels"],
        )
        if blocker is not None:
            self.items[blocker].dependents.append(item.number)
        self.items.append(item)
        return item

    def busy(self, agent: str) -> set[int | None]:
        return {
            item.slot
            for item in self.items
            if item.agent == agent and item.status is Status.IN_PROGRESS
        }

    def free(self, agent: str) -> list[int]:
        return [slot for slot in range(SLOTS[agent]) if slot not in self.busy(agent)]

    def move(self, item: Item, verb: Verb, **how: Any) -> Item:
        """One transition, as an order for it is judged."""
        token, force = how.get("token"), how.get("force", False)
        rule_ = RULES[verb]
        slot = None
        if verb in ENTERS_WORK and item.status in rule_.sources and item.agent is not None:
            if not force and self._kept_back(item, verb):
                raise Refusal("refused")
            if not self.free(item.agent):
                raise Refusal("no_free_slot")
            slot = self.free(item.agent)[0]
        fits = item.status in rule_.sources and (force or item.claim == token)
        if not fits:
            return self._refused(item, verb, token)
        item.by_holder = item.status is Status.IN_PROGRESS and not force
        self._set(item, verb, how.get("reason") or str(verb), slot)
        named = how.get("agent")
        if named is not None:
            item.pinned = item.pinned and item.agent in (None, named)
            item.agent = named
        if verb in DROPS_AGENT and not item.pinned:
            item.agent = None
        item.notes = how.get("notes") or item.notes
        if verb is Verb.COMPLETE:
            for number in item.dependents:
                waiting = self.items[number]
                waiting.open_blockers -= 1
                waiting.version += 1
                waiting.updated = self.now
        return item

    def _kept_back(self, item: Item, verb: Verb) -> bool:
        early = item.available_at is not None and item.available_at > self.now
        return item.hold is not None or (verb is Verb.START and (item.open_blockers > 0 or early))

    def _refused(self, item: Item, verb: Verb, token: int | None) -> Item:
        if token is not None and item.claim != token:
            target = RULES[verb].target
            told = (item.epoch, item.reason, item.status) == (token, str(verb), target)
            if told and item.by_holder:
                return item  # a repeat: the answer was lost, the deed is done
            self.late_results.add((item.number, token, verb))
            raise Refusal("claim_lost")
        if item.status not in RULES[verb].sources:
            raise Refusal("transition_refused")
        raise Refusal("claimed")

    def _set(self, item: Item, verb: Verb, reason: str, slot: int | None) -> None:
        item.status, item.reason, item.slot = RULES[verb].target, reason, slot
        item.updated = self.now
        item.ended = self.now if item.status in TERMINAL else None
        item.claim = item.expires = None
        item.version += 1
        if verb in ENTERS_WORK:
            item.epoch += 1
            item.attempts += 1
        if verb is Verb.RETRY:
            item.attempts = 0

    def claim(self, agent: str, limit: int, labels: frozenset[str]) -> list[Item] | str:
        got = self._take(agent, limit, labels)
        if not got and self._catch_up():
            got = self._take(agent, limit, labels)
        if got:
            return got
        return "nothing_ready" if self.free(agent) else "no_free_slot"

    def _take(self, agent: str, limit: int, labels: frozenset[str]) -> list[Item]:
        ready = [
            item
            for item in self.items
            if item.hold is None
            and labels <= item.labels
            and not item.deferred
            and item.open_blockers == 0
            and (item.status, item.agent)
            in ((Status.DISPATCHED, agent), (Status.QUEUED, agent), (Status.QUEUED, None))
        ]
        ready.sort(key=lambda item: (item.status is Status.QUEUED, item.priority, item.number))
        took = list(zip(ready, self.free(agent)[:limit], strict=False))
        for item, slot in took:
            self._set(item, Verb.START, "claimed", slot)
            item.agent, item.claim, item.expires = agent, item.epoch, self.now + LEASE
        return [item for item, _ in took]

    def _catch_up(self) -> bool:
        return bool(self._promote() + len(self._lapse()))

    def _promote(self) -> int:
        due = [
            item
            for item in self.items
            if item.deferred and item.available_at is not None and item.available_at <= self.now
        ]
        for item in due:
            item.deferred = False
        return len(due)

    def _lapse(self) -> list[tuple[str, int]]:
        swept = []
        for item in self.items:
            if item.expires is None or item.expires > self.now:
                continue
            spent = item.attempts >= item.max_attempts
            verb = Verb.FAIL if spent else Verb.RELEASE
            why = "attempts_exhausted" if spent else "lease_expired"
            self.move(item, verb, token=item.claim, reason=why)
            swept.append(("failed" if spent else "released", item.number))
        return swept

    def sweep(self) -> tuple[int, set[tuple[str, int]]]:
        due, swept = self._promote(), set(self._lapse())
        for item in self.items:
            quiet = item.status is Status.IN_PROGRESS and item.claim is None
            if quiet and item.updated < self.now - QUIET:
                self.move(item, Verb.BLOCK, reason="stale", notes="(of the sweeper)")
                swept.add(("blocked", item.number))
        return due, swept

    def beat(self, item: Item, token: int) -> float:
        if item.claim != token:
            raise Refusal("claim_lost")
        item.expires = self.now + LEASE
        return item.expires

    def hold(self, item: Item, why: str | None) -> Item:
        if item.status in TERMINAL and item.status is not Status.FAILED:
            raise Refusal("refused")
        if item.hold != why:
            item.hold = why
            item.updated = self.now
            item.version += 1
        return item

    def edit(self, item: Item, priority: int, labels: frozenset[str]) -> Item:
        item.priority, item.labels, item.updated = priority, labels, self.now
        item.version += 1
        return item

    def note(self, item: Item, text: str) -> Item:
        item.notes, item.updated = text, self.now
        item.version += 1
        return item


# the machine


@dataclass
class Side:
    """One of the databases, with the names it gave to the items and claims of the model."""

    store: Store
    ledger: Ledger
    ids: list[str] = field(default_factory=list)
    tokens: dict[tuple[int, int], str] = field(default_factory=dict)

    def number(self, item_id: str) -> int:
        return self.ids.index(item_id)


class Machine(RuleBasedStateMachine):
    postgres = ""  # set by the test

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.start = self.clock.now()
        self.model = Model()
        self.claims: list[tuple[int, int]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="rota-machine-"))
        self.runner = asyncio.Runner()
        empty(self.postgres)
        self.sides = [self.runner.run(self._open(store)) for store in self._stores()]

    def _stores(self) -> list[SqliteStore | PostgresStore]:
        return [
            SqliteStore(self.folder / "rota.db", clock=self.clock),
            PostgresStore(self.postgres, lanes=1, clock=self.clock),
        ]

    async def _open(self, store: SqliteStore | PostgresStore) -> Side:
        await store.open()
        side = Side(store, Ledger.on(store))
        for agent, slots in SLOTS.items():
            await side.ledger.queue.set_agent(agent, max_concurrent=slots)
        return side

    def teardown(self) -> None:
        for side in self.sides:
            self.runner.run(side.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    # asking all three

    def ask(self, believe: Callable[[], Any], do: Callable[[Side], Awaitable[Any]]) -> None:
        """The model's answer, a refusal included, must be that of each database."""
        try:
            expected = believe()
        except Refusal as refusal:
            expected = refusal.code
        for side in self.sides:
            try:
                answer = self.runner.run(self._asked(side, do))
            except RotaError as error:
                answer = error.code
            if isinstance(expected, Item):
                assert isinstance(answer, WorkItem), answer
                answer, wanted = self.told(side, answer), self.believed(expected)
                assert answer == wanted
            else:
                assert answer == expected

    @staticmethod
    async def _asked(side: Side, do: Callable[[Side], Awaitable[Any]]) -> Any:
        return await do(side)

    def moment(self, seconds: float | None) -> str | None:
        return None if seconds is None else self.clock.text(seconds - self.model.now)

    def believed(self, item: Item) -> dict[str, Any]:
        return {
            "number": item.number,
            "priority": item.priority,
            "labels": item.labels,
            "status": item.status,
            "reason": item.reason,
            "agent": item.agent,
            "pinned": item.pinned,
            "slot": item.slot,
            "epoch": item.epoch,
            "attempts": item.attempts,
            "version": item.version,
            "hold": item.hold,
            "deferred": item.deferred,
            "open_blockers": item.open_blockers,
            "outcome": OUTCOME_OF.get(item.status),
            "completed_at": self.moment(item.ended),
            "updated_at": self.moment(item.updated),
            "claimed": item.claim is not None,
            "lease": self.moment(item.expires),
            "notes": item.notes,
        }

    def told(self, side: Side, item: WorkItem) -> dict[str, Any]:
        by_sweeper = item.notes is not None and item.notes.startswith("No update since")
        return {
            "number": side.number(item.id),
            "priority": item.priority,
            "labels": frozenset(item.labels),
            "status": item.status,
            "reason": item.reason,
            "agent": item.assigned_agent,
            "pinned": item.pinned,
            "slot": item.slot,
            "epoch": item.epoch,
            "attempts": item.attempts,
            "version": item.version,
            "hold": item.hold_reason,
            "deferred": item.deferred,
            "open_blockers": item.open_blockers,
            "outcome": item.outcome,
            "completed_at": item.completed_at,
            "updated_at": item.updated_at,
            "claimed": item.claim_token is not None,
            "lease": item.lease_expires_at,
            "notes": "(of the sweeper)" if by_sweeper else item.notes,
        }

    # the rules

    @initialize(data=st.data(), count=st.integers(1, 5))
    def begin(self, data: st.DataObject, count: int) -> None:
        """Items at any place of the table: from there on it becomes interesting."""
        for number in range(count):
            self.submit_one(data)
            item = self.model.items[number]
            for _ in range(data.draw(st.integers(0, 5), "steps")):
                allowed = [*allowed_from(item.status)]
                if verbs := [verb for verb in allowed if verb in ONWARD] * 4 + allowed:
                    self.operator(item, data.draw(st.sampled_from(verbs), "verb"), "bob", False)

    @precondition(lambda self: len(self.model.items) < MOST)  # few items, long lives
    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        self.submit_one(data)

    def submit_one(self, data: st.DataObject) -> None:
        numbers: list[int | None] = [None] * 4 + list(range(len(self.model.items)))
        new = data.draw(
            st.fixed_dictionaries(
                {
                    "priority": st.integers(1, 3),
                    "agent": st.sampled_from([None, None, None, "ada", "bob"]),
                    "max_attempts": st.integers(1, 2),
                    "delay": st.sampled_from([None, None, None, -1.0, 30.0]),
                    "blocker": st.sampled_from(numbers),
                    "labels": LABELS,
                }
            ),
            "item",
        )

        async def do(side: Side) -> WorkItem:
            blocker, delay = new["blocker"], new["delay"]
            item = await side.ledger.queue.submit(
                NewItem(
                    "chore",
                    "x",
                    priority=new["priority"],
                    assigned_agent=new["agent"],
                    max_attempts=new["max_attempts"],
                    available_at=None if delay is None else self.clock.text(delay),
                    blocked_by=() if blocker is None else (side.ids[blocker],),
                    labels=tuple(sorted(new["labels"])),
                )
            )
            side.ids.append(item.id)
            return item

        self.ask(lambda: self.model.submit(new), do)

    def item(self, data: st.DataObject) -> Item:
        return data.draw(st.sampled_from(self.model.items), "item")

    def handle(self, data: st.DataObject) -> tuple[Item, int]:
        """A claim: most often one that lives, but any that ever was may speak up."""
        live = [(item.number, item.claim) for item in self.model.items if item.claim is not None]
        number, epoch = data.draw(st.sampled_from(live * 3 + self.claims), "claim")
        return self.model.items[number], epoch

    @rule(agent=st.sampled_from(sorted(SLOTS)), limit=st.integers(1, 3), labels=LABELS)
    def claim(self, agent: str, limit: int, labels: frozenset[str]) -> None:
        expected = self.model.claim(agent, limit, labels)
        for side in self.sides:
            request = ClaimRequest(agent, limit, lease_seconds=LEASE, labels=tuple(sorted(labels)))
            result = self.runner.run(side.ledger.queue.claim(request))
            if isinstance(expected, str):
                assert (result.items, result.reason) == ([], expected)
                continue
            got = [self.told(side, one.item) for one in result.items]
            assert got == [self.believed(item) for item in expected]
            for one in result.items:
                side.tokens[side.number(one.item.id), one.claim.epoch] = one.claim.token
        if not isinstance(expected, str):
            self.claims += [(item.number, item.epoch) for item in expected]

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(),
        verb=st.sampled_from(
            [Verb.COMPLETE, Verb.COMPLETE, Verb.FAIL, Verb.BLOCK, Verb.HAND_OVER, Verb.RELEASE]
        ),
    )
    def holder_says(self, data: st.DataObject, verb: Verb) -> None:
        """By the token of a claim, which may have ended long ago."""
        item, epoch = self.handle(data)

        async def do(side: Side) -> WorkItem:
            token = side.tokens[item.number, epoch]
            return (
                await side.ledger.queue.apply(order(verb, side.ids[item.number], token=token))
            ).item

        notes = NEEDS.get(verb, {}).get("notes")
        self.ask(lambda: self.model.move(item, verb, token=epoch, notes=notes), do)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        item, epoch = self.handle(data)

        async def do(side: Side) -> str | None:
            token = side.tokens[item.number, epoch]
            return (await side.ledger.queue.heartbeat(side.ids[item.number], token)).expires_at

        self.ask(lambda: self.moment(self.model.beat(item, epoch)), do)

    @rule(data=st.data(), agent=st.sampled_from(sorted(SLOTS)), force=st.booleans())
    def operator_says(self, data: st.DataObject, agent: str, force: bool) -> None:
        """Without a token: most often what is possible, but anything may be asked for."""
        item = self.item(data)
        verbs = [*allowed_from(item.status)] * 4 + list(Verb)
        self.operator(item, data.draw(st.sampled_from(verbs), "verb"), agent, force)

    def operator(self, item: Item, verb: Verb, agent: str, force: bool) -> None:
        named = agent if verb is Verb.DISPATCH else None

        async def do(side: Side) -> WorkItem:
            asked = order(verb, side.ids[item.number], agent=named, force=force)
            return (await side.ledger.queue.apply(asked)).item

        notes = NEEDS.get(verb, {}).get("notes")
        self.ask(lambda: self.model.move(item, verb, agent=named, force=force, notes=notes), do)

    # Rules are chosen evenly, and this one has the most to say.
    operator_says_more = rule(
        data=st.data(), agent=st.sampled_from(sorted(SLOTS)), force=st.booleans()
    )(lambda self, data, agent, force: self.operator_says(data, agent, force))

    @rule(data=st.data(), why=st.sampled_from([None, "wait", "stop", "note"]))
    def operator_remarks(self, data: st.DataObject, why: str | None) -> None:
        """A hold, its end, or a note."""
        item = self.item(data)

        async def do(side: Side) -> WorkItem:
            item_id, queue = side.ids[item.number], side.ledger.queue
            if why == "note":
                return await queue.note(item_id, "hm")
            return await (queue.unhold(item_id) if why is None else queue.hold(item_id, why))

        self.ask(
            lambda: self.model.note(item, "hm") if why == "note" else self.model.hold(item, why), do
        )

    @rule(data=st.data(), priority=st.integers(1, 3), labels=LABELS)
    def operator_edits(self, data: st.DataObject, priority: int, labels: frozenset[str]) -> None:
        item = self.item(data)

        async def do(side: Side) -> WorkItem:
            said = order(Verb.RELEASE, side.ids[item.number])
            edits = {"priority": priority, "labels": sorted(labels)}
            return (await side.ledger.queue.change(said, None, edits)).item

        self.ask(lambda: self.model.edit(item, priority, labels), do)

    @rule(
        seconds=st.sampled_from([0.0, 1.0, LEASE - 1, LEASE, QUIET, QUIET + 1]),
        sweeping=st.booleans(),
    )
    def time_passes(self, seconds: float, sweeping: bool) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds
        if sweeping:
            self.sweep()

    def sweep(self) -> None:
        due, swept = self.model.sweep()
        for side in self.sides:
            told = self.runner.run(side.ledger.sweeper.tick())
            assert told.due == due
            assert {
                (name, side.number(item_id))
                for name in ("released", "failed", "blocked")
                for item_id in getattr(told, name)
            } == swept

    # what always holds

    @invariant()
    def every_ledger_is_the_model_s(self) -> None:
        for side in self.sides:
            records = self.runner.run(side.store.read(read_ledger))
            assert faults(records) == []
            rows = [self.told(side, record.item) for record in records]
            assert rows == [self.believed(item) for item in self.model.items]
            late = sum(e.type == "work.late_result" for record in records for e in record.events)
            assert late == len(self.model.late_results)


def run(url: str, examples: int, steps: int) -> None:
    anyio.run(make_store(url).upgrade)
    run_machine(
        type("LedgerMachine", (Machine,), {"postgres": url}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.mark.early
def test_both_databases_do_what_the_model_says(empty_postgres: str) -> None:
    run(empty_postgres, examples=25, steps=25)
