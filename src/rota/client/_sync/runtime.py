"""What threads and asyncio do differently; its counterpart in `_async` is written by hand too.

Where asyncio hands over a call that has not begun, a thread has already made it: the argument
here is the result.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from rota.client.lease import Lease
from rota.client.plain import PlainTransport
from rota.client.transport import SyncTransport

T = TypeVar("T")

Event = threading.Event
sleep = time.sleep

# A thread that waits for an answer cannot be called back, so it asks again more often.
POLL_SECONDS = 5.0
SHUT_DOWN = (KeyboardInterrupt, SystemExit)


def default_transport(url: str) -> SyncTransport:
    return PlainTransport(url)


def pause(event: Event, seconds: float) -> None:
    """Until the event is set, or time is up."""
    event.wait(seconds)


def heard(answer: T, unheard: Callable[[T], None]) -> T:
    """The answer; a thread that waits for it is not cancelled."""
    return answer


def unless(stop: Event, answer: T, unheard: Callable[[T], None]) -> T | None:
    """The answer; a call that was made cannot be given up any more."""
    return answer


def attended(done: object, lease: Lease) -> None:
    """The body has run; a thread cannot be cancelled, so it looks at `item.lost` itself."""


def side_by_side(lane: Callable[[], None], count: int, stop: Event) -> None:
    """Run so many lanes; the first that fails stops the others and is raised."""
    if count == 1:
        lane()
        return
    pool = ThreadPoolExecutor(count, thread_name_prefix="rota-lane")
    lanes: list[Future[None]] = []
    try:
        lanes.extend(pool.submit(lane) for _ in range(count))
        wait(lanes, return_when=FIRST_EXCEPTION)
    finally:
        stop.set()
        pool.shutdown(wait=False)
        # Not by joining the threads: Python takes a thread for ended if Ctrl-C interrupts that, and
        # the process would end under a lane that still has to give something back.
        wait(lanes)
    for one in lanes:
        one.result()
