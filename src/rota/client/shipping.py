"""Sends the log of a worker's run to the server, piece by piece, while it grows."""

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from rota.client.errors import PASSING
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.client import WorkQueueClient

log = logging.getLogger("rota.client")

PIECE = 512 * 1024  # bytes at once; a server accepts twice as much
LONGEST_LINE = 1_000_000  # bytes; a longer line is replaced by a notice
LOOK_SECONDS = 0.5
AWAY_SECONDS = 2.0


class LogShipping:
    """After a line that was left out, offsets in the two logs differ."""

    def __init__(self, client: "WorkQueueClient", run_id: str, path: Path) -> None:
        self._client = client
        self._run_id = run_id
        self._path = path
        self._read = 0  # offset in the local file
        self._sent = 0  # offset in the server's log
        self._refused = False

    async def follow(self) -> None:
        """Runs until it is cancelled or refused. While the server is away, it tries again."""
        while not self._refused:
            try:
                sent = await self.step()
            except PASSING as error:
                log.info("the log of run %s waits: %s", self._run_id, error.message)
                await asyncio.sleep(AWAY_SECONDS)
                continue
            if not sent:
                await asyncio.sleep(LOOK_SECONDS)

    async def finish(self) -> bool:
        """Send all that is left; False when the server does not have all of it."""
        while not self._refused and await self.step():
            pass
        return not self._refused

    async def step(self) -> bool:
        """Send what there is, up to one piece; False when there was nothing to send."""
        piece, length = await asyncio.to_thread(_lines, self._path, self._read)
        if not piece:
            return False
        try:
            size = await self._client.append_log(self._run_id, self._sent, piece)
        except PASSING:
            raise
        except RotaError as error:  # for example, the run has ended there, and takes no more
            return self._give_up(error.message)
        if size < self._sent + len(piece):
            return self._give_up("the server's copy is full")
        self._sent, self._read = self._sent + len(piece), self._read + length
        return True

    def _give_up(self, why: str) -> bool:
        log.warning("the log of run %s is not sent further: %s", self._run_id, why)
        self._refused = True
        return False


def _lines(path: Path, offset: int) -> tuple[bytes, int]:
    """Whole lines after this offset, and their length in the file."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            found = file.read(PIECE)
            whole = found[: found.rfind(b"\n") + 1]
            if whole or len(found) < PIECE:
                return whole, len(whole)
            found += file.readline()
    except FileNotFoundError:
        return b"", 0
    if not found.endswith(b"\n"):
        return b"", 0  # still being written
    return (found if len(found) <= LONGEST_LINE else _left_out(len(found))), len(found)


def _left_out(size: int) -> bytes:
    text = f"a line of {size} bytes was left out: it is too long to be sent"
    return json.dumps({"stream": "rota", "type": "dropped", "text": text}).encode() + b"\n"
