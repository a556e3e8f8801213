# Made from ../_async/follow_ups.py by tools/generate_sync_client.py: change it there.

"""The claim loop of follow-ups: the same as for items, beside them.

    with client.follow_ups_for(agent="painter") as found:
        for follow_up in found:
            answer = ask(follow_up.title)
            follow_up.complete(notes=answer)

A body that ends without a verdict has completed its follow-up; one that is left in another way
gives it back.
"""

from typing import TYPE_CHECKING, Any

from rota.client._sync import runtime
from rota.client._sync.calls import Json
from rota.client._sync.held import Held
from rota.client._sync.taking import Taking
from rota.client.lease import Lease

if TYPE_CHECKING:
    from rota.client._sync.client import SyncWorkQueueClient

DEFAULT_POLL_SECONDS = 5.0
_ENDS = {"complete": "completed", "cancel": "cancelled", "release": "open"}


class ClaimedFollowUp(Held):
    """One verdict ends it: `complete`, `cancel` or `release`."""

    def __init__(
        self,
        client: "SyncWorkQueueClient",
        data: Json,
        lease_seconds: float,
        asked_at: float | None = None,
    ) -> None:
        lease = Lease(data["id"], data["token"], lease_seconds, "follow-ups", asked_at)
        super().__init__(client, data, lease)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.title[:60]!r}>"

    @property
    def title(self) -> str:
        return str(self.data["title"])

    @property
    def work_item_id(self) -> str:
        return str(self.data["work_item_id"])

    def complete(self, notes: str | None = None, outcome: str | None = None) -> bool:
        """`outcome`: success, or failed."""
        return self._give("complete", notes=notes, outcome=outcome)

    def cancel(self, notes: str | None = None) -> bool:
        """Say that nobody shall do it."""
        return self._give("cancel", notes=notes)

    def release(self) -> bool:
        return self._give("release")

    def _say(self, verb: str, **fields: Any) -> None:
        if verb == "release":
            fields.clear()  # a release of a follow-up takes no reason
        getattr(self._client, f"{verb}_follow_up")(self.id, token=self.lease.token, **fields)

    def _was_heard(self, verb: str) -> bool:
        """True if it has the status that the verb gives, and nobody has taken it since we did."""
        found = self._client.get_follow_up(self.id)
        return (found["status"], found["attempts"]) == (_ENDS[verb], self["attempts"])


class FollowUps(Taking[ClaimedFollowUp]):
    """What `client.follow_ups_for(…)` returns: iterate over it."""

    def __init__(
        self,
        client: "SyncWorkQueueClient",
        agent: str,
        *,
        lease_seconds: float,
        wait: bool,
        poll_seconds: float,
        stop: runtime.Event | None,
    ) -> None:
        super().__init__(client, agent, lease_seconds, stop)
        self._wait = wait
        self._poll_seconds = poll_seconds

    def _claim(self) -> list[Json]:
        taken = self._client.claim_follow_up(self._agent, lease_seconds=self._lease_seconds)
        return [] if taken is None else [taken]

    def _breathe(self, began: float) -> bool:
        """The server does not announce new follow-ups, so the loop polls."""
        if self._wait:
            runtime.pause(self._stop, self._poll_seconds)
        return self._wait

    def _made(self, data: Json, asked_at: float) -> ClaimedFollowUp:
        return ClaimedFollowUp(self._client, data, self._lease_seconds, asked_at)
