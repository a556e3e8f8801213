"""Calls about schedules and triggers."""

from rota.client._async.calls import Calls, Json, given, segment
from rota.model.work import check_name


class ScheduleCalls(Calls):
    async def list_schedules(
        self, *, agent: str | None = None, limit: int | None = None
    ) -> list[Json]:
        """By agent and name: all of them, or the first `limit`."""
        query = {"agent": agent}
        return [one async for one in self._each("/schedules", query, limit)]

    async def get_schedule(self, agent: str, name: str) -> Json:
        return await self._one("GET", _path(agent, name))

    async def enable_schedule(self, agent: str, name: str) -> Json:
        return await self._one("POST", f"{_path(agent, name)}/enable", {}, repeatable=True)

    async def disable_schedule(self, agent: str, name: str) -> Json:
        return await self._one("POST", f"{_path(agent, name)}/disable", {}, repeatable=True)

    async def forget_schedule(self, agent: str, name: str) -> None:
        """For a schedule that no configuration names any more."""
        await self._call("DELETE", _path(agent, name))

    async def trigger_schedule(self, agent: str, name: str, message: str | None = None) -> Json:
        """Wake the agent now; `get_trigger` tells how that ended."""
        return await self._one("POST", f"{_path(agent, name)}/trigger", given(message=message))

    async def get_trigger(self, trigger_id: str) -> Json:
        return await self._one("GET", f"/triggers/{segment(trigger_id)}")

    async def restore_schedule(
        self,
        agent: str,
        name: str,
        *,
        enabled: bool = True,
        last_run_at: str | None = None,
        last_error: str | None = None,
    ) -> bool:
        """Take over what another scheduler knew; False when the schedule has run here already."""
        body = given(enabled=enabled, last_run_at=last_run_at, last_error=last_error)
        path = f"{_path(agent, name)}/restore"
        answer = await self._one("POST", path, body, repeatable=True)
        return bool(answer.get("restored"))

    async def send_chat(
        self,
        agent: str,
        name: str,
        text: str,
        message_id: str,
        *,
        sender: str | None = None,
        channel: str | None = None,
    ) -> Json:
        """Wake the agent of a chat schedule; a message counts once."""
        body = given(text=text, message_id=message_id, sender=sender, channel=channel)
        path = f"/chat/{check_name(agent, 'agent')}/{check_name(name, 'schedule')}"
        return await self._one("POST", path, body, repeatable=True)


def _path(agent: str, name: str) -> str:
    return f"/schedules/{check_name(agent, 'agent')}/{check_name(name, 'schedule')}"
