"""Delivers the reports of runs to the sources of their items.

A report is stored together with the end of its run, and delivered afterwards. If the tracker is
down, or the process dies during delivery, it is delivered later, and the source shows it once.
While a report waits, the item's claim is kept alive, so that nobody does the work again.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import structlog

from rota.model.clock import from_text, to_text
from rota.model.errors import (
    ClaimLost,
    DeliveryFailed,
    NotFound,
    Refused,
    RotaError,
    UnknownWorkSourceError,
    WorkSourceError,
)
from rota.model.runs import FIRST_POST, OutboxEntry, Run
from rota.model.work import MAX_PAGE
from rota.queue.ledger import Ledger
from rota.sources.holding import Sourced, Taken
from rota.sources.http.errors import TokenError
from rota.sources.manager import WorkSourceManager
from rota.sources.port import ReleaseOptions, WorkResult
from rota.storage.port import Store, Topic, Transaction
from rota.storage.wakeups import Commits

log = structlog.get_logger()

REPORT = "report"
Courier = Callable[[OutboxEntry], Awaitable[None]]
# How long a delivery may take before another process tries it too. Sources accept repetitions.
TAKEN_SECONDS = 120.0
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 600.0  # shorter than the default lease, which every attempt extends
LONGEST_WISH = 24 * 3600.0  # of a receiver that asks for a pause
MOST_ATTEMPTS = 24
LOOK_SECONDS = 30.0
LEFT_SECONDS = 60.0  # how long letters are left to a server that can deliver them
AT_ONCE = 20
PATIENCE_SECONDS = 5.0
KEPT_DAYS = 30
# A token, or an adapter, that this server lacks.
_OUR_OWN = (TokenError, UnknownWorkSourceError)


def letter(run: Run, taken: Taken, said: WorkResult | ReleaseOptions, now: datetime) -> OutboxEntry:
    """A report to be stored. A run reports once, so the report's id is derived from the run's."""
    payload: dict[str, Any] = {
        "work_source": dict(taken.agent.work_source or {}),
        "item": taken.item.id,
        "ledger_id": taken.ledger_id,
        "epoch": taken.epoch,
    }
    named = asdict(said) | {"claim": taken.claim}
    if isinstance(said, WorkResult):
        payload["result"] = named
    else:
        again = to_text(said.not_before) if said.not_before else None
        payload["give_back"] = named | {"not_before": again}
    return OutboxEntry(
        f"report-{run.id}",
        REPORT,
        taken.agent.name,
        taken.ledger_id or taken.item.id,
        payload,
        to_text(now),
    )


class Outbox:
    """Also a chore: it retries what was not delivered at once."""

    name = "outbox"

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        manager: WorkSourceManager,
        couriers: Mapping[str, Courier] = MappingProxyType({}),
        *,
        channels: Callable[[], Collection[str] | None] = lambda: None,
    ) -> None:
        """`couriers` deliver every other kind of entry. `channels` are those of this server's file:
        letters to other channels are left to the server that has them."""
        self._couriers = couriers
        self._channels = channels
        self._store = store
        self._ledger = ledger
        self._manager = manager
        self._clock = ledger.clock
        self._under_way: set[asyncio.Task[None]] = set()
        self._left: set[str] = set()  # what this server could not deliver, and others may
        self.keeping = Keeping(store, ledger)
        self.woken = Commits(store, LOOK_SECONDS, Topic.POST)

    async def resume(self) -> None:
        """At a start: reports that a dead process was delivering become due at once. Not while
        other nodes live, because one of them may be delivering."""
        now = to_text(self._clock.now())

        def body(tx: Transaction) -> None:
            if len(tx.living_nodes()) > 1:
                return
            for entry in _reports(tx):
                tx.postpone(entry.id, now, entry.error or "its server died")

        await self._store.transact(body)
        await self.keeping.tick()  # before a sweep ends claims that were silent meanwhile

    async def deliver(self, entry: OutboxEntry) -> None:
        """Deliver now, unless another process does; after an error it is tried again later."""
        now, until = self._window()
        taken = await self._store.transact(lambda tx: tx.take_letter(entry.id, now, until))
        if taken is not None:
            await self._try(taken)

    async def tick(self) -> float:
        self.woken.look()
        now, until = self._window()
        room = AT_ONCE - len(self._under_way)
        due = await self._take(now, until, room) if room else []
        self._under_way |= {asyncio.create_task(self._try(entry)) for entry in due}
        await self._wait_for_answers()
        if len(due) == room:
            return 0.0
        return await self._pause()

    async def _take(self, now: str, until: str, room: int) -> list[OutboxEntry]:
        """What no other server has taken for a while is tried here, so that its error is seen."""
        left_over = to_text(self._clock.now() - timedelta(seconds=LEFT_SECONDS))
        mine = self._channels()
        return await self._store.transact(
            lambda tx: tx.take_post(now, until, room, mine, left_over, left_alone=self._left)
        )

    async def _wait_for_answers(self) -> None:
        """But not for long: a slow receiver must not delay the others."""
        if not self._under_way:
            return
        done, self._under_way = await asyncio.wait(self._under_way, timeout=PATIENCE_SECONDS)
        for error in [one.exception() for one in done]:
            if error is not None:
                raise error

    async def aclose(self) -> None:
        """Deliveries without an answer are tried again by the next process."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._under_way.clear()

    async def _pause(self) -> float:
        mine = self._channels()
        following = await self._store.read(lambda tx: tx.next_post(mine, self._left))
        if following is None:
            return LOOK_SECONDS
        ahead = (from_text(following) - self._clock.now()).total_seconds()
        return min(LOOK_SECONDS, max(ahead, 0.05))

    def _window(self) -> tuple[str, str]:
        now = self._clock.now()
        return to_text(now), to_text(now + timedelta(seconds=TAKEN_SECONDS))

    async def _try(self, entry: OutboxEntry) -> None:
        self.keeping.woken.set()
        try:
            await self._tell(entry)
        except (ClaimLost, NotFound, Refused) as error:
            # The result will never be accepted: the ledger keeps it as a late result.
            log.warning("report came too late", item=entry.subject, why=error.message)
        except DeliveryFailed as error:
            if error.final:
                return await self._give_up(entry, error.message)
            return await self._put_off(entry, error.message, error.after or 0.0)
        except _OUR_OWN as error:
            if not await self._leave(entry, error.message):
                await self._put_off(entry, error.message)
            return None
        except RotaError as error:
            return await self._put_off(entry, error.message)
        except Exception as error:
            log.exception(f"{entry.kind} failed", item=entry.subject)
            return await self._put_off(entry, f"{type(error).__name__}: {error}")
        now = to_text(self._clock.now())
        await self._store.transact(lambda tx: tx.delivered(entry.id, now))
        return None

    async def _tell(self, entry: OutboxEntry) -> None:
        if entry.kind != REPORT:
            await self._couriers[entry.kind](entry)
            return
        payload = entry.payload
        agent = Sourced(entry.agent or "", payload["work_source"])
        await self.keeping.keep(entry)
        if "result" in payload:
            result = payload["result"]
            said = WorkResult(**{**result, "artifacts": tuple(result["artifacts"])})
            await self._manager.report_outcome(payload["item"], said, agent=agent)
            return
        back = payload["give_back"]
        again = from_text(back["not_before"]) if back["not_before"] else None
        released = await self._manager.release_work_item(
            payload["item"], agent=agent, **back | {"not_before": again}
        )
        if not released.success:
            raise WorkSourceError(released.message or "its source did not take it back")

    async def _give_up(self, entry: OutboxEntry, error: str) -> None:
        log.error(f"{entry.kind} given up", item=entry.subject, id=entry.id, error=error)
        now = to_text(self._clock.now())
        await self._store.transact(lambda tx: tx.bury(entry.id, now, error))
        if entry.kind == REPORT:
            said = entry.payload.get("result") or entry.payload["give_back"]
            agent = Sourced(entry.agent or "", entry.payload["work_source"])
            await self._manager.let_go(entry.payload["item"], agent=agent, claim=said["claim"])

    async def _leave(self, entry: OutboxEntry, error: str) -> bool:
        """Another server may have what this one lacks: leave the entry to it, uncounted. False if
        there is none, or if nobody took what was left."""
        now = to_text(self._clock.now())

        def body(tx: Transaction) -> bool:
            if len(tx.living_nodes()) < 2:
                return False
            tx.leave_letter(entry.id, now, error)
            tx.wake(Topic.POST)
            return True

        if entry.id in self._left or not await self._store.transact(body):
            return False
        self._left.add(entry.id)
        log.warning(f"{entry.kind} is left to other servers", item=entry.subject, error=error)
        return True

    async def _put_off(self, entry: OutboxEntry, error: str, wish: float = 0.0) -> None:
        """`wish`: the receiver asked for at least so many seconds."""
        if entry.attempts >= MOST_ATTEMPTS:
            return await self._give_up(entry, error)
        pause = max(_pause(entry), min(wish, LONGEST_WISH))
        until = to_text(self._clock.now() + timedelta(seconds=pause))
        log.warning(f"{entry.kind} waits", item=entry.subject, attempt=entry.attempts, error=error)

        def body(tx: Transaction) -> None:
            tx.postpone(entry.id, until, error)
            tx.wake(Topic.POST)  # the next delivery may be due earlier than the chore knows

        return await self._store.transact(body)

    async def prune(self, now: datetime) -> None:
        self._left.clear()
        before = to_text(now - timedelta(days=KEPT_DAYS))
        await self._store.transact(lambda tx: tx.forget_post(before))


