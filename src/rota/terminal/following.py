"""Keeps a board in step with the ledger: by its events, not by polling."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rota.model.errors import RotaError
from rota.model.status import Status
from rota.terminal.board import TITLES, Board

Json = dict[str, Any]

PAUSE_SECONDS = 0.1
RETRY_SECONDS = 1.0
_EASE = 3  # reading takes at most a quarter of the time, however much there is to read


class Following:
    def __init__(
        self,
        board: Board,
        *,
        shown: Callable[[], None],
        happened: Callable[[Json], None],
        failed: Callable[[RotaError], None],
    ) -> None:
        """`shown` is called after columns were read, `happened` with every event, `failed` when
        columns could not be read."""
        self._board = board
        self._shown = shown
        self._happened = happened
        self._failed = failed
        self._stale: set[Status] = set()
        self._woken = asyncio.Event()

    def touch(self, *statuses: Status) -> None:
        """Mark these columns to be read again, or all if none is named."""
        self._stale |= set(statuses or TITLES) & set(TITLES)
        if self._stale:
            self._woken.set()

    async def listen(self) -> None:
        """Runs until it is cancelled, or refused for good."""
        async for event in self._board.client.watch():
            self.touch_by(event)
            self._happened(event)

    def touch_by(self, event: Json) -> None:
        moved = [Status(one) for one in (event["from_status"], event["to_status"]) if one]
        if moved:
            self.touch(*moved)
        elif event["type"].startswith("work.") and event["work_item_id"]:
            found = self._board.find(event["work_item_id"])
            # The item may belong on the board by now, though it did not when the board was read.
            self.touch(*([found[0].status] if found else []))

    async def keep(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            stale, self._stale = self._stale, set()
            began = time.monotonic()
            try:
                await self._board.load([status for status in TITLES if status in stale])
            except RotaError as error:
                self._failed(error)
                self.touch(*stale)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._shown()
            await asyncio.sleep(max(PAUSE_SECONDS, _EASE * (time.monotonic() - began)))
