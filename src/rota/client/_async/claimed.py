"""An item that a worker has claimed: its fields, and the verdicts on it."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rota.client._async.calls import Json
from rota.client._async.held import Held
from rota.client.lease import Lease
from rota.model.clock import elapsed, from_text

if TYPE_CHECKING:
    from rota.client._async.client import WorkQueueClient


class ClaimedItem(Held):
    """One verdict ends the claim: `complete`, `fail`, `block`, `hand_over` or `release`.

    A verdict returns True when it was accepted, and False when the claim had been lost: then the
    item is somebody else's, and the verdict is kept on it as a late result. `lost` tells the same
    during the work.
    """

    def __init__(
        self,
        client: "WorkQueueClient",
        data: Json,
        lease_seconds: float,
        asked_at: float | None = None,
    ) -> None:
        lease = Lease(data["id"], data["claim"]["token"], lease_seconds, asked_at=asked_at)
        super().__init__(client, data, lease)
        self._heard_at = elapsed()
        self._following: list[Json] = []  # the next items, from the answer to the verdict

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type}: {self.description[:60]!r}>"

    @property
    def type(self) -> str:
        return str(self.data["type"])

    @property
    def description(self) -> str:
        return str(self.data["description"])

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
    def server_time(self) -> datetime:
        """The present time by the ledger's clock. This machine's clock may be wrong, and an item
        deferred by it would be taken at once, or hours too late."""
        claim = self.data["claim"]
        granted = from_text(claim["expires_at"]) - timedelta(seconds=claim["lease_seconds"])
        return granted + timedelta(seconds=elapsed() - self._heard_at)

    async def complete(self, notes: str | None = None, artifact_url: str | None = None) -> bool:
        return await self._give("complete", notes=notes, artifact_url=artifact_url)

    async def _complete_and_claim(self, wanted: Json) -> list[Json]:
        """For loops: complete the item and take the next one in one call. Returns an empty list
        when there is none, or when the call had to be repeated."""
        await self._give("complete", next=wanted)
        return self._following

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

    async def give_up(self, notes: str) -> None:
        """Fail the item without retries, for a worker that is about to end."""
        await self._part("fail", notes=notes)

    async def note(self, notes: str) -> Json:
        return await self._client.note(self.id, notes, token=self.lease.token)

    async def progress(self, progress: str) -> Json:
        """Say how far the work is; also a heartbeat."""
        return await self._client.heartbeat(self.id, self.lease.token, progress=progress)

    async def _say(self, verb: str, **fields: Any) -> None:
        answer: Json = await getattr(self._client, verb)(self.id, token=self.lease.token, **fields)
        self._following = answer.get("next") or []