def _pause(entry: OutboxEntry) -> float:
    """Doubles each time. Except for reports, pauses are spread to avoid bursts: by the entry's id,
    so that a test run can be replayed."""
    pause = min(FIRST_PAUSE * 2.0 ** (entry.attempts - 1), LONGEST_PAUSE)
    if entry.kind == REPORT:
        return pause
    return pause * (1.0 - zlib.crc32(f"{entry.id} {entry.attempts}".encode()) / 2**32 / 4)


def _reports(tx: Transaction) -> list[OutboxEntry]:
    """All waiting reports, however many have piled up."""
    found: list[OutboxEntry] = []
    place, more = FIRST_POST, True
    while more:
        page = tx.list_post(buried=False, limit=MAX_PAGE, kind=REPORT, after=place)
        found += page
        more = len(page) == MAX_PAGE
        if page:
            place = page[-1].next_attempt_at, page[-1].id
    return found


class Keeping:
    """A chore: keeps the claims of waiting reports alive, however long a tracker takes to answer
    and however short the leases are."""

    name = "claims of reports"

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self.woken = asyncio.Event()

    async def tick(self) -> float:
        self.woken.clear()
        waiting = await self._store.read(_reports, long=True)
        leases = [await self.keep(one) for one in waiting]
        return min((one / 3 for one in leases if one is not None), default=LOOK_SECONDS)

    async def keep(self, entry: OutboxEntry) -> float | None:
        """The lease in seconds; None when the claim has ended: the source will then refuse the
        report, and the ledger keeps the result."""
        item, epoch = entry.payload.get("ledger_id"), entry.payload.get("epoch")
        if not item or not epoch:
            return None
        made = await self._ledger.views.claim_at(item, epoch)
        if made is None:
            return None
        with suppress(ClaimLost, NotFound):
            return (await self._ledger.queue.heartbeat(item, made.token)).lease_seconds
        return None
