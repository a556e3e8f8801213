"""Figures of the past for all faces: throughput, lead time, time in status, depth, cost.

Counts are exact and come from indexes. Figures that need each item are taken from a sample, so
that a ledger of millions costs about as much as one of thousands.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from rota.model.clock import from_text, to_text
from rota.model.runs import Spent
from rota.model.statistics import (
    Bucket,
    Period,
    Spread,
    Statistics,
    Window,
    buckets,
    read_zone,
    spread,
)
from rota.model.status import TERMINAL, Status
from rota.model.vitals import Vitals
from rota.queue.vitals import vitals
from rota.storage.port import Store, Transaction
from rota.storage.statistic_port import Arrival, Ended

MOST_TIMED = 512  # of each bucket
SLICES = 8  # a bucket with more items is sampled in this many slices
MOST_FOLLOWED = 1_000  # items whose way through the statuses is read
MOST_FAILURES = 10_000
MOST_REASONS = 10
OTHERS = "others"
NO_REASON = "no reason given"
ERROR = "Error: "  # begins the error line in the report of a run
LONGEST_REASON = 120
# Figures that took longer than this many seconds are cached for twenty times as long as they took:
# pages that refresh themselves then never use more than a twentieth of a reader.
SLOW = 0.05
KEPT_TIMES = 20
MOST_KEPT = 50


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    statistics: Statistics


class Figures:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = store.clock
        self._kept: dict[tuple[Window, str], _Kept] = {}
        self._looking = asyncio.Lock()

    async def over(self, window: Window, zone: str = "UTC") -> Statistics:
        """Hours and days are in this time zone."""
        read_zone(zone)
        async with self._looking:  # concurrent calls share the result
            kept = self._kept.get((window, zone))
            if kept is not None and (left := kept.until - time.monotonic()) > 0:
                return replace(kept.statistics, again_in=left)
            return await self._looked(window, zone)

    async def vitals(self) -> Vitals:
        """The current figures of the fleet; cheap, and the same from every server."""
        now = self._clock.now()
        return await self._store.read(lambda tx: vitals(tx, now), long=True)

    async def _looked(self, window: Window, zone: str) -> Statistics:
        now, began = self._clock.now(), time.monotonic()
        found = await self._store.read(lambda tx: gather(tx, window, zone, now), long=True)
        taken = time.monotonic() - began
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        if pause := kept_for(taken):
            self._kept[window, zone] = _Kept(began + taken + pause, found)
        return found


def kept_for(taken: float) -> float:
    """For how many seconds to cache figures that took this long to compute."""
    return taken * KEPT_TIMES if taken > SLOW else 0.0


def gather(tx: Transaction, window: Window, zone: str, now: datetime) -> Statistics:
    parts = buckets(window, now, read_zone(zone))
    whole = Bucket(parts[0].begins, parts[-1].ends)
    ended = [{end: tx.count_ended(end, part) for end in TERMINAL} for part in parts]
    created = [tx.count_created(part) for part in parts]
    standing = tx.count_open()
    depths = _depths(sum(standing.values()), created, ended)
    times = [
        _lead_times(tx, part, of[Status.COMPLETED]) for part, of in zip(parts, ended, strict=True)
    ]
    runs = [tx.spent_by_status(part) for part in parts]
    periods = tuple(
        Period(
            part.begins,
            part.ends,
            created[n],
            ended[n][Status.COMPLETED],
            ended[n][Status.FAILED],
            ended[n][Status.CANCELLED],
            depths[n],
            spread(times[n]),
            _together(runs[n].values()),
        )
        for n, part in enumerate(parts)
    )
    return Statistics(
        window,
        zone,
        to_text(now),
        periods,
        standing,
        spread(timed for part in times for timed in part),
        _times_in_status(tx, whole),
        _failures(tx.failure_reasons(whole, MOST_FAILURES)),
        _by_status(runs),
        _together(period.spent for period in periods),
    )


def _depths(now: int, created: Sequence[int], ended: Sequence[Mapping[Status, int]]) -> list[int]:
    """How many items were open at the end of each bucket, computed from now backwards."""
    depths = []
    for made, ends in zip(reversed(created), reversed(ended), strict=True):
        depths.append(max(0, now))  # after a clock jump, an end may lie before its beginning
        now += sum(ends.values()) - made
    return depths[::-1]


# lead time


def _lead_times(tx: Transaction, part: Bucket, count: int) -> list[tuple[float, float]]:
    """Seconds from creation to completion, each with the number of items it stands for."""
    if not count:
        return []
    places = [part] if count <= MOST_TIMED else _slices(part)
    found = [
        _seconds(one.created_at, one.completed_at)
        for place in places
        for one in tx.last_ended(Status.COMPLETED, place, MOST_TIMED // len(places))
    ]
    return [(seconds, count / len(found)) for seconds in found]


def _slices(part: Bucket) -> list[Bucket]:
    """The last items of a busy day are all from its last minutes, so sample other times too."""
    begins, ends = from_text(part.begins), from_text(part.ends)
    step = (ends - begins) / SLICES
    edges = [to_text(begins + n * step) for n in range(SLICES)] + [part.ends]
    return [Bucket(edges[n], edges[n + 1]) for n in range(SLICES)]


def _seconds(begins: str, ends: str) -> float:
    return max(timedelta(), from_text(ends) - from_text(begins)).total_seconds()


# time in status


def _times_in_status(tx: Transaction, whole: Bucket) -> dict[Status, Spread]:
    ended = [one for end in TERMINAL for one in tx.last_ended(end, whole, MOST_FOLLOWED)]
    ended.sort(key=lambda one: one.completed_at, reverse=True)
    followed = ended[:MOST_FOLLOWED]
    stays = _stays(tx.arrivals([one.id for one in followed]), followed)
    return {
        status: spread((seconds, 1.0) for seconds in stays[status])
        for status in Status
        if status not in TERMINAL
    }


def _stays(arrivals: Iterable[Arrival], ended: Sequence[Ended]) -> dict[Status, list[float]]:
    """How long each item was in each status, with repeated stays added up."""
    ways: defaultdict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        ways[arrival.item_id].append(arrival)
    found: defaultdict[Status, list[float]] = defaultdict(list)
    for item in ended:
        for status, seconds in _stays_of(ways[item.id]).items():
            found[status].append(seconds)
    return found


def _stays_of(way: Sequence[Arrival]) -> Mapping[Status, float]:
    stays: defaultdict[Status, float] = defaultdict(float)
    for here, following in pairwise(way):
        stays[here.status] += _seconds(here.at, following.at)
    return stays


# failures and runs


def _failures(
    counted: Iterable[tuple[str | None, str | None, int]],
) -> tuple[tuple[str, int], ...]:
    named: Counter[str] = Counter()
    for reason, noted, count in counted:
        given = reason if reason not in (None, "", "fail") else _said(noted or "")
        named[given or NO_REASON] += count
    told = named.most_common()
    rest = sum(count for _, count in told[MOST_REASONS:])
    return (*told[:MOST_REASONS], *([(OTHERS, rest)] if rest else []))


def _said(note: str) -> str:
    """The error line of a run's report, else the first line of the note."""
    lines = [line.strip() for line in note.splitlines() if line.strip()]
    errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    first = (errors or lines or [""])[0]
    return first if len(first) <= LONGEST_REASON else f"{first[: LONGEST_REASON - 1]}…"


def _by_status(runs: Iterable[Mapping[str, Spent]]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for part in runs:
        counted.update({status: spent.runs for status, spent in part.items()})
    return dict(counted.most_common())


def _together(parts: Iterable[Spent]) -> Spent:
    kept = list(parts)
    return Spent(
        sum(one.runs for one in kept),
        sum((one.seconds for one in kept), 0.0),
        sum(one.tokens for one in kept),
        sum((one.cost_usd for one in kept), 0.0),
    )
