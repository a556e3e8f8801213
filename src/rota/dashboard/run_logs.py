"""The end of a run's log, which a page shows before its script reads on from there."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import timedelta, tzinfo
from pathlib import Path
from typing import Any

from rota.api.call import Call
from rota.dashboard.rendering import zone_of
from rota.model.clock import from_text, to_text
from rota.model.runs import Run
from rota.model.schedules import TriggerKind
from rota.runner.logs import for_people
from rota.runner.records import KEPT_DAYS

END_BYTES = 512 * 1024  # what a script reads of a long log
LINES_SHOWN = 200
LONGEST_SHOWN = 4_000  # characters of one line


SAID_NOTHING = "The run wrote nothing."
REMOVED = f"The log has been removed: logs are kept for {KEPT_DAYS} days."
NOT_HERE = (
    "This server has no log of the run. The run's program may have kept it, or written nothing."
)


@dataclass(frozen=True, slots=True)
class LogLine:
    ts: str
    clock: str  # the time of day where the viewer is
    who: str  # stderr, rota, or a tool's name; empty for the agent itself
    text: str


@dataclass(frozen=True, slots=True)
class LogEnd:
    """`start` is the offset after a whole line, where a script begins to read."""

    lines: list[LogLine]
    start: int
    elsewhere: str | None = None  # where the log is
    absence: str = SAID_NOTHING  # why a run that has ended has no lines

    @property
    def is_cut(self) -> bool:
        return self.start > 0


async def log_of(call: Call, run: Run) -> LogEnd:
    path = call.ledger.runs.log(run.id)
    foreign = run.node != call.ledger.runs.node and run.trigger is not TriggerKind.WORKER
    if foreign and not path.exists():
        return LogEnd([], 0, await call.ledger.runs.whereabouts(run))
    end = await asyncio.to_thread(_end, path, zone_of(call))
    return replace(end, absence=REMOVED) if end.absence == NOT_HERE and _is_old(call, run) else end


def _is_old(call: Call, run: Run) -> bool:
    kept_since = to_text(call.ledger.clock.now() - timedelta(days=KEPT_DAYS))
    return run.ended_at is not None and run.ended_at < kept_since


def _end(path: Path, zone: tzinfo) -> LogEnd:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - END_BYTES)
            file.seek(start)
            data = file.read(size - start)
    except OSError:
        return LogEnd([], 0, absence=NOT_HERE)
    if start:  # probably in the middle of a line
        behind = data.find(b"\n") + 1
        start, data = start + behind, data[behind:]
    whole = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    return LogEnd([_line(one, zone) for one in whole[-LINES_SHOWN:]], start)


def _line(raw: bytes, zone: tzinfo) -> LogLine:
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        entry = {"text": raw.decode(errors="replace")}
    ts, text = str(entry.get("ts", "")), _plain(str(entry.get("text", "")))
    left_out = len(text) - LONGEST_SHOWN
    if left_out > 0:
        text = f"{text[:LONGEST_SHOWN]} … {left_out:,} more characters"
    return LogLine(_plain(ts), _clock(ts, zone), _plain(_who(entry))[:40], text)


def _plain(text: str) -> str:
    """JSON can contain half a surrogate pair, which a page cannot."""
    return for_people(text).encode(errors="replace").decode()


def _who(entry: dict[str, Any]) -> str:
    """By the same rules as log.js."""
    if entry.get("stream") in ("stderr", "rota"):
        return str(entry["stream"])
    if entry.get("type") in ("text", None):
        return ""
    return str(entry.get("tool") or entry["type"])


def _clock(ts: str, zone: tzinfo) -> str:
    try:
        return from_text(ts).astimezone(zone).strftime("%H:%M:%S")
    except (ValueError, OverflowError):
        return ""
