"""Worker processes for the fault tests: `python -m tests.faults.worker MODE …`, JSON lines out."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

from rota.app import make_store
from rota.client import SyncWorkQueueClient
from rota.model.claims import ClaimedItem, ClaimRequest
from rota.model.errors import RotaError
from rota.model.status import Verb
from rota.queue import WorkQueue, claiming
from rota.queue.moves import Order
from rota.storage.port import Store
from rota.storage.postgres import PostgresStore

STOP = "stop"


def say(word: Any) -> None:
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


def heard() -> str:
    return sys.stdin.readline().strip()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """With few connections: a server allows a hundred, and every lane takes one."""
    store = make_store(url)
    if isinstance(store, PostgresStore):
        store = PostgresStore(url, lanes=2)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def race(url: str, agent: str, limit: str) -> None:
    """Claim and complete until an item of the type `stop` comes.

    With a limit of one, each completion also claims the next item; the worker waits when there is
    nothing. The safety net is removed: a lost wake-up is never made up for by looking again.
    """
    claiming.LOOK_AGAIN_SECONDS = 3600.0
    request = ClaimRequest(agent, limit=int(limit), lease_seconds=600, wait_seconds=60)
    following = request._replace(wait_seconds=0) if request.limit == 1 else None
    async with opened(url) as store:
        queue = WorkQueue(store)

        async def complete(one: ClaimedItem) -> list[ClaimedItem]:
            order = Order(
                Verb.COMPLETE, one.item.id, agent, token=one.claim.token, outcome="success",
                next=None if stopped else following,
            )  # fmt: skip
            moved = await queue.apply(order)
            return moved.next.items if moved.next else []

        say("ready")
        stopped, taken = False, list[ClaimedItem]()
        while not stopped:
            taken = taken or (await queue.claim(request)).items
            stopped = any(one.item.type == STOP for one in taken)
            came_with_it = await asyncio.gather(*map(complete, taken))
            for one in taken:
                say([one.item.id, one.claim.epoch])
            taken = list(chain(*came_with_it))


def hold(url: str, agent: str, count: str, lease: str) -> None:
    """Claim so many items, print which, and then do nothing for ever."""
    with SyncWorkQueueClient(url) as client:
        items = client.claim(agent, limit=int(count), lease_seconds=float(lease))
        say([[item["id"], item["claim"]["epoch"]] for item in items])
        heard()


def frozen(url: str, agent: str, lease: str) -> None:
    """Claim one item, print it, wait for a word, then try every late write there is."""
    with SyncWorkQueueClient(url, actor=agent) as client:
        (item,) = client.claim(agent, lease_seconds=float(lease))
        item_id, token = item["id"], item["claim"]["token"]
        say([item_id, item["claim"]["epoch"]])
        heard()
        late = {
            "heartbeat": lambda: client.heartbeat(item_id, token),
            "note": lambda: client.note(item_id, "late", token=token),
            "fail": lambda: client.fail(item_id, token, notes=f"by {agent}"),
            "release": lambda: client.release(item_id, token, reason="late"),
            "patch": lambda: client.work_update(
                item_id, "completed", "success", notes=f"by {agent}", token=token
            ),
            "complete": lambda: client.complete(item_id, token, notes=f"by {agent}"),
        }
        for verb, write in late.items():
            try:
                write()
            except RotaError as error:
                say([verb, error.code, error.details.get("http_status")])
            else:
                say([verb, "accepted", 200])


def loop(url: str, agent: str, lease: str) -> None:
    """The client's own loop: prints what it takes, waits for a word, and prints how that ended."""
    with SyncWorkQueueClient(url, actor=agent) as client, client.work(
        agent, lease_seconds=float(lease)
    ) as work:  # fmt: skip
        for item in work:
            say(["took", item.id])
            heard()
            say(["lost", item.lost])
            say(["accepted", item.complete(f"by {agent}")])


MODES = {"race": race, "hold": hold, "frozen": frozen, "loop": loop}

if __name__ == "__main__":
    mode, *arguments = sys.argv[1:]
    done = MODES[mode](*arguments)
    if asyncio.iscoroutine(done):
        asyncio.run(done)
