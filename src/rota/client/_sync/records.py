# Made from ../_async/records.py by tools/generate_sync_client.py: change it there.

"""Calls about everything around the items: projects, agents, tokens, events, sweeps."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

from rota.client._sync import runtime
from rota.client._sync.calls import Calls, Json, given, not_ours, segment
from rota.client.errors import PASSING, error_of
from rota.client.sse import Parser
from rota.client.transport import Answer, SyncStream
from rota.model.work import check_name

log = logging.getLogger("rota.client")

# The server sends a sign of life more often than this; without one the stream is opened again.
SILENCE_SECONDS = 60.0


class RecordCalls(Calls):
    def health(self) -> Json:
        return self._one("GET", "/health")

    # projects

    def create_project(self, name: str, external_ref: str | None = None) -> Json:
        body = given(name=name, external_ref=external_ref)
        return self._one("POST", "/projects", body)

    def get_project(self, project_id: str) -> Json:
        return self._one("GET", f"/projects/{segment(project_id)}")

    def list_projects(self, limit: int | None = None) -> list[Json]:
        return list(self._each("/projects", {}, limit))

    def update_project(self, project_id: str, **changes: Any) -> Json:
        """`update_project(id, name="…", external_ref=None)`."""
        return self._one("PATCH", f"/projects/{segment(project_id)}", changes)

    # agents

    def agents(self) -> list[Json]:
        """Agents that are configured or busy, with their load."""
        return list(self._each("/agents", {}))

    def set_agent(
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
        return self._one("PATCH", f"/agents/{check_name(name, 'agent')}", body)

    # tokens

    def tokens(self) -> list[Json]:
        return list(self._each("/tokens", {}))

    def create_token(self, name: str, scopes: Sequence[str], expires_at: str | None = None) -> Json:
        """The answer's `secret` is shown only this once."""
        body = given(name=name, scopes=list(scopes), expires_at=expires_at)
        return self._one("POST", "/tokens", body)

    def revoke_token(self, token_id: str) -> None:
        self._call("DELETE", f"/tokens/{segment(token_id)}")

    # sweeps

    def reload_config(self) -> Json:
        """Let the server read its rota.yaml again; a mistake in it changes nothing."""
        return self._one("POST", "/config/reload", {}, repeatable=True)

    def sweep(self) -> Json:
        """Bring back what nobody works on. Returns what was released, failed and blocked."""
        return self._one("POST", "/sweep", {})

    def work_stale_check(self) -> Json:
        """`sweep` under the name that a dispatcher's routine uses."""
        return self.sweep()

    # statistics

    def statistics(self, window: str = "24h", *, zone: str = "UTC") -> Json:
        """What was done, how long it took, what failed and what it cost: by the hour for `24h`, by
        the day for `7d` or `30d`."""
        return self._one("GET", "/statistics", query={"window": window, "zone": zone})

    # events

    def events(
        self,
        after: int = 0,
        *,
        work_item_id: str | None = None,
        types: Sequence[str] = (),
        limit: int | None = None,
    ) -> list[Json]:
        """The event log after `after`, oldest first; at most `limit`, or the server's page size."""
        query = {"after": after, **_wanted(work_item_id, types), "limit": limit}
        return self._many("GET", "/events", query=query)

    def watch(
        self,
        after: int | None = None,
        *,
        work_item_id: str | None = None,
        types: Sequence[str] = (),
    ) -> Iterator[Json]:
        """Events as they happen, without end: from now on, or everything after number `after`.

        A broken connection is opened again after the last event seen.
        """
        attempt = 0
        while True:
            try:
                stream = self._subscribed(after, _wanted(work_item_id, types))
                parser = Parser()
                try:
                    for event in _events(stream, parser):
                        attempt = 0
                        yield event
                finally:
                    after = after if parser.last_id is None else int(parser.last_id)
                    stream.close()
            except PASSING as error:
                log.info("the event stream broke: %s", error.message)
            attempt += 1
            runtime.sleep(self._retries.pause(attempt))

    def _subscribed(self, after: int | None, query: Mapping[str, Any]) -> SyncStream:
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        request = self._request(
            "GET", "/events", query=query, headers=headers, timeout=SILENCE_SECONDS
        )
        stream = self._transport.open(request)
        if stream.status == 200:
            return stream
        try:
            body = b"".join(list(stream))
        finally:
            stream.close()
        raise error_of(Answer(stream.status, stream.headers, body))


def _wanted(work_item_id: str | None, types: Sequence[str]) -> dict[str, Any]:
    return {"work_item_id": work_item_id, "type": list(types)}


def _events(stream: SyncStream, parser: Parser) -> Iterator[Json]:
    try:
        for chunk in stream:
            for data in parser.feed(chunk):
                yield {**json.loads(data)}
    except (ValueError, TypeError) as error:
        raise not_ours() from error
