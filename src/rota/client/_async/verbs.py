"""Calls that take items and move them on.

With a claim's token a verb may be repeated without harm: the server recognises it by the token.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rota.client._async.calls import Json, content, given, not_ours
from rota.client._async.items import ItemCalls

# The client waits this much longer than the long poll itself.
_ANSWER_SECONDS = 10.0


class VerbCalls(ItemCalls):
    async def claim(
        self,
        agent: str,
        *,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        project_id: str | None = None,
        lease_seconds: float | None = None,
        wait_seconds: float | None = None,
    ) -> list[Json]:
        """Take what is best for this agent; an empty list when there is nothing.

        Never retried: a claim without an answer may have been made, and lapses by itself.
        """
        items, _ = await self.claim_or_reason(
            agent,
            limit=limit,
            types=types,
            labels=labels,
            project_id=project_id,
            lease_seconds=lease_seconds,
            wait_seconds=wait_seconds,
        )
        return items

    async def claim_or_reason(
        self,
        agent: str,
        *,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        project_id: str | None = None,
        lease_seconds: float | None = None,
        wait_seconds: float | None = None,
    ) -> tuple[list[Json], str | None]:
        """As `claim`. An empty list comes with a reason: nothing_ready, no_free_slot,
        in_review_limit or agent_paused."""
        wanted = given(
            agent=agent,
            limit=limit,
            types=types,
            labels=labels,
            project_id=project_id,
            lease_seconds=lease_seconds,
            wait_seconds=wait_seconds,
        )
        timeout = max(self._timeout, (wait_seconds or 0) + _ANSWER_SECONDS)
        request = self._request("POST", "/work/claim", wanted, timeout=timeout)
        answer = await self._answered(request, False)
        items = content(answer)
        if not isinstance(items, list):
            raise not_ours()
        return items, answer.headers.get("rota-reason")

    async def heartbeat(
        self,
        work_item_id: str,
        token: str,
        notes: str | None = None,
        progress: str | None = None,
    ) -> Json:
        """Extend the lease; `ClaimLost` says to stop working on it."""
        return await self._verb(
            "heartbeat", work_item_id, token=token, notes=notes, progress=progress
        )

    async def dispatch(self, work_item_id: str, agent: str | None = None) -> Json:
        return await self._verb("dispatch", work_item_id, assigned_agent=agent)

    async def start(
        self, work_item_id: str, *, agent: str | None = None, lease_seconds: float | None = None
    ) -> Json:
        """Begin a dispatched item; with `lease_seconds` the answer holds a claim."""
        return await self._verb("start", work_item_id, agent=agent, lease_seconds=lease_seconds)

    async def complete(
        self,
        work_item_id: str,
        token: str | None = None,
        *,
        outcome: str = "success",
        notes: str | None = None,
        artifact_url: str | None = None,
        force: bool = False,
        next: Mapping[str, Any] | None = None,  # noqa: A002 - its name in the API
    ) -> Json:
        """With `next`, the fields of a claim (`{"agent": …, "types": …}`), the holder takes its
        next item in the same transaction, and finds it in the answer under `next`."""
        return await self._verb(
            "complete",
            work_item_id,
            token=token,
            outcome=outcome,
            notes=notes,
            artifact_url=artifact_url,
            force=force,
            next=None if next is None else given(**next),
        )

    async def complete_many(self, entries: Sequence[Mapping[str, Any]]) -> list[Json]:
        """Complete `[{"id": …, "token": …, "notes": …}, …]`; one answer per entry, in order. An
        entry may have `artifact_url` and `next`, as in `complete`."""
        batch = [dict(entry) for entry in entries]
        fenced = all(entry.get("token") for entry in batch)
        return await self._many("POST", "/work/complete", batch, repeatable=fenced)

    async def fail(
        self,
        work_item_id: str,
        token: str | None = None,
        *,
        outcome: str = "failed",
        notes: str | None = None,
        artifact_url: str | None = None,
        force: bool = False,
    ) -> Json:
        return await self._verb(
            "fail",
            work_item_id,
            token=token,
            outcome=outcome,
            notes=notes,
            artifact_url=artifact_url,
            force=force,
        )

    async def block(
        self, work_item_id: str, notes: str, token: str | None = None, *, force: bool = False
    ) -> Json:
        """The item cannot go on; `notes` say what it waits for."""
        return await self._verb("block", work_item_id, token=token, notes=notes, force=force)

    async def resume(
        self,
        work_item_id: str,
        *,
        agent: str | None = None,
        notes: str | None = None,
        lease_seconds: float | None = None,
        force: bool = False,
    ) -> Json:
        """For the caller to go on with it. To let the fleet go on with it, release it instead."""
        return await self._verb(
            "resume",
            work_item_id,
            agent=agent,
            notes=notes,
            lease_seconds=lease_seconds,
            force=force,
        )

    async def release(
        self,
        work_item_id: str,
        token: str | None = None,
        *,
        reason: str | None = None,
        notes: str | None = None,
        available_at: str | None = None,
        force: bool = False,
        counted: bool = True,
    ) -> Json:
        """Give it back to the queue, for another agent or for later. `counted=False` means that
        this was no attempt, because no work was done."""
        return await self._verb(
            "release",
            work_item_id,
            token=token,
            reason=reason,
            notes=notes,
            available_at=available_at,
            force=force,
            counted=None if counted else False,
        )

    async def retry(self, work_item_id: str, *, notes: str | None = None) -> Json:
        return await self._verb("retry", work_item_id, notes=notes)

    async def cancel(self, work_item_id: str, *, notes: str | None = None) -> Json:
        return await self._verb("cancel", work_item_id, notes=notes)

    async def hand_over(
        self,
        work_item_id: str,
        artifact_url: str,
        token: str | None = None,
        *,
        notes: str | None = None,
        force: bool = False,
    ) -> Json:
        """Give it to review; `artifact_url` is the address of the result."""
        return await self._verb(
            "hand_over",
            work_item_id,
            token=token,
            artifact_url=artifact_url,
            notes=notes,
            force=force,
        )

    async def reopen(self, work_item_id: str, *, notes: str | None = None) -> Json:
        return await self._verb("reopen", work_item_id, notes=notes)

    async def _verb(
        self, verb: str, work_item_id: str, *, token: str | None = None, **fields: Any
    ) -> Json:
        if not fields.get("force"):
            fields.pop("force", None)
        body = given(token=token, **fields)
        return await self._item(
            "POST", work_item_id, f"/{verb}", body, repeatable=token is not None
        )
