"""The HTTP face on a real port, in a thread of the test's own process."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import uvloop

from rota.api import Api, ApiSettings, Mount, create_app
from rota.api.app import ErrorPage
from rota.api.routing import Endpoint
from rota.api.signals import signal_endpoints
from rota.api.ws_limits import WsLimits
from rota.app import open_store
from rota.daemon import Face, bind
from rota.model.clock import Clock
from rota.queue.ledger import Ledger
from rota.signals import Signals
from rota.storage.port import Store

T = TypeVar("T")

START_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Served:
    port: int
    api: Api
    ledger: Ledger
    store: Store
    signals: Signals
    _loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Await something of the server's on the server's own loop."""

        async def asked() -> T:
            return await ask()

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result(START_SECONDS)

    def stop(self) -> None:
        """Does what a signal does: long polls and streams end, then the server does."""
        self._loop.call_soon_threadsafe(self.api.stopping.set)


@contextmanager
def serve(
    database: str,
    settings: ApiSettings | None = None,
    *,
    clock: Clock | None = None,
    logs: Path = Path(".rota/runs"),
    endpoints: Sequence[Endpoint] | Callable[[Signals], Sequence[Endpoint]] = (),
    mounts: Sequence[Mount] = (),
    ws: WsLimits | None = None,
    error_page: ErrorPage | None = None,
) -> Iterator[Served]:
    ready: Future[Served] = Future()

    async def main() -> None:
        async with open_store(database, clock) as store:
            ledger, signals = Ledger.on(store, logs=logs), Signals(store)
            more = endpoints(signals) if callable(endpoints) else endpoints
            ours = [*more, *signal_endpoints(signals)]
            api = create_app(
                ledger, settings, endpoints=ours, mounts=mounts, ws=ws, error_page=error_page
            )
            listener = bind("127.0.0.1", 0)
            port, loop = listener.getsockname()[1], asyncio.get_running_loop()
            served = Served(port, api, ledger, store, signals, loop)
            face = Face(api, lambda: ready.set_result(served), ledger.clock, request_seconds=5)
            serving = asyncio.ensure_future(face.serve(sockets=[listener]))
            await asyncio.wait(
                (serving, asyncio.ensure_future(api.stopping.wait())),
                return_when=asyncio.FIRST_COMPLETED,
            )
            face.should_exit = True
            await serving

    def thread() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        except BaseException as error:  # the test has to learn of it
            if ready.done():
                raise
            ready.set_exception(error)

    worker = threading.Thread(target=thread, name="served")
    worker.start()
    served = ready.result(START_SECONDS)
    try:
        yield served
    finally:
        served.stop()
        worker.join(START_SECONDS)
