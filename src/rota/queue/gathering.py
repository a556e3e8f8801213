"""Makes one transaction of many calls that come in at the same time.

While one transaction is on its way, calls gather; when it is back, all of them go
together. A lone call goes at once. Under load this turns a hundred claims into a
handful of set-based statements, on either database.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rota.model.errors import StorageUnavailable
from rota.storage.port import Store, Transaction

A = TypeVar("A")
R = TypeVar("R")

# A transaction stays short enough that others do not wait long behind it.
MOST_AT_ONCE = 500


class Gathering(Generic[A, R]):
    def __init__(
        self, store: Store, body: Callable[[Transaction, Sequence[A]], Sequence[R | Exception]]
    ) -> None:
        """`body` answers every call, in order; an exception as an answer is raised to its caller
        and must have changed nothing."""
        self._store = store
        self._body = body
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._busy = False

    def ask(self, argument: A) -> "asyncio.Future[R]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append((argument, future))
        if not self._busy:
            self._busy = True
            # Whoever is about to call in this turn of the loop may still join.
            loop.call_soon(self._go)
        return future

    def _go(self) -> None:
        calls, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        if calls:
            self._send(calls)
        else:
            self._busy = False

    def _send(self, calls: list[tuple[A, "asyncio.Future[R]"]]) -> None:
        arguments = [argument for argument, _ in calls]
        try:
            done = self._store.transact(lambda tx: self._body(tx, arguments))
        except Exception as error:  # noqa: BLE001 - every caller must be answered
            self._fail(calls, error)
            self._go()
            return
        done.add_done_callback(lambda answered: self._answer(calls, answered))

    def _answer(
        self,
        calls: list[tuple[A, "asyncio.Future[R]"]],
        answered: "asyncio.Future[Sequence[R | Exception]]",
    ) -> None:
        error = answered.exception()
        if error is not None and len(calls) > 1 and not isinstance(error, StorageUnavailable):
            # One of them is at fault and the others are not: each goes alone, and hears its own.
            for call in calls:
                self._send([call])
            return
        if error is not None:
            self._fail(calls, error)
        else:
            for (_, future), answer in zip(calls, answered.result(), strict=True):
                if future.done():  # the caller has gone; see `ask`'s users for what that means
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._go()

    def _fail(self, calls: list[tuple[A, "asyncio.Future[R]"]], error: BaseException) -> None:
        for _, future in calls:
            if not future.done():
                future.set_exception(error)
