"""A worker whose server is killed under it: verdicts get through, and the loop goes on."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rota.client import ClaimedItem, WorkQueueClient
from rota.testing import zygote
from tests.acceptance.terminal import running_server
from tests.faults.processes import free_port


async def test_a_worker_outlives_its_server(tmp_path: Path) -> None:
    port = str(free_port())  # nobody else takes it while no server is there
    url = f"http://127.0.0.1:{port}"
    with running_server(tmp_path, "--port", port) as server:
        async with WorkQueueClient(url) as client:
            for n in range(4):
                await client.work_add("chore", str(n))
            await asyncio.wait_for(_killing_its_server(client, server, tmp_path, url), 120)


async def _killing_its_server(
    client: WorkQueueClient, server: zygote.Process, place: Path, url: str
) -> None:
    work = client.work(agent="ann", lease_seconds=30)
    verdicts: list[bool] = []

    async def body(item: ClaimedItem) -> None:
        if item.description == "1":
            await asyncio.to_thread(_kill, server)
            later.append(asyncio.ensure_future(_restarted(place, url, failed, done)))
        verdicts.append(await item.complete(notes=item.description))
        if len(verdicts) == 4:
            work.stop_taking()

    later: list[asyncio.Future[None]] = []
    done = asyncio.Event()
    with _trying() as failed:
        await work.run(body)
    assert verdicts == [True] * 4
    items = await client.work_list()
    assert [(one["status"], one["attempts"]) for one in items] == [("completed", 1)] * 4
    done.set()
    await later[0]


def _kill(server: zygote.Process) -> None:
    server.kill()
    server.wait()


@contextmanager
def _trying() -> Iterator[asyncio.Event]:
    """Set as soon as the client says that it asks again, because a try has failed."""
    loop, failed = asyncio.get_running_loop(), asyncio.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if " again: " in record.getMessage():
                loop.call_soon_threadsafe(failed.set)

    log, handler = logging.getLogger("rota.client"), Listening()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield failed
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


async def _restarted(place: Path, url: str, failed: asyncio.Event, done: asyncio.Event) -> None:
    await failed.wait()
    (place / ".rota" / "server.json").unlink()
    entering = running_server(place, "--port", url.rpartition(":")[2])
    await asyncio.to_thread(entering.__enter__)
    await done.wait()
    await asyncio.to_thread(entering.__exit__, None, None, None)
