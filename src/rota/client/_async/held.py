"""Something that a worker holds: a lease that is kept, and a verdict that ends it."""

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rota.client._async import runtime
from rota.client._async.calls import Json
from rota.client.errors import PASSING
from rota.client.lease import Lease
from rota.client.retries import Retries
from rota.model.clock import elapsed
from rota.model.errors import ClaimLost, NotFound, Refused, RotaError

if TYPE_CHECKING:
    from rota.client._async.client import WorkQueueClient

log = logging.getLogger("rota.client")

ANSWER_LATE = "answer_late"  # why something was given back before work on it began

_DELIVERY = Retries(base_seconds=0.25, cap_seconds=5.0)


class Held(ABC):
    """One verdict ends the lease. A verdict returns True when it was accepted, and False when the
    lease had been lost. `lost` tells the same during the work."""

    def __init__(self, client: "WorkQueueClient", data: Json, lease: Lease) -> None:
        self.data = data
        self.verdict: str | None = None
        self.lease = lease
        self._client = client

    def __getitem__(self, field: str) -> Any:
        return self.data[field]

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def body(self) -> str | None:
        return self.data.get("body")

    @property
    def lost(self) -> bool:
        return self.lease.lost

    @abstractmethod
    async def complete(self, notes: str | None = None) -> bool:
        """Say that it is done."""

    @abstractmethod
    async def _say(self, verb: str, **fields: Any) -> None:
        """Tell the server, once."""

    async def is_ours(self) -> bool:
        """Check before the work begins. The answer to a claim may have been delayed until its lease
        was over; then a heartbeat asks the server."""
        asked_at = elapsed()
        if asked_at < self.lease.beats_at:
            return True
        try:
            await self._say("heartbeat", **self.lease.told)
        except (ClaimLost, NotFound) as error:
            log.warning("%s was taken away before it was begun: %s", self.id, error.message)
            self.lease.lose()
            return False
        except RotaError as error:
            log.warning("a heartbeat for %s failed: %s", self.id, error.message)
        else:
            self.lease.renewed(asked_at)
        return not self.lease.lapsed

    async def give_back(self, reason: str, **fields: Any) -> None:
        await self._part("release", reason=reason, **fields)

    async def _part(self, verb: str, **fields: Any) -> None:
        """Send a verdict without retries, for a worker that is about to end."""
        if self.verdict is not None or self.lost:
            return
        self.verdict, self.lease.settling = verb, True
        try:
            await self._say(verb, **fields)
        except RotaError as error:
            log.warning("%s was not given back, its lease will lapse: %s", self.id, error.message)
        finally:
            self.lease.settling = False
            self.lease.lose()

    async def _give(self, verb: str, **fields: Any) -> bool:
        if self.verdict is not None and not self.lost:
            raise Refused(f"{self.id} has its verdict already: {self.verdict}")
        self.verdict, self.lease.settling = verb, True
        try:
            await self._deliver(verb, fields)
        except (ClaimLost, NotFound, *PASSING) as error:
            log.warning("%s was lost before its verdict was heard: %s", self.id, error.message)
            self.lease.settling = False
            self.lease.lose()
            return False
        except BaseException:  # refused, or cancelled half-way: it is still ours
            self.verdict, self.lease.settling = None, False
            self._client.heartbeats.hold(self.lease)
            raise
        finally:
            if self.verdict is not None:
                self._client.heartbeats.let_go(self.lease)
        return True

    async def _deliver(self, verb: str, fields: dict[str, Any]) -> None:
        """Retry until the server has heard it, or the lease has lapsed: then the verdict is not
        ours to give any more."""
        attempt = 1
        while True:
            try:
                await self._say(verb, **fields)
            except PASSING as error:
                if self.lease.lapsed:
                    raise
                await runtime.sleep(_DELIVERY.pause(attempt, error))
                attempt += 1
            except Refused:
                if attempt == 1 or not await self._was_heard(verb):
                    raise
                return
            else:
                return

    async def _was_heard(self, verb: str) -> bool:
        """Whether a verdict that was refused on a retry had been accepted before, and only the
        answer was lost. For items the server itself recognises a repeated verdict by its token."""
        return False
