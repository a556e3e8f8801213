"""Items in this process: for tests, examples and a first try.

    place = MemoryPlace()
    place.add("Mend the gate", priority=Priority.HIGH)
    ada, bob = place.source("ada"), place.source("bob")    # two agents, one place

Configured as `type: memory` with `items:`, every agent has a place of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from rota.model.clock import Clock, IdFactory, SystemClock
from rota.model.errors import ClaimLost, InvalidInput
from rota.model.status import Status
from rota.model.work import Priority
from rota.sources.paging import page
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    FetchResult,
    ReleaseOptions,
    ReleaseResult,
    WorkItem,
    WorkOutcome,
    WorkResult,
    refused,
)
from rota.sources.registry import SourceContext
from rota.sources.titles import one_line

ENDS_AS: Mapping[WorkOutcome, Status] = {
    "success": Status.COMPLETED,
    "failure": Status.FAILED,
    "partial": Status.BLOCKED,
}


@dataclass(slots=True)
class Entry:
    """An item of the place, and its state."""

    item: WorkItem
    status: Status = Status.QUEUED
    agent: str | None = None  # the holder, or the agent that ended it
    token: str | None = None  # of that claim
    result: WorkResult | None = None
    comments: list[str] = field(default_factory=list)


class MemoryPlace:
    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.ids = IdFactory(self.clock)
        self.entries: dict[str, Entry] = {}

    def add(
        self,
        title: str,
        *,
        description: str = "",
        priority: Priority | int = Priority.MEDIUM,
        labels: Sequence[str] = (),
        created_at: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> WorkItem:
        number = str(len(self.entries) + 1)
        now = created_at or self.clock.now()
        item = WorkItem(
            f"memory-{number}",
            "memory",
            number,
            one_line(title) or f"Item {number}",
            description,
            Priority(priority),
            tuple(dict.fromkeys(labels)),
            f"memory:{number}",
            now,
            now,
            dict(metadata or {}),
        )
        self.entries[item.id] = Entry(item)
        return item

    def source(self, agent: str) -> "MemoryWorkSource":
        return MemoryWorkSource(self, agent)


class MemoryWorkSource:
    """The place as one agent sees it. No verb awaits anything, so each is atomic."""

    type: str = "memory"

    def __init__(self, place: MemoryPlace, agent: str) -> None:
        self.place = place
        self.agent = agent
        self._tokens: dict[str, str] = {}  # of the last claim of each item

    async def fetch_available_work(
        self,
        options: FetchOptions = FetchOptions(),  # noqa: B008 - frozen
    ) -> FetchResult:
        shown = {Status.QUEUED, *([Status.IN_PROGRESS] if options.include_claimed else [])}
        entries = self.place.entries.values()
        return page((entry.item for entry in entries if entry.status in shown), options)

    async def claim_work(self, work_item_id: str) -> ClaimResult:
        entry = self.place.entries.get(work_item_id)
        if entry is None:
            return refused(ClaimFailureReason.NOT_FOUND, f"there is no {work_item_id[:100]!r}")
        if entry.status is Status.IN_PROGRESS:
            return refused(ClaimFailureReason.ALREADY_CLAIMED, "another has claimed it")
        if entry.status is not Status.QUEUED:
            return refused(ClaimFailureReason.INVALID_STATE, f"it is {entry.status}")
        entry.status = Status.IN_PROGRESS
        entry.agent = self.agent
        entry.token = self._tokens[work_item_id] = self.place.ids.token()
        self._touch(entry)
        return ClaimResult(True, entry.item, claim=entry.token)

    async def complete_work(self, work_item_id: str, result: WorkResult) -> None:
        entry = self._own(work_item_id, result.claim)
        if entry is not None:
            entry.status, entry.result = ENDS_AS[result.outcome], result
            self._touch(entry)
        elif not self._is_repeat(work_item_id, result):
            raise ClaimLost(
                f"{work_item_id[:100]!r} is not with {self.agent!r}; stop working on it"
            )

    async def release_work(
        self,
        work_item_id: str,
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    ) -> ReleaseResult:
        entry = self._own(work_item_id, options.claim)
        if entry is None:
            return ReleaseResult(True, "it is not ours any more")
        entry.status = Status.QUEUED
        if options.add_comment and options.reason:
            entry.comments.append(options.reason)
        self._touch(entry)
        return ReleaseResult(True)

    async def get_work(self, work_item_id: str) -> WorkItem | None:
        entry = self.place.entries.get(work_item_id)
        return None if entry is None else entry.item

    async def aclose(self) -> None:
        """Nothing to close."""

    def _own(self, work_item_id: str, claim: str | None) -> Entry | None:
        """The entry, if we hold it."""
        entry = self.place.entries.get(work_item_id)
        if entry is None or (entry.status, entry.agent) != (Status.IN_PROGRESS, self.agent):
            return None
        return entry if entry.token == (claim or self._tokens.get(work_item_id)) else None

    def _is_repeat(self, work_item_id: str, result: WorkResult) -> bool:
        entry = self.place.entries.get(work_item_id)
        return entry is not None and (entry.agent, entry.result) == (self.agent, result)

    def _touch(self, entry: Entry) -> None:
        entry.item = replace(entry.item, updated_at=self.place.clock.now())


def create(config: Mapping[str, Any], context: SourceContext) -> MemoryWorkSource:
    """`items:` is a list of mappings with the fields of `MemoryPlace.add`."""
    from rota.config.fleet import source_config  # noqa: PLC0415 - pydantic is slow to import
    from rota.config.sources import MemorySource  # noqa: PLC0415

    settings = source_config(config)
    assert isinstance(settings, MemorySource)  # noqa: S101 - the registry chose us by this type
    place = MemoryPlace(context.clock)
    for number, given in enumerate(settings.items):
        try:
            place.add(**cast("dict[str, Any]", given))
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"work_source.items[{number}] is no item: {error}", field="work_source.items"
            ) from None
    return place.source(context.agent)
