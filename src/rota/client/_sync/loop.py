# Made from ../_async/loop.py by tools/generate_sync_client.py: change it there.

"""The claim loop: takes an item, keeps its lease, settles it, takes the next.

    with client.work(agent="smith", types=["bug_fix"]) as work:
        for item in work:
            result = mend(item.payload)
            item.complete(notes=result)

A body that ends without a verdict has completed its item. One that is left in another way
(break, an exception, a cancelled task) gives its item back. `with` does that at its end, and
says why; a bare `for item in client.work(…)` does it when Python closes the iterator, which
CPython does as soon as nothing refers to it any more, or when the client is closed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from rota.client._sync import runtime
from rota.client._sync.calls import Json
from rota.client._sync.claimed import ClaimedItem
from rota.client.errors import PASSING, ServerFailed
from rota.client.lease import clock
from rota.client.retries import Retries
from rota.model.clock import to_text

if TYPE_CHECKING:
    from rota.client._sync.client import SyncWorkQueueClient

log = logging.getLogger("rota.client")

DEFAULT_LEASE_SECONDS = 60.0
_AGAIN = Retries(base_seconds=0.5, cap_seconds=15.0)
_LONGEST_BACKOFF = 300.0
_SHORTEST_POLL = 0.5

Handler = Callable[[ClaimedItem], object]


class Work:
    """What `client.work(…)` gives: iterate over it, or hand it a function with `run`."""

    def __init__(
        self,
        client: "SyncWorkQueueClient",
        agent: str,
        *,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        project_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        concurrency: int = 1,
        stop: runtime.Event | None = None,
    ) -> None:
        self._client = client
        self._agent = agent
        self._wanted: Json = {"types": types, "labels": labels, "project_id": project_id}
        self._lease_seconds = lease_seconds
        self._concurrency = concurrency
        self._stop = stop or runtime.Event()
        self._idle = runtime.Event()
        self._held: list[ClaimedItem] = []
        self._entered = False
        self._iterators: list[Iterator[ClaimedItem]] = []

    # iterate

    def __iter__(self) -> Iterator[ClaimedItem]:
        if self._concurrency != 1:
            raise ValueError("a loop has one body at a time; with concurrency, use run(function)")
        iterator = self._items()
        if self._entered:  # kept from being closed until `__exit__` knows why it was left
            self._iterators.append(iterator)
        return iterator

    def _items(self) -> Iterator[ClaimedItem]:
        for left in list(self._held):  # by a loop before this one
            self._put_back(left, "body_left")
        while (item := self._next()) is not None:
            try:
                yield item
            except BaseException:  # the loop was left: nothing else is ever thrown in here
                self._put_back(item, "body_left")
                raise
            self._settle(item)

    def __enter__(self) -> "Work":
        self._entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop(reason=_reason(kind))
        self._iterators.clear()

    # or hand over a function

    def run(self, handler: Handler) -> None:
        """Let `concurrency` bodies run side by side until `stop`.

        A body whose claim is lost is cancelled. One that raises gives its item back
        for a later attempt, and fails it when its attempts are spent.
        """
        runtime.side_by_side(lambda: self._lane(handler), self._concurrency, self._stop)

    def stop_taking(self) -> None:
        """End after the present body. For bodies themselves, which `stop` would wait for."""
        self._stop.set()

    def stop(self, grace: float = 0.0, reason: str = "shut_down") -> None:
        """Take nothing more; what is still held after `grace` seconds is given back."""
        self._stop.set()
        if self._held and grace > 0:
            self._idle.clear()
            runtime.pause(self._idle, grace)
        for item in list(self._held):
            self._put_back(item, reason)

    # the life of an item

    def _next(self) -> ClaimedItem | None:
        attempt = 0
        while not self._stop.is_set():
            began = clock()
            try:
                claimed = runtime.unless(self._stop, self._claim())
            except (*PASSING, ServerFailed) as error:
                attempt += 1
                log.warning("no claim, the server is asked again: %s", error.message)
                runtime.pause(self._stop, _AGAIN.pause(attempt, error))
                continue
            attempt = 0
            if not claimed:
                self._breathe(began)
                continue
            item = self._begin(claimed[0])
            if not self._stop.is_set():
                return item
            self._put_back(item, "shut_down")
        return None

    def _breathe(self, began: float) -> None:
        """A server that is about to stop does not wait; it must not be asked in a storm."""
        if clock() - began < _SHORTEST_POLL:
            runtime.pause(self._stop, _SHORTEST_POLL)

    def _claim(self) -> list[Json]:
        return self._client.claim(
            self._agent,
            lease_seconds=self._lease_seconds,
            wait_seconds=runtime.POLL_SECONDS,
            **self._wanted,
        )

    def _begin(self, data: Json) -> ClaimedItem:
        item = ClaimedItem(self._client, data, self._lease_seconds)
        self._held.append(item)
        self._client.heartbeats.hold(item.lease)
        return item

    def _settle(self, item: ClaimedItem) -> None:
        """The body has ended. One that saw its claim lost may have stopped half-way: it says
        nothing, and the server knows the item as somebody else's, or soon as nobody's."""
        try:
            if item.verdict is None and not item.lost:
                item.complete()
        finally:
            self._end(item)

    def _put_back(self, item: ClaimedItem, reason: str) -> None:
        try:
            item.give_back(reason)
        finally:
            self._end(item)

    def _end(self, item: ClaimedItem) -> None:
        self._client.heartbeats.let_go(item.lease)
        if item in self._held:
            self._held.remove(item)
        if not self._held:
            self._idle.set()

    def _lane(self, handler: Handler) -> None:
        while (item := self._next()) is not None:
            try:
                runtime.attended(handler(item), item.lease)
            except Exception as error:
                log.exception("the body for %s failed", item.id)
                self._try_later(item, error)
            except BaseException:
                self._put_back(item, "shut_down")
                raise
            self._settle(item)

    def _try_later(self, item: ClaimedItem, error: Exception) -> None:
        if item.verdict is not None:
            return
        if item.attempts_spent:
            item.fail(f"{type(error).__name__}: {error}"[:2_000])
            return
        seconds = min(2.0**item.attempts, _LONGEST_BACKOFF)
        moment = to_text(datetime.now(UTC) + timedelta(seconds=seconds))
        item.release(_reason(type(error)), available_at=moment)


def _reason(kind: type[BaseException] | None) -> str:
    if kind is None or issubclass(kind, GeneratorExit):
        return "body_left"
    if issubclass(kind, runtime.SHUT_DOWN):
        return "shut_down"
    return f"body_raised: {kind.__name__}"
