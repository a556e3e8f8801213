# Made from ../_async/loop.py by tools/generate_sync_client.py: change it there.

"""The claim loop: takes an item, keeps its lease, gives its verdict, takes the next.

    with client.work(agent="smith", types=["bug_fix"]) as work:
        for item in work:
            result = mend(item.payload)
            item.complete(notes=result)

A body that ends without a verdict has completed its item. A body that is left in another way
(break, an exception, a cancelled task) gives its item back. `with` does that at its end, and
knows the reason: after an exception, the item is released for a later attempt, or failed when its
attempts are spent. A bare `for item in client.work(…)` gives the item back when Python closes
the iterator, which CPython does as soon as nothing refers to it any more, or when the client is
closed; it cannot know the reason.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rota.client._sync import runtime
from rota.client._sync.calls import Json
from rota.client._sync.claimed import ClaimedItem
from rota.client._sync.taking import Taking, reason_of
from rota.model.clock import to_text
from rota.model.work import storable

if TYPE_CHECKING:
    from rota.client._sync.client import SyncWorkQueueClient

log = logging.getLogger("rota.client")

DEFAULT_LEASE_SECONDS = 60.0
_LONGEST_BACKOFF = 300.0

Handler = Callable[[ClaimedItem], object]


class Work(Taking[ClaimedItem]):
    """What `client.work(…)` returns: iterate over it, or pass a function to `run`."""

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
        super().__init__(client, agent, lease_seconds, stop)
        self._wanted: Json = {
            "agent": agent,
            "types": types,
            "labels": labels,
            "project_id": project_id,
            "lease_seconds": lease_seconds,
        }
        self._concurrency = concurrency

    def __iter__(self) -> Iterator[ClaimedItem]:
        if self._concurrency != 1:
            raise ValueError("a loop has one body at a time; with concurrency, use run(function)")
        return super().__iter__()

    # or pass a function

    def run(self, handler: Handler) -> None:
        """Run `concurrency` bodies side by side until `stop`.

        A body whose claim is lost is cancelled; on a thread, it has to look at `item.lost` itself.
        A body that raises gives its item back for a later attempt, or fails it when its attempts
        are spent.
        """
        runtime.side_by_side(lambda: self._lane(handler), self._concurrency, self._stop)

    def _claim(self) -> list[Json]:
        return self._client.claim(**self._wanted, wait_seconds=runtime.POLL_SECONDS)

    def _completed(self, item: ClaimedItem) -> list[Json]:
        if self._stop.is_set():
            return super()._completed(item)
        return item._complete_and_claim(self._wanted)

    def _made(self, data: Json, asked_at: float) -> ClaimedItem:
        return ClaimedItem(self._client, data, self._lease_seconds, asked_at)

    def _lane(self, handler: Handler) -> None:
        item = self._next()
        while item is not None:
            try:
                runtime.attended(handler(item), item.lease)
            except Exception as error:
                log.exception("the body for %s failed", item.id)
                self._try_later(item, error)
            except BaseException:
                self._put_back(item, "shut_down")
                raise
            item = self._settle(item) or self._next()

    def _raised(self, item: ClaimedItem, error: Exception) -> None:
        try:
            if item.attempts_spent:
                item.give_up(_notes_of(error))
            else:
                item.give_back(reason_of(type(error)), available_at=_later(item))
        finally:
            self._end(item)

    def _try_later(self, item: ClaimedItem, error: Exception) -> None:
        if item.verdict is not None or item.lost:
            return
        try:
            if item.attempts_spent:
                item.fail(_notes_of(error))
            else:
                item.release(reason_of(type(error)), available_at=_later(item))
        except BaseException:  # nobody works on it any more, so its lease may lapse
            self._end(item)
            raise


def _notes_of(error: Exception) -> str:
    """File names in an error, for example, may hold characters that no ledger can store."""
    return storable(f"{type(error).__name__}: {error}"[:2_000])


def _later(item: ClaimedItem) -> str:
    """The more often it was tried, the later it is tried again."""
    seconds = min(2.0**item.attempts, _LONGEST_BACKOFF)
    return to_text(item.server_time + timedelta(seconds=seconds))
