"""Calls about everything around the items: projects, agents, tokens, events, sweeps."""

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

from rota.client._async import runtime
from rota.client._async.calls import Calls, Json, given, not_ours, segment
from rota.client.errors import PASSING, error_of
from rota.client.sse import Parser
from rota.client.transport import Answer, AsyncStream
from rota.model.work import check_name

log = logging.getLogger("rota.client")

# The server sends a sign of life more often than this; without one the stream is opened again.
SILENCE_SECONDS = 60.0


class RecordCalls(Calls):
    async def health(self) -> Json:
        return await self._one("GET", "/health")

    # projects

    async def create_project(self, name: str, external_ref: str | None = None) -> Json:
        body = given(name=name, external_ref=external_ref)
        return await self._one("POST", "/projects", body)

    async def get_project(self, project_id: str) -> Json:
        return await self._one("GET", f"/projects/{segment(project_id)}")

    async def list_projects(self, limit: int | None = None) -> list[Json]:
        return [project async for project in self._each("/projects", {}, limit)]

    async def update_project(self, project_id: str, **changes: Any) -> Json:
        """`update_project(id, name="…", external_ref=None)`."""
        return await self._one("PATCH", f"/projects/{segment(project_id)}", changes)

    # agents

    async def agents(self) -> list[Json]:
        """Agents that are configured or busy, with their load."""
        return [agent async for agent in self._each("/agents", {})]

    async def set_agent(
        self,
        name: str,
        *,
        max_concurrent: int | None = None,
        paused: bool | None = None,
        max_in_review: int | EllipsisType | None = ...,
    ) -> Json:
        """Fields that are not given stay as they are; `max_in_review=None` takes that limit off."""
        body = given(max_concurrent=max_concurrent, paused=paused)
        if max_in_review is not ...:
            body["max_in_review"] = max_in_review
        return await self._one("PATCH", f"/agents/{check_name(name, 'agent')}", body)

    # tokens

    async def tokens(self) -> list[Json]:
        return [token async for token in self._each("/tokens", {})]

    async def create_token(
        self, name: str, scopes: Sequence[str], expires_at: str | None = None
    ) -> Json:
        """The answer's `secret` is shown only this once."""
        body = given(name=name, scopes=list(scopes), expires_at=expires_at)
        return await self._one("POST", "/tokens", body)

    async def revoke_token(self, token_id: str) -> None:
        await self._call("DELETE", f"/tokens/{segment(token_id)}")

    # sweeps

    async def reload_config(self) -> Json:
        """Let the server read its rota.yaml again; a mistake in it changes nothing."""
        return await self._one("POST", "/config/reload", {}, repeatable=True)

    async def sweep(self) -> Json:
        """Bring back what nobody works on. Returns what was released, failed and blocked."""
        return await self._one("POST", "/sweep", {})

    async def work_stale_check(self) -> Json:
        """`sweep` under the name that a dispatcher's routine uses."""
        return await self.sweep()

    # statistics

    async def statistics(self, window: str = "24h", *, zone: str = "UTC") -> Json:
        """What was done, how long it took, what failed and what it cost: by the hour for `24h`, by
        the day for `7d` or `30d`."""
        return await self._one("GET", "/statistics", query={"window": window, "zone": zone})

    # events

    async def events(
        self,
        after: int = 0,
        *,
        work_item_id: str | None = None,
        types: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[Json]:
        """The event log after `after`, oldest first; at most `limit`, or the server's page size."""
        query = {"after": after, **_wanted(work_item_id, types), "limit": limit}
        return await self._many("GET", "/events", query=query)

    async def watch(
        self,
        after: int | None = None,
        *,
        work_item_id: str | None = None,
        types: Sequence[str] = (),
    ) -> AsyncIterator[Json]:
        """Events as they happen, without end: from now on, or everything after number `after`.

        A broken connection is opened again after the last event seen.
        """
        attempt = 0
        while True:
            try:
                stream = await self._subscribed(after, _wanted(work_item_id, types))
                parser = Parser()
                try:
                    async for event in _events(stream, parser):
                        attempt = 0
                        yield event
                finally:
                    after = after if parser.last_id is None else int(parser.last_id)
                    await stream.aclose()
            except PASSING as error:
                log.info("the event stream broke: %s", error.message)
            attempt += 1
            await runtime.sleep(self._retries.pause(attempt))

    async def _subscribed(self, after: int | None, query: Mapping[str, Any]) -> AsyncStream:
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        request = self._request(
            "GET", "/events", query=query, headers=headers, timeout=SILENCE_SECONDS
        )
        stream = await self._transport.open(request)
        if stream.status == 200:
            return stream
        try:
            body = b"".join([chunk async for chunk in stream])
        finally:
            await stream.aclose()
        raise error_of(Answer(stream.status, stream.headers, body))


def _wanted(work_item_id: str | None, types: Sequence[str]) -> dict[str, Any]:
    return {"work_item_id": work_item_id, "type": list(types)}


async def _events(stream: AsyncStream, parser: Parser) -> AsyncIterator[Json]:
    try:
        async for chunk in stream:
            for data in parser.feed(chunk):
                yield {**json.loads(data)}
    except (ValueError, TypeError) as error:
        raise not_ours() from error
