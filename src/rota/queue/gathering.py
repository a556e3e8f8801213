"""Makes one transaction of many calls that come in at the same time.

While a transaction is under way, calls gather; when it is back, they all go together.
A lone call goes at once. Under load this turns a hundred claims into a handful of
set-based statements, on either database.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rota.model.errors import StorageBusy, StorageLocked, StorageUnavailable
from rota.storage.port import Store, Transaction

A = TypeVar("A")
R = TypeVar("R")

_Call = tuple[A, "asyncio.Future[R]"]

# Items in one transaction: it stays short, so that others do not wait long for it.
MOST_AT_ONCE = 500
# How long many calls wait for a lock of another session together, and then each of them alone, and
# for how long they are tried alone. A call that goes alone from the beginning waits as long as the
# store says.
TOGETHER_SECONDS = 1.0
ALONE_SECONDS = 0.1
UNTANGLING_SECONDS = 1.0


class Gathering(Generic[A, R]):
    def __init__(
        self,
        store: Store,
        body: Callable[[Transaction, Sequence[A]], Sequence[R | Exception]],
        unheard: Callable[[R], None] = lambda answer: None,
        weight: Callable[[A], int] = lambda argument: 1,
    ) -> None:
        """`body` answers every call, in order; an exception among the answers is raised to its
        caller, and that call must have changed nothing. `unheard` gets the answers of cancelled
        callers. `weight` is the number of items in a call."""
        self._store = store
        self._body = body
        self._unheard = unheard
        self._weight = weight
        self._waiting: list[_Call[A, R]] = []
        self._under_way = 0
        self._about_to_go = False
        self._untangling: set[asyncio.Task[None]] = set()

    def ask(self, argument: A) -> "asyncio.Future[R]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((argument, future))
        if self._under_way < self._store.width and not self._about_to_go:
            self._about_to_go = True
            # Calls made later in this turn of the event loop can still join.
            loop.call_soon(self._go)
        return future

    def _go(self) -> None:
        self._about_to_go = False
        while self._waiting and self._under_way < self._store.width:
            count = self._fitting()
            calls, self._waiting = self._waiting[:count], self._waiting[count:]
            self._send(calls)

    def _fitting(self) -> int:
        """How many waiting calls go together; a call that is too heavy by itself goes alone."""
        left = MOST_AT_ONCE
        for count, (argument, _) in enumerate(self._waiting):
            left -= self._weight(argument)
            if left < 0 and count:
                return count
        return len(self._waiting)

    def _send(self, calls: "list[_Call[A, R]]") -> None:
        self._under_way += 1
        try:
            done = self._transacted(calls, TOGETHER_SECONDS if len(calls) > 1 else None)
        except Exception as error:  # noqa: BLE001 - every caller must be answered
            self._under_way -= 1
            self._fail(calls, error)
            return
        done.add_done_callback(lambda answered: self._answer(calls, answered))

    def _transacted(
        self, calls: "list[_Call[A, R]]", patience: float | None
    ) -> "asyncio.Future[Sequence[R | Exception]]":
        arguments = [argument for argument, _ in calls]

        def body(tx: Transaction) -> Sequence[R | Exception]:
            if patience is not None:
                tx.hurry(patience)
            return self._body(tx, arguments)

        return self._store.transact(body)

    def _answer(
        self,
        calls: "list[_Call[A, R]]",
        answered: "asyncio.Future[Sequence[R | Exception]]",
    ) -> None:
        error = answered.exception()
        if error is None:
            self._give_all(calls, answered.result())
            self._back()
        elif len(calls) > 1 and isinstance(error, StorageLocked):
            task = asyncio.ensure_future(self._untangle(calls))
            self._untangling.add(task)
            task.add_done_callback(self._untangling.discard)
        elif len(calls) > 1 and _may_be_ones_own(error):
            # One call may be at fault and the others not: send each alone, with its own answer.
            self._under_way -= 1
            for call in calls:
                self._send([call])
            self._go_on()
        else:
            self._fail(calls, error)
            self._back()

    async def _untangle(self, calls: "list[_Call[A, R]]") -> None:
        """A lock holds up all of them, or one of them and by it the others. Send each alone, one by
        one: if all connections waited for the same lock, nobody else could do anything."""
        held_up: list[_Call[A, R]] = []
        until = time.monotonic() + UNTANGLING_SECONDS
        while calls and time.monotonic() < until:
            call, *calls = calls
            if await self._is_held_up([call], ALONE_SECONDS) is not None:
                held_up.append(call)
        if calls and await self._is_held_up(calls, TOGETHER_SECONDS) is not None:
            held_up += calls  # most likely the whole table is locked
        if held_up and (error := await self._is_held_up(held_up, None)) is not None:
            self._fail(held_up, error)
        self._back()

    async def _is_held_up(
        self, calls: "list[_Call[A, R]]", patience: float | None
    ) -> StorageLocked | None:
        """None when they have their answers."""
        try:
            self._give_all(calls, await self._transacted(calls, patience))
        except StorageLocked as error:
            return error
        except Exception as error:  # noqa: BLE001 - every caller must be answered
            self._fail(calls, error)
        return None

    def _fail(self, calls: "list[_Call[A, R]]", error: BaseException) -> None:
        for _, future in calls:
            if not future.done():
                future.set_exception(error)

    def _back(self) -> None:
        self._under_way -= 1
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and not self._about_to_go:
            self._go()

    def _give_all(self, calls: "list[_Call[A, R]]", answers: Sequence[R | Exception]) -> None:
        for (_, future), answer in zip(calls, answers, strict=True):
            self._give(future, answer)

    def _give(self, future: "asyncio.Future[R]", answer: R | Exception) -> None:
        if isinstance(answer, Exception):
            if not future.done():
                future.set_exception(answer)
        elif future.done():
            self._unheard(answer)
        else:
            future.set_result(answer)


def _may_be_ones_own(error: BaseException) -> bool:
    """Whether a single call may have caused the error. An unreachable database fails them all."""
    return isinstance(error, StorageBusy) or not isinstance(error, StorageUnavailable)
