"""Calls about signals, their firings, and follow-ups."""

from collections.abc import Mapping
from typing import Any

from rota.client._async.calls import Calls, Json, given, not_ours, segment


class SignalCalls(Calls):
    async def create_signal(
        self,
        trigger: Mapping[str, Any],
        action: Mapping[str, Any] | None = None,
        *,
        work_item_id: str | None = None,
        name: str | None = None,
        max_fires: int | None = 1,
        expires_at: str | None = None,
        max_depth: int | None = None,
    ) -> Json:
        """When the trigger happens, the action follows; `max_fires=None` means every time."""
        spec = given(
            action=action,
            work_item_id=work_item_id,
            name=name,
            expires_at=expires_at,
            max_depth=max_depth,
        )
        body = {"trigger": dict(trigger), "max_fires": max_fires, **spec}
        return await self._one("POST", "/signals", body)

    async def list_signals(
        self,
        *,
        status: str | None = None,
        work_item_id: str | None = None,
        limit: int | None = None,
    ) -> list[Json]:
        """By age: all that match, or the first `limit` of them."""
        query = {"status": status, "work_item_id": work_item_id}
        return [signal async for signal in self._each("/signals", query, limit)]

    async def get_signal(self, signal_id: str) -> Json:
        """With its latest `firings`."""
        return await self._one("GET", f"/signals/{segment(signal_id)}")

    async def cancel_signal(self, signal_id: str) -> None:
        """`Refused` when it is not active any more."""
        await self._call("DELETE", f"/signals/{segment(signal_id)}")

    async def test_signal(
        self,
        trigger: Mapping[str, Any],
        action: Mapping[str, Any] | None = None,
        *,
        work_item_id: str | None = None,
    ) -> list[Json]:
        """Past events that would have fired it; nothing is stored."""
        body = given(trigger=dict(trigger), action=action, work_item_id=work_item_id)
        return await self._many("POST", "/signals/test", body, repeatable=True)

    async def firings(self, status: str = "failed", *, limit: int | None = None) -> list[Json]:
        """Firings of this status, oldest first: all, or the first `limit` of them."""
        return [one async for one in self._each("/signals/firings", {"status": status}, limit)]

    async def retry_firing(self, firing_id: str) -> Json:
        """Try a firing again that failed for good."""
        return await self._one("POST", f"/signals/firings/{segment(firing_id)}/retry", {})

    # follow-ups

    async def follow_ups(
        self,
        *,
        status: str | None = None,
        work_item_id: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> list[Json]:
        """By age: all, or the first `limit`; with `agent`, only those that this agent may have."""
        query = {"status": status, "work_item_id": work_item_id, "agent": agent}
        return [one async for one in self._each("/follow-ups", query, limit)]

    async def get_follow_up(self, follow_up_id: str) -> Json:
        return await self._one("GET", f"/follow-ups/{segment(follow_up_id)}")

    async def claim_follow_up(
        self, agent: str, *, lease_seconds: float | None = None
    ) -> Json | None:
        """The oldest that this agent may have, with its `token`; None when there is none."""
        body = given(agent=agent, lease_seconds=lease_seconds)
        taken = await self._call("POST", "/follow-ups/claim", body)
        if taken is not None and not isinstance(taken, dict):
            raise not_ours()
        return taken

    async def heartbeat_follow_up(
        self, follow_up_id: str, token: str, *, lease_seconds: float | None = None
    ) -> Json:
        """Keep it for another lease; `ClaimLost` says to stop working on it."""
        body = given(token=token, lease_seconds=lease_seconds)
        return await self._follow_up(follow_up_id, "heartbeat", body, repeatable=True)

    async def complete_follow_up(
        self,
        follow_up_id: str,
        token: str | None = None,
        *,
        outcome: str | None = None,
        notes: str | None = None,
    ) -> Json:
        """It is done. No token is needed while nobody has it."""
        body = given(token=token, outcome=outcome, notes=notes)
        return await self._follow_up(follow_up_id, "complete", body)

    async def cancel_follow_up(
        self, follow_up_id: str, token: str | None = None, *, notes: str | None = None
    ) -> Json:
        return await self._follow_up(follow_up_id, "cancel", given(token=token, notes=notes))

    async def release_follow_up(self, follow_up_id: str, token: str) -> Json:
        """Give it back."""
        return await self._follow_up(follow_up_id, "release", {"token": token})

    async def _follow_up(self, follow_up_id: str, verb: str, body: Json, **how: Any) -> Json:
        return await self._one("POST", f"/follow-ups/{segment(follow_up_id)}/{verb}", body, **how)
