"""Makes one transaction of many calls that come in at the same time.

While a transaction is under way, calls gather; when it is back, they all go together.
A lone call goes at once. Under load this turns a hundred claims into a handful of
set-based statements, on either database.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rota.model.errors import StorageBusy, StorageUnavailable
from rota.storage.port import Store, Transaction

A = TypeVar("A")
R = TypeVar("R")

_Call = tuple[A, "asyncio.Future[R]"]

# Items in one transaction: it stays short, so that others do not wait long for it.
MOST_AT_ONCE = 500


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
        arguments = [argument for argument, _ in calls]
        self._under_way += 1
        try:
            done = self._store.transact(lambda tx: self._body(tx, arguments))
        except Exception as error:  # noqa: BLE001 - every caller must be answered
            self._under_way -= 1
            self._fail(calls, error)
            return
        done.add_done_callback(lambda answered: self._answer(calls, answered))

    def _answer(
        self,
        calls: "list[_Call[A, R]]",
        answered: "asyncio.Future[Sequence[R | Exception]]",
    ) -> None:
        error = answered.exception()
        if error is None:
            for (_, future), answer in zip(calls, answered.result(), strict=True):
                self._give(future, answer)
            self._back()
        elif len(calls) > 1 and _may_be_ones_own(error):
            # One call may be at fault and the others not: send each alone, with its own answer.
            self._under_way -= 1
            for call in calls:
                self._send([call])
        else:
            self._fail(calls, error)
            self._back()

    def _fail(self, calls: "list[_Call[A, R]]", error: BaseException) -> None:
        for _, future in calls:
            if not future.done():
                future.set_exception(error)

    def _back(self) -> None:
        self._under_way -= 1
        if self._waiting and not self._about_to_go:
            self._go()

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
