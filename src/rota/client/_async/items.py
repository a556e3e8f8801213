"""Calls that submit, read and change work items."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from rota.client._async.calls import Calls, Json, given, segment
from rota.model.errors import InvalidInput
from rota.model.work import KEY, NO_KEY


class ItemCalls(Calls):
    async def work_add(
        self,
        type: str,  # noqa: A002 - the field's name in the ledger
        description: str,
        payload: Any = None,
        agent: str | None = None,
        project_id: str | None = None,
        *,
        priority: int | None = None,
        body: str | None = None,
        labels: Sequence[str] | None = None,
        blocked_by: Sequence[str] | None = None,
        max_attempts: int | None = None,
        available_at: str | None = None,
        created_by: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Submit an item. Safe to repeat: without a key of yours, one is made for this call."""
        item = given(
            type=type,
            description=description,
            payload=payload,
            assigned_agent=agent,
            project_id=project_id,
            priority=priority,
            body=body,
            labels=labels,
            blocked_by=blocked_by,
            max_attempts=max_attempts,
            available_at=available_at,
            created_by=created_by,
        )
        return await self._one("POST", "/work", item, **_keyed(idempotency_key))

    async def work_add_many(
        self, items: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[Json]:
        """Submit up to 1,000 items, all or none; their fields are those of `POST /work`."""
        batch = [dict(item) for item in items]
        return await self._many("POST", "/work/batch", batch, **_keyed(idempotency_key))

    async def work_each(
        self,
        status: str | Sequence[str] | None = None,
        agent: str | None = None,
        project_id: str | None = None,
        *,
        type: str | None = None,  # noqa: A002 - the field's name in the ledger
        label: str | None = None,
        q: str | None = None,
        since: str | None = None,
        updated_since: str | None = None,
        id_prefix: str | None = None,
        ready: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Json]:
        """Items by priority and age, fetched page by page as you go."""
        query = {
            "status": [status] if isinstance(status, str) else list(status or ()),
            "agent": agent,
            "project_id": project_id,
            "type": type,
            "label": label,
            "q": q,
            "since": since,
            "updated_since": updated_since,
            "id_prefix": id_prefix,
            "ready": "true" if ready else None,
        }
        async for item in self._each("/work", query, limit):
            yield item

    async def work_list(
        self,
        status: str | Sequence[str] | None = None,
        agent: str | None = None,
        project_id: str | None = None,
        *,
        type: str | None = None,  # noqa: A002 - the field's name in the ledger
        label: str | None = None,
        q: str | None = None,
        since: str | None = None,
        updated_since: str | None = None,
        id_prefix: str | None = None,
        ready: bool = False,
        limit: int | None = None,
    ) -> list[Json]:
        """All items that match, or the first `limit` of them."""
        found = self.work_each(
            status,
            agent,
            project_id,
            type=type,
            label=label,
            q=q,
            since=since,
            updated_since=updated_since,
            id_prefix=id_prefix,
            ready=ready,
            limit=limit,
        )
        return [item async for item in found]

    async def work_ready(
        self,
        agent: str | None = None,
        project_id: str | None = None,
        *,
        type: str | None = None,  # noqa: A002 - the field's name in the ledger
        label: str | None = None,
        q: str | None = None,
    ) -> AsyncIterator[Json]:
        """What a claim would take now, in that order: items dispatched to the agent come first.
        Without an agent, whatever any agent could take."""
        named = [("dispatched", agent)] if agent is not None else []
        for status, whose in [*named, ("queued", None)]:
            async for item in self.work_each(
                status, whose, project_id, type=type, label=label, q=q, ready=True
            ):
                if agent in (None, item["assigned_agent"] or agent):
                    yield item

    async def work_get(self, work_item_id: str) -> Json:
        """The item with its dispatch log, events, claim and links."""
        return await self._item("GET", work_item_id)

    async def work_update(
        self,
        work_item_id: str,
        status: str | None = None,
        outcome: str | None = None,
        notes: str | None = None,
        *,
        agent: str | None = None,
        token: str | None = None,
        version: int | None = None,
    ) -> Json:
        """Move an item by naming its new status; refused moves raise `Refused`."""
        changes = given(
            status=status, outcome=outcome, notes=notes, assigned_agent=agent, token=token
        )
        return await self._patch(work_item_id, changes, version)

    async def work_dispatch(self, work_item_id: str, agent: str, start: bool = True) -> Json:
        """Name the agent that shall do it and, unless `start` is False, mark it as picked up."""
        item = await self.work_update(work_item_id, "dispatched", agent=agent)
        return await self.work_update(work_item_id, "in_progress") if start else item

    async def edit(self, work_item_id: str, *, version: int | None = None, **changes: Any) -> Json:
        """Change describing fields: `edit(id, priority=1, labels=["urgent"], body=None)`."""
        return await self._patch(work_item_id, changes, version)

    async def note(self, work_item_id: str, notes: str, *, token: str | None = None) -> Json:
        return await self._item("POST", work_item_id, "/note", given(notes=notes, token=token))

    async def hold(self, work_item_id: str, reason: str) -> Json:
        """Nobody picks it up until `unhold`."""
        return await self._item("POST", work_item_id, "/hold", {"reason": reason})

    async def unhold(self, work_item_id: str) -> Json:
        return await self._item("POST", work_item_id, "/unhold", {})

    async def explain(self, work_item_id: str) -> Json:
        """Why nobody works on it, and what would change that."""
        return await self._item("GET", work_item_id, "/explain")

    async def _patch(self, work_item_id: str, changes: Json, version: int | None) -> Json:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return await self._item("PATCH", work_item_id, body=changes, headers=headers)

    async def _item(
        self,
        method: str,
        work_item_id: str,
        action: str = "",
        body: Any = None,
        **how: Any,
    ) -> Json:
        path = f"/work/{segment(work_item_id)}{action}"
        return await self._one(method, path, body, **how)


def _keyed(key: str | None) -> dict[str, Any]:
    """A key that a header cannot hold would arrive as another key, so it is refused."""
    if key is not None and not KEY.fullmatch(key):
        raise InvalidInput(f"idempotency_key: {NO_KEY}", field="idempotency_key")
    sent = secrets.token_hex(16) if key is None else key
    return {"headers": {"Idempotency-Key": sent}, "repeatable": True}
