"""An item in the hands of a worker: what it says, and the verdict to be given on it."""

import logging
from typing import TYPE_CHECKING, Any

from rota.client._async import runtime
from rota.client._async.calls import Json
from rota.client.errors import PASSING
from rota.client.lease import Lease
from rota.client.retries import Retries
from rota.model.errors import ClaimLost, NotFound, Refused, RotaError

if TYPE_CHECKING:
    from rota.client._async.client import WorkQueueClient

log = logging.getLogger("rota.client")

_DELIVERY = Retries(base_seconds=0.25, cap_seconds=5.0)


class ClaimedItem:
    """One verdict ends it: `complete`, `fail`, `block`, `hand_over` or `release`.

    A verdict answers True when it was accepted, and False when the claim had been
    lost: then the item is somebody else's, and the verdict is kept on it as a late
    result. `lost` tells the same in the midst of the work.
    """

    def __init__(self, client: "WorkQueueClient", data: Json, lease_seconds: float) -> None:
        self.data = data
        self.verdict: str | None = None
        self.lease = Lease(data["id"], data["claim"]["token"], lease_seconds)
        self._client = client

    def __getitem__(self, field: str) -> Any:
        return self.data[field]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type}: {self.description[:60]!r}>"

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def type(self) -> str:
        return str(self.data["type"])

    @property
    def description(self) -> str:
        return str(self.data["description"])

    @property
    def body(self) -> str | None:
        return self.data.get("body")

    @property
    def payload(self) -> Any:
        return self.data.get("payload")

    @property
    def priority(self) -> int:
        return int(self.data["priority"])

    @property
    def labels(self) -> list[str]:
        return list(self.data.get("labels") or ())

    @property
    def project_id(self) -> str | None:
        return self.data.get("project_id")

    @property
    def attempts(self) -> int:
        """How many times it was taken, this time included."""
        return int(self.data.get("attempts") or 0)

    @property
    def attempts_spent(self) -> bool:
        return self.attempts >= int(self.data.get("max_attempts") or 1)

    @property
    def lost(self) -> bool:
        return self.lease.lost

    async def complete(self, notes: str | None = None, artifact_url: str | None = None) -> bool:
        return await self._give("complete", notes=notes, artifact_url=artifact_url)

    async def fail(self, notes: str | None = None, artifact_url: str | None = None) -> bool:
        return await self._give("fail", notes=notes, artifact_url=artifact_url)

    async def block(self, notes: str) -> bool:
        return await self._give("block", notes=notes)

    async def hand_over(self, artifact_url: str, notes: str | None = None) -> bool:
        return await self._give("hand_over", artifact_url=artifact_url, notes=notes)

    async def release(
        self,
        reason: str | None = None,
        *,
        notes: str | None = None,
        available_at: str | None = None,
        counted: bool = True,
    ) -> bool:
        return await self._give(
            "release", reason=reason, notes=notes, available_at=available_at, counted=counted
        )

    async def note(self, notes: str) -> Json:
        return await self._client.note(self.id, notes, token=self.lease.token)

    async def progress(self, progress: str) -> Json:
        """Say how far it is; a heartbeat too."""
        return await self._client.heartbeat(self.id, self.lease.token, progress=progress)

    async def give_back(self, reason: str, *, counted: bool = True) -> None:
        """Release it without insisting, for a worker that is on its way out."""
        if self.verdict is not None or self.lost:
            return
        self.verdict, self.lease.settling = "release", True
        try:
            await self._client.release(self.id, self.lease.token, reason=reason, counted=counted)
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
        """Until the server has heard it, or the lease is over: then it is not ours to say."""
        attempt = 1
        while True:
            try:
                await getattr(self._client, verb)(self.id, token=self.lease.token, **fields)
            except PASSING as error:
                if self.lease.lapsed:
                    raise
                await runtime.sleep(_DELIVERY.pause(attempt, error))
                attempt += 1
            else:
                return
