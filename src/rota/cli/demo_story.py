"""What happens in `rota demo`, told while it happens, and summed up at the end."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rota.cli.output import Json, Output
from rota.cli.text import one_line, shortened

if TYPE_CHECKING:
    from rota.client import WorkQueueClient

_DEEDS = {
    "work.submitted": "came in",
    "work.unblocked": "is free",  # its blockers are completed
    "run.started": "begins",
    "work.completed": "completed",
    "work.failed": "failed",
    "work.blocked": "asks",
    "work.released": "tries later",
}
_TITLE_WIDTH = 52
_SAID_WIDTH = 76


class Story:
    def __init__(self, client: "WorkQueueClient", output: Output) -> None:
        self._client = client
        self._output = output
        self._titles: dict[str, str] = {}
        self._began: datetime | None = None

    async def tell(self) -> None:
        """Runs until it is cancelled. Programs get every event, people those worth a line."""
        async for event in self._client.watch(0):
            words = await self._line(event)
            if words or self._output.as_json:
                self._output.stream({"event": event}, words)

    async def _line(self, event: Json) -> str:
        now = datetime.fromisoformat(event["occurred_at"])
        self._began = self._began or now
        deed, what = _DEEDS.get(event["type"]), await self._title(event["work_item_id"])
        if event["work_item_id"] is None and event["type"] == "run.finished":
            deed, what = event["payload"]["status"], event["payload"].get("summary", "")
        if deed is None or not what:
            return ""
        who = event["agent"] or event["actor"] or ""
        line = f"{(now - self._began).total_seconds():5.1f}s  {who:5} {deed:11}  {what}"
        return f"{line}{_said(event)}"

    async def _title(self, item_id: str | None) -> str:
        if item_id is None:
            return ""
        if item_id not in self._titles:
            item = await self._client.work_get(item_id)
            self._titles[item_id] = shortened(item["description"], _TITLE_WIDTH)
        return self._titles[item_id]


def _said(event: Json) -> str:
    """Nothing more for events that went as they should."""
    if event["type"] not in ("work.blocked", "work.failed", "work.released"):
        return ""
    said = event["payload"].get("notes") or event["reason"] or ""
    return f"\n{'':27}{shortened(said, _SAID_WIDTH)}"


async def sum_up(client: "WorkQueueClient", output: Output) -> None:
    items = await client.work_list(limit=1000)
    runs = await client.list_runs(limit=1000)
    schedules = await client.list_schedules()
    waiting = [item for item in items if item["status"] == "blocked"]
    summary = {
        "items": Counter(item["status"] for item in items),
        "runs": Counter(run["status"] for run in runs),
        "skips": sum(one["skip_count"] for one in schedules),
        "waiting": [{"id": one["id"], "description": one["description"]} for one in waiting],
    }
    output.stream({"summary": summary}, "\n".join(_summary(summary, waiting)))


def _summary(summary: Json, waiting: Sequence[Json]) -> Iterator[str]:
    yield ""
    yield f"  items    {_counted(summary['items'])}"
    yield f"  runs     {_counted(summary['runs'])}"
    yield f"  skips    {_skips(summary['skips'])}"
    for item in waiting:
        yield f"  for you  {one_line(item['description'])}"
        yield f"           {one_line(item['notes'] or '')}"


def _skips(count: int) -> str:
    times = "once" if count == 1 else f"{count} times"
    return f"{times} a schedule woke nobody: there was no work, or its agent was busy"


def _counted(counts: Counter[str]) -> str:
    parts = [f"{number} {name.replace('_', ' ')}" for name, number in sorted(counts.items())]
    return ", ".join(parts) or "none"
