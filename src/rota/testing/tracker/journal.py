"""The log of requests, so that a test can count what a client requested."""

from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import Any

from rota.testing.tracker.http import Json, Request

KEPT = 100_000


@dataclass(slots=True)
class Entry:
    number: int
    dialect: str
    method: str
    path: str
    query: dict[str, str]
    user: str | None  # whose token it was
    conditional: bool
    faults: list[str] = field(default_factory=list)
    status: int | None = None  # None: not answered, or not yet

    def facts(self) -> Json:
        facts: dict[str, Any] = asdict(self)
        facts["not_modified"] = self.status == 304
        return facts


class Journal:
    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._number = 0

    def open(self, request: Request, dialect: str, faults: list[str]) -> Entry:
        self._number += 1
        entry = Entry(
            self._number,
            dialect,
            request.method,
            request.path,
            request.query,
            request.token.account.login if request.token else None,
            "if-none-match" in request.headers,
            faults,
        )
        self._entries.append(entry)
        return entry

    def forget(self) -> None:
        self._entries.clear()

    def facts(self) -> list[Json]:
        return [one.facts() for one in self._entries]

    def counts(self) -> Json:
        entries = self._entries
        return {
            "total": len(entries),
            "writes": sum(one.method != "GET" for one in entries),
            "conditional": sum(one.conditional for one in entries),
            "not_modified": sum(one.status == 304 for one in entries),
            "unanswered": sum(one.status is None for one in entries),
            "by_method": Counter(one.method for one in entries),
            "by_status": Counter(str(one.status) for one in entries if one.status),
            "by_user": Counter(one.user or "" for one in entries),
            "by_fault": Counter(kind for one in entries for kind in one.faults),
        }
