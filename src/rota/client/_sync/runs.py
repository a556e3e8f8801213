# Made from ../_async/runs.py by tools/generate_sync_client.py: change it there.

"""Calls about runs: to view and cancel them, and for workers to report their own."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rota.client._sync import runtime
from rota.client._sync.calls import Calls, Json, content, given, not_ours, segment
from rota.client.errors import PASSING, error_of
from rota.client.transport import Answer, Request, SyncStream
from rota.model.work import check_name

log = logging.getLogger("rota.client")

NDJSON = "application/x-ndjson"
# The server sends a sign of life more often than this; without one the log is opened again.
SILENCE_SECONDS = 60.0


class RunCalls(Calls):
    def list_runs(
        self,
        *,
        agent: str | None = None,
        schedule: str | None = None,
        work_item_id: str | None = None,
        status: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[Json]:
        """Runs, newest first: all that match, or the first `limit` of them."""
        query = {
            "agent": agent,
            "schedule": schedule,
            "work_item_id": work_item_id,
            "status": [status] if isinstance(status, str) else list(status or ()),
        }
        return list(self._each("/runs", query, limit))

    def get_run(self, run_id: str) -> Json:
        return self._run("GET", run_id)

    def cancel_run(self, run_id: str) -> Json:
        """Ask for the end of a run; `Refused` when it has ended."""
        return self._run("POST", run_id, "/cancel", {}, repeatable=True)

    def read_log(
        self,
        run_id: str,
        *,
        follow: bool = False,
        offset: int = 0,
        tell: Callable[[str], object] = log.info,
    ) -> Iterator[Json]:
        """The log of a run, line by line; with `follow`, until it has ended or its server is gone.

        A broken connection is opened again after the last line seen; with `follow` for as long as
        it takes, and `tell` is called. The last line of a run that is lost says so.
        """
        attempt, seen, away = 0, False, False
        while True:
            try:
                stream = self._opened(run_id, follow, offset)
                seen = True
                if away:
                    tell("the server answers again")
                    away = False
                try:
                    for line in _lines(stream):
                        attempt = 0
                        offset += len(line) + 1
                        yield _object(line)
                finally:
                    stream.close()
                if not follow:
                    return
                run = self.get_run(run_id)
                if run["status"] == "lost":
                    yield _farewell(run)
                if _is_over(run):
                    return
            except PASSING as error:
                log.info("the log's stream broke: %s", error.message)
                attempt += 1
                if attempt >= self._retries.attempts and not (seen and follow):
                    raise
                if seen and follow and not away:
                    tell("the server does not answer; trying again until it does")
                    away = True
            runtime.sleep(self._retries.pause(attempt))

    def _opened(self, run_id: str, follow: bool, offset: int) -> SyncStream:
        query = {"follow": "true" if follow else None, "offset": offset}
        request = self._request(
            "GET",
            f"/runs/{segment(run_id)}/log",
            query=query,
            headers={"Accept": NDJSON},
            timeout=SILENCE_SECONDS,
        )
        stream = self._transport.open(request)
        if stream.status == 200:
            return stream
        try:
            body = b"".join(list(stream))
        finally:
            stream.close()
        raise error_of(Answer(stream.status, stream.headers, body))

    # for workers

    def begin_run(
        self,
        agent: str,
        work_item_id: str,
        token: str,
        *,
        schedule: str | None = None,
        node: str | None = None,
    ) -> Json:
        """Report that the agent begins on an item that it has claimed."""
        body = given(
            agent=agent, work_item_id=work_item_id, token=token, schedule=schedule, node=node
        )
        return self._one("POST", "/runs", body, repeatable=True)

    def append_log(self, run_id: str, offset: int, lines: bytes) -> int:
        """Send whole lines that begin at `offset`. Returns how much of the log the server has."""
        headers = {**self._headers(True), "Content-Type": NDJSON}
        path = f"/runs/{segment(run_id)}/log?offset={offset}"
        request = Request("POST", path, headers, lines, self._timeout)
        answer = content(self._answered(request, True))
        if not isinstance(answer, dict) or not isinstance(answer.get("size"), int):
            raise not_ours()
        return int(answer["size"])

    def end_run(self, run_id: str, end: Mapping[str, Any]) -> Json:
        """Report how it ended: `{"status": "succeeded", "summary": …}`. Does not move the item."""
        return self._run("POST", run_id, "/end", dict(end), repeatable=True)

    def _run(
        self, method: str, run_id: str, action: str = "", body: Any = None, **how: Any
    ) -> Json:
        return self._one(method, f"/runs/{segment(run_id)}{action}", body, **how)

    # agents, and the outbox

    def get_agent(self, name: str, *, timezone: str | None = None) -> Json:
        """One agent: its load, what it has spent, and what keeps it from running. Its day begins at
        midnight in that time zone, or in UTC."""
        path = f"/agents/{check_name(name, 'agent')}"
        return self._one("GET", path, query={"timezone": timezone})

    def outbox(self, *, buried: bool = False, limit: int | None = None) -> list[Json]:
        """Reports that still have to be delivered; with `buried`, those that were given up."""
        query = {"buried": "true" if buried else None}
        return list(self._each("/outbox", query, limit))

    def retry_outbox(self, entry_id: str) -> None:
        self._call("POST", f"/outbox/{segment(entry_id)}/retry", {}, repeatable=False)


def _lines(stream: SyncStream) -> Iterator[bytes]:
    """Whole lines. The empty lines of a quiet stream are not part of the log."""
    rest = b""
    for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _object(line: bytes) -> Json:
    try:
        return {**json.loads(line)}
    except (ValueError, TypeError, RecursionError):
        raise not_ours() from None


def _farewell(run: Json) -> Json:
    """Looks like a line of the log; nobody was left to write it there."""
    text = f"the run is lost: {run['error'] or 'nobody knows how it ended'}"
    return {"ts": run["ended_at"], "stream": "rota", "text": text, "gone": True}


def _is_over(run: Json) -> bool:
    return run["status"] != "running" or bool(run.get("unseen_since"))
