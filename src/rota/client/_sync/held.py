# Made from ../_async/held.py by tools/generate_sync_client.py: change it there.

"""What a worker has in its hands: a lease that is kept, and a verdict to be given."""

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rota.client._sync import runtime
from rota.client._sync.calls import Json
from rota.client.errors import PASSING
from rota.client.lease import Lease, clock
from rota.client.retries import Retries
from rota.model.errors import ClaimLost, NotFound, Refused, RotaError

if TYPE_CHECKING:
    from rota.client._sync.client import SyncWorkQueueClient

log = logging.getLogger("rota.client")

ANSWER_LATE = "answer_late"  # why something is given back that nobody has begun with

_DELIVERY = Retries(base_seconds=0.25, cap_seconds=5.0)


class Held(ABC):
    """One verdict ends it. A verdict answers True when it was accepted, and False when the lease
    had been lost. `lost` tells the same in the midst of the work."""

    def __init__(self, client: "SyncWorkQueueClient", data: Json, lease: Lease) -> None:
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
    def complete(self, notes: str | None = None) -> bool:
        """It is done."""

    @abstractmethod
    def _say(self, verb: str, **fields: Any) -> None:
        """Tell the server, once."""

    def is_ours(self) -> bool:
        """Before the work begins: an answer that was long on its way, or that was long waited for,
        may speak of a lease that is over. Then the server is asked, by a heartbeat."""
        asked_at = clock()
        if asked_at < self.lease.beats_at:
            return True
        try:
            self._say("heartbeat", **self.lease.told)
        except (ClaimLost, NotFound) as error:
            log.warning("%s was taken away before it was begun: %s", self.id, error.message)
            self.lease.lose()
            return False
        except RotaError as error:
            log.warning("a heartbeat for %s failed: %s", self.id, error.message)
        else:
            self.lease.renewed(asked_at)
        return not self.lease.lapsed

    def give_back(self, reason: str, **fields: Any) -> None:
        self._part("release", reason=reason, **fields)

    def _part(self, verb: str, **fields: Any) -> None:
        """Say it without insisting, for a worker that is on its way out."""
        if self.verdict is not None or self.lost:
            return
        self.verdict, self.lease.settling = verb, True
        try:
            self._say(verb, **fields)
        except RotaError as error:
            log.warning("%s was not given back, its lease will lapse: %s", self.id, error.message)
        finally:
            self.lease.settling = False
            self.lease.lose()

    def _give(self, verb: str, **fields: Any) -> bool:
        if self.verdict is not None and not self.lost:
            raise Refused(f"{self.id} has its verdict already: {self.verdict}")
        self.verdict, self.lease.settling = verb, True
        try:
            self._deliver(verb, fields)
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

    def _deliver(self, verb: str, fields: dict[str, Any]) -> None:
        """Until the server has heard it, or the lease is over: then it is not ours to say."""
        attempt = 1
        while True:
            try:
                self._say(verb, **fields)
            except PASSING as error:
                if self.lease.lapsed:
                    raise
                runtime.sleep(_DELIVERY.pause(attempt, error))
                attempt += 1
            except Refused:
                if attempt == 1 or not self._was_heard(verb):
                    raise
                return
            else:
                return

    def _was_heard(self, verb: str) -> bool:
        """Whether a verdict that is refused the second time has been accepted the first time, and
        only the answer was lost. The server itself knows the verdicts on items by their tokens."""
        return False
