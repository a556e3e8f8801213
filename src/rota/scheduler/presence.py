"""A node shows that it lives, and ends nodes that are dead, with their open triggers.

A clock may be set, and a node may be frozen between reading it and writing. A node is therefore not
judged by the age of its last sign, but by whether it changes while another node watches.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rota.model.clock import from_text, to_text
from rota.model.errors import StorageError
from rota.model.runs import Run
from rota.model.schedules import Trigger
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import Node

SEEN_EVERY = timedelta(seconds=5)
# A node that was not seen for this long may be shown as silent, but is not taken for dead yet.
SILENT_AFTER = 3 * SEEN_EVERY
DEAD_AFTER = timedelta(seconds=30)
# What a dead node runs is open until another node ends it. So it is shown a little longer, because
# others look only every few seconds.
ALIVE_FOR = DEAD_AFTER + timedelta(seconds=10)


def alive_since(now: datetime) -> str:
    """What a node runs is shown as running if it was seen since this time."""
    return to_text(now - ALIVE_FOR)


def silent_since(now: str) -> str:
    """A node that was last seen before this time is silent."""
    return to_text(from_text(now) - SILENT_AFTER)


def unseen(tx: Transaction, runs: Iterable[Run], now: str) -> dict[str, str]:
    """The open runs whose server is gone, by id, with the time it was last seen.

    Workers on other machines are no nodes: their runs live as long as their claims do.
    """
    going = [run for run in runs if not run.status.ended]
    nodes = tx.some_nodes(run.node for run in going) if going else []
    since = silent_since(now)
    gone = {one.id: one.seen_at for one in nodes if one.ended_at or one.seen_at < since}
    return {run.id: gone[run.node] for run in going if run.node in gone}


def is_attended(tx: Transaction, now: str) -> bool:
    """Whether any server that wakes agents has been seen lately."""
    since = silent_since(now)
    return any(node.seen_at >= since for node in tx.living_nodes())


@dataclass(frozen=True, slots=True)
class Entered:
    lost: list[Trigger]
    put_back: bool  # a node was seen later than now: the clock has been put back


@dataclass(frozen=True, slots=True)
class Kept:
    lost: Sequence[Trigger] = ()
    came_back: bool = False  # other nodes had taken us for dead
    fewer: bool = False  # a node has ended since the last look
    set_right: bool = False  # a node whose clock was ahead of ours has gone, or set it


# The time that each node wrote last, and since when we know it.
Sights = Mapping[str, tuple[str, datetime]]


def seen_again(nodes: Sequence[Node], before: Sights, now: datetime) -> Sights:
    sights = {}
    for one in nodes:
        wrote, since = before.get(one.id, ("", now))
        sights[one.id] = (one.seen_at, since if wrote == one.seen_at else now)
    return sights


def is_set_right(before: Sights, after: Sights, now: datetime) -> bool:
    """Whether a node that wrote a time that is still to come writes such times no more."""
    ahead = to_text(now + SEEN_EVERY)
    return any(
        wrote > ahead and (one not in after or after[one][0] < wrote)
        for one, (wrote, _) in before.items()
    )


class Presence:
    def __init__(self, store: Store, node: str, place: str) -> None:
        self._store = store
        self._node = Node(node, place, os.getpid(), "", "")
        self._seen: datetime | None = None
        self._sights: Sights = {}

    async def enter(self, now: datetime) -> Entered:
        """Enter this node. Triggers that an earlier process of this place left open are lost."""
        text, ahead = to_text(now), to_text(now + SEEN_EVERY)
        self._node = replace(self._node, started_at=text, seen_at=text)

        def body(tx: Transaction) -> tuple[Entered, Sights]:
            put_back = (tx.last_sight() or "") > ahead
            tx.put_node(self._node)
            lost = tx.end_dead_nodes(self._node, [], text)
            return Entered(lost, put_back), seen_again(self._others(tx), {}, now)

        entered, self._sights = await self._store.transact(body)
        self._seen = now
        return entered

    async def keep(self, now: datetime) -> Kept:
        """Write a sign of life and end dead nodes; usually it is too early and nothing is done."""
        gap = now - self._seen if self._seen else SEEN_EVERY
        if timedelta(0) <= gap < SEEN_EVERY:
            return Kept()
        if not timedelta(0) <= gap < SILENT_AFTER:
            # The clock has jumped, or this process slept: the other nodes may well be alive.
            self._sights = {one: (wrote, now) for one, (wrote, _) in self._sights.items()}
        node, text = replace(self._node, seen_at=to_text(now)), to_text(now)

        def body(tx: Transaction) -> tuple[Kept, Sights]:
            came_back = not tx.see_node(node.id, text)
            if came_back:
                tx.put_node(node)
            living = self._others(tx)
            sights = seen_again(living, self._sights, now)
            silent = [one for one in living if now - sights[one.id][1] >= DEAD_AFTER]
            lost = tx.end_dead_nodes(node, silent, text)
            set_right = is_set_right(self._sights, sights, now)
            fewer = not self._sights.keys() <= sights.keys()
            return Kept(lost, came_back, fewer, set_right), sights

        kept, self._sights = await self._store.transact(body)
        self._seen = now
        return kept

    def _others(self, tx: Transaction) -> list[Node]:
        return [one for one in tx.living_nodes() if one.id != self._node.id]

    async def leave(self, now: datetime) -> None:
        """If the database is unreachable, the other nodes will notice that this node is dead."""
        text = to_text(now)
        with suppress(StorageError):
            await self._store.transact(lambda tx: tx.end_node(self._node.id, text))
