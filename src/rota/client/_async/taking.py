"""What all claim loops share: they take one thing after another and keep its lease meanwhile."""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from rota.client._async import runtime
from rota.client._async.calls import Json
from rota.client._async.held import ANSWER_LATE, Held
from rota.client.errors import PASSING, ServerFailed
from rota.client.retries import Retries
from rota.model.clock import elapsed

if TYPE_CHECKING:
    from rota.client._async.client import WorkQueueClient

log = logging.getLogger("rota.client")

_AGAIN = Retries(base_seconds=0.5, cap_seconds=15.0)
_SHORTEST_POLL = 0.5

H = TypeVar("H", bound=Held)


class Taking(ABC, Generic[H]):
    """Iterate over it: a body that ends without a verdict has completed what it held."""

    def __init__(
        self,
        client: "WorkQueueClient",
        agent: str,
        lease_seconds: float,
        stop: runtime.Event | None,
    ) -> None:
        self._client = client
        self._agent = agent
        self._lease_seconds = lease_seconds
        self._stop = stop or runtime.Event()
        self._idle = runtime.Event()
        self._held: list[H] = []
        self._entered = False
        self._iterators: list[AsyncIterator[H]] = []

    # what subclasses provide

    @abstractmethod
    async def _claim(self) -> list[Json]:
        """Claim something, with its lease. An empty list if there is nothing."""

    @abstractmethod
    def _made(self, data: Json, asked_at: float) -> H:
        """What the loop's body gets. Its lease counts from `asked_at`."""

    # iterate

    def __aiter__(self) -> AsyncIterator[H]:
        iterator = self._items()
        if self._entered:  # keeps it open until `__aexit__` knows why the loop was left
            self._iterators.append(iterator)
        return iterator

    async def _items(self) -> AsyncIterator[H]:
        for left in list(self._held):  # held by an earlier loop
            await self._put_back(left, "body_left")
        item = await self._next()
        while item is not None:
            try:
                yield item
            except BaseException:  # the loop was left: nothing else is thrown in here
                await self._put_back(item, "body_left")
                raise
            item = await self._settle(item) or await self._next()

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if isinstance(error, Exception):
            for item in list(self._held):
                await self._raised(item, error)
        await self.stop(reason=reason_of(kind))
        self._iterators.clear()

    # stop

    def stop_taking(self) -> None:
        """End after the current body. For use in a body, for which `stop` would wait."""
        self._stop.set()

    async def stop(self, grace: float = 0.0, reason: str = "shut_down") -> None:
        """Take nothing more; what is still held after `grace` seconds is given back."""
        self._stop.set()
        if self._held and grace > 0:
            self._idle.clear()
            await runtime.pause(self._idle, grace)
        for item in list(self._held):
            await self._put_back(item, reason)

    # what is held

    async def _next(self) -> H | None:
        attempt = 0
        while not self._stop.is_set():
            began = elapsed()
            try:
                claimed = await runtime.unless(self._stop, self._claim(), self._unwanted)
            except (*PASSING, ServerFailed) as error:
                attempt += 1
                log.warning("no claim, the server is asked again: %s", error.message)
                await runtime.pause(self._stop, _AGAIN.pause(attempt, error))
                continue
            attempt = 0
            if not claimed:
                if not await self._breathe(began):
                    return None
                continue
            item = await self._begun(claimed[0], began)
            if item is not None:
                return item
        return None

    async def _breathe(self, began: float) -> bool:
        """A server that is about to stop does not wait, so pause before asking it again. Returns
        False if the loop should not ask again at all."""
        if elapsed() - began < _SHORTEST_POLL:
            await runtime.pause(self._stop, _SHORTEST_POLL)
        return True

    async def _settle(self, item: H) -> H | None:
        """The body has ended. Returns the next item, if it came with the completion. A body that
        lost its claim may have stopped half-way, so no verdict is sent: for the server the item is
        somebody else's already, or soon nobody's."""
        asked_at = elapsed()
        try:
            if item.verdict is not None or item.lost:
                return None
            following = await runtime.heard(self._completed(item), self._unwanted)
        finally:
            self._end(item)
        return await self._begun(following[0], asked_at) if following else None

    async def _completed(self, item: H) -> list[Json]:
        """Complete this item. Returns the next, if one can be claimed in the same call."""
        await item.complete()
        return []

    async def _begun(self, data: Json, asked_at: float) -> H | None:
        """What was claimed, for the body. It is given back if the loop was stopped meanwhile, or if
        it may already be somebody else's."""
        item = self._made(data, asked_at)
        self._held.append(item)
        try:
            ours = await item.is_ours()
        except BaseException:
            await self._put_back(item, "shut_down", counted=False)
            raise
        if ours and not self._stop.is_set():
            self._client.heartbeats.hold(item.lease)
            return item
        await self._put_back(item, "shut_down" if ours else ANSWER_LATE, counted=False)
        return None

    async def _unwanted(self, claimed: list[Json]) -> None:
        """Give back what was claimed while the loop ended. Nobody knows of it, and it would have to
        wait until its lease is over."""
        for data in claimed:
            await self._put_back(self._made(data, elapsed()), "shut_down", counted=False)

    async def _put_back(self, item: H, reason: str, **fields: bool) -> None:
        try:
            await item.give_back(reason, **fields)
        finally:
            self._end(item)

    async def _raised(self, item: H, error: Exception) -> None:
        """The body raised this error while it held the item."""
        await self._put_back(item, reason_of(type(error)))

    def _end(self, item: H) -> None:
        self._client.heartbeats.let_go(item.lease)
        if item in self._held:
            self._held.remove(item)
        if not self._held:
            self._idle.set()


def reason_of(kind: type[BaseException] | None) -> str:
    if kind is None or issubclass(kind, GeneratorExit):
        return "body_left"
    if issubclass(kind, runtime.SHUT_DOWN):
        return "shut_down"
    return f"body_raised: {kind.__name__}"
