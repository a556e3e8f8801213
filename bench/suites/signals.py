"""What signals cost those who do not use them, and how fast they fire for those who do."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import uvloop

from bench.cell import Place
from bench.fleet import in_child
from bench.places import both_databases, several_places
from bench.report import Outcome, Table
from bench.suites import Options

_ACTIVE = (0, 1_000, 100_000)
_BATCH = 500
_CALLERS = 20


def run(options: Options) -> Outcome:
    moves, firings = (400, 500) if options.quick else (4_000, 5_000)
    active = _ACTIVE[:2] if options.quick else _ACTIVE
    costs = [
        {"database": name, **figure}
        for name, places in several_places(options.directory, len(active))
        for figure in in_child(_costs, places, active, moves)
    ]
    speeds = [
        {"database": name, **in_child(_speed, place, firings)}
        for name, place in both_databases(options.directory)
    ]
    return Outcome(
        [*costs, *speeds],
        [
            Table("A transition beside active signals of others", _COST_COLUMNS, _cost_rows(costs)),
            Table("Firings with durable follow-ups", _SPEED_COLUMNS, _speed_rows(speeds)),
        ],
    )


def _costs(places: list[Place], active: tuple[int, ...], moves: int) -> list[dict[str, Any]]:
    return uvloop.run(_moved(places, active, moves))


async def _moved(places: list[Place], active: tuple[int, ...], moves: int) -> list[dict[str, Any]]:
    """Dispatch and release, one move in each place in turn, so that other load on the machine
    affects all of them alike."""
    async with AsyncExitStack() as opened:
        lanes = []
        for place, count in zip(places, active, strict=True):
            store, ledger, signals = await opened.enter_async_context(_opened(place))
            await _others(ledger, signals, store, count)
            items = await ledger.queue.submit_many(_chores())
            lanes.append(_Lane(store, ledger, [item.id for item in items.items], []))
        for number in range(moves):
            for lane in lanes:
                await lane.move(number)
        for lane in lanes:
            waiting = await lane.store.read(lambda tx: tx.next_firing())
            assert waiting is None, "another item's signal was set off"
    return [
        {"active": count, "moves": moves, **_percentiles(lane.taken)}
        for count, lane in zip(active, lanes, strict=True)
    ]


def _chores() -> list[Any]:
    from rota.model.work import NewItem

    return [NewItem("chore", "x") for _ in range(_BATCH)]


@dataclass
class _Lane:
    store: Any
    ledger: Any
    items: list[str]
    taken: list[float]

    async def move(self, number: int) -> None:
        from rota.model.status import Verb
        from rota.queue.moves import Order

        back = number // len(self.items) % 2
        item, verb = self.items[number % len(self.items)], Verb.RELEASE if back else Verb.DISPATCH
        began = time.perf_counter()
        await self.ledger.queue.apply(Order(verb, item, "bench", agent=None if back else "ada"))
        self.taken.append(time.perf_counter() - began)


def _percentiles(taken: list[float]) -> dict[str, int]:
    ordered = sorted(taken)
    return {
        "p50_us": round(ordered[len(ordered) // 2] * 1e6),
        "p99_us": round(ordered[int(len(ordered) * 0.99)] * 1e6),
    }


async def _others(ledger: Any, signals: Any, store: Any, count: int) -> None:
    """Active signals, each on its own item."""
    from rota.model.work import NewItem
    from rota.signals.making import insert

    spec = {"kind": "work_item.status.transition", "to": ["failed", "dispatched", "queued"]}
    for start in range(0, count, _BATCH):
        many = [NewItem("chore", "watched") for _ in range(min(_BATCH, count - start))]
        items = await ledger.queue.submit_many(many)
        made = [
            signals._signal(signals.read(spec, work_item_id=item.id), "bench", "2026-01-01")
            for item in items.items
        ]
        await store.transact(
            lambda tx, made=made: [insert(tx, one, one.created_at) for one in made]
        )


def _speed(place: Place, firings: int) -> dict[str, Any]:
    return uvloop.run(_fired(place, firings))


async def _fired(place: Place, firings: int) -> dict[str, Any]:
    from rota.model.status import Verb
    from rota.queue.moves import Order
    from rota.signals import SignalScheduler

    async with _opened(place) as (store, ledger, signals):
        spec = {"kind": "work_item.status.transition", "to": ["dispatched"]}
        then = {"kind": "submit", "title": "After {item.id}"}
        await signals.create(signals.read(spec, then, max_fires=None))
        ids: list[str] = []
        for _ in range(firings // _BATCH):
            new = await ledger.queue.submit_many(_chores())
            ids += [item.id for item in new.items]

        async def lane(number: int) -> None:
            for item in ids[number::_CALLERS]:
                await ledger.queue.apply(Order(Verb.DISPATCH, item, "bench", agent="ada"))

        await asyncio.gather(*(lane(number) for number in range(_CALLERS)))
        began = time.perf_counter()
        fired = await SignalScheduler(store, owner="bench").tick()
        seconds = time.perf_counter() - began
    assert fired == len(ids), (fired, len(ids))
    return {"firings": fired, "per_minute": round(fired / seconds * 60)}


def _opened(place: Place) -> Any:
    from contextlib import asynccontextmanager

    from rota.app import open_store
    from rota.queue.ledger import Ledger
    from rota.signals import Signals

    @asynccontextmanager
    async def opened() -> Any:
        async with open_store(place.url or str(place.directory / "rota.db")) as store:
            yield store, Ledger.on(store), Signals(store)

    return opened()


_COST_COLUMNS = ("database", "active signals", "p50 µs", "p99 µs", "÷ none")
_SPEED_COLUMNS = ("database", "firings", "per minute")


def _cost_rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    none = {one["database"]: one["p50_us"] for one in figures if not one["active"]}
    return [
        [
            one["database"],
            f"{one['active']:,}",
            f"{one['p50_us']}",
            f"{one['p99_us']}",
            f"{one['p50_us'] / none[one['database']]:.2f}×",
        ]
        for one in figures
    ]


def _speed_rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    return [[one["database"], f"{one['firings']:,}", f"{one['per_minute']:,}"] for one in figures]
