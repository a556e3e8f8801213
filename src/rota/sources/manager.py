"""Work for an agent from its configured source: fetched, claimed, reported, given back.

One adapter per agent is kept, so that its state (claims, rate limits) lasts from call to call. When
the configuration changes, the old adapter stays until its last claim is reported.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

from rota.model.errors import ClaimLost, WorkSourceError
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    ReleaseOptions,
    ReleaseResult,
    WorkItem,
    WorkResult,
    WorkSource,
    close,
)
from rota.sources.registry import SourceContext, WorkSourceRegistry, default_registry

# How many items are tried before the agent is told that others were quicker.
CANDIDATES = 10
# Longer than a healthy tracker takes to decide a claim.
GIVE_BACK_SECONDS = 15.0
# One item may fail by itself. After this many errors, no further item is tried.
MOST_ERRORS = 3


class SourcedAgent(Protocol):
    """The part of an agent that matters here."""

    @property
    def name(self) -> str: ...
    @property
    def work_source(self) -> Mapping[str, Any] | None: ...


class NextWorkItem(NamedTuple):
    """`item` without `claimed`: there was work, and `claim_result` says why the last candidate
    could not be claimed."""

    item: WorkItem | None = None
    claimed: bool = False
    claim_result: ClaimResult | None = None


@dataclass(eq=False, slots=True)
class _Cached:
    """An adapter, and its uses: claims that are still to be reported, and calls in progress."""

    config: Mapping[str, Any]
    adapter: WorkSource
    claims: dict[str, str | None] = field(default_factory=dict)  # by item id
    calls: int = 0

    @property
    def is_idle(self) -> bool:
        return not self.claims and not self.calls

    def has(self, work_item_id: str, claim: str | None) -> bool:
        """Was this claim made with it? None means the latest claim."""
        return work_item_id in self.claims and claim in (None, self.claims[work_item_id])

    def ended(self, work_item_id: str, claim: str | None) -> None:
        if self.has(work_item_id, claim):
            del self.claims[work_item_id]


class WorkSourceManager:
    """Safe for concurrent calls, also for one agent."""

    def __init__(
        self,
        context: SourceContext | None = None,
        *,
        registry: WorkSourceRegistry = default_registry,
    ) -> None:
        """Every adapter gets `context`, with the name of its own agent."""
        self._context = context or SourceContext()
        self._registry = registry
        self._cache: dict[str, _Cached] = {}
        self._retired: dict[str, list[_Cached]] = {}
        self._giving_back: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def get_adapter(self, agent: SourcedAgent) -> WorkSource | None:
        """The agent's adapter; a new one when its configuration has changed."""
        cached = await self._cached(agent)
        return None if cached is None else cached.adapter

    async def get_next_work_item(
        self,
        agent: SourcedAgent,
        *,
        auto_claim: bool = True,
        options: FetchOptions = FetchOptions(),  # noqa: B008 - frozen
    ) -> NextWorkItem:
        """The best available item. After a lost race the next candidate is tried."""
        cached = await self._cached(agent)
        if cached is None:
            return NextWorkItem()
        async with self._using(agent.name, cached):
            if auto_claim:
                return await self._claim_best(agent.name, cached, options)
            found = await cached.adapter.fetch_available_work(replace(options, limit=1))
            return NextWorkItem(found.items[0]) if found.items else NextWorkItem()

    async def report_outcome(
        self, work_item_id: str, result: WorkResult, *, agent: SourcedAgent
    ) -> None:
        cached = await self._claimed_with(agent, work_item_id, result.claim)
        if cached is None:
            raise WorkSourceError(
                f"agent {agent.name!r} has no work source to report {work_item_id[:100]!r} to",
                agent=agent.name,
            )
        async with self._using(agent.name, cached):
            try:
                await cached.adapter.complete_work(work_item_id, result)
            except ClaimLost:
                cached.ended(work_item_id, result.claim)
                raise
            cached.ended(work_item_id, result.claim)

    async def release_work_item(
        self,
        work_item_id: str,
        *,
        agent: SourcedAgent,
        reason: str | None = None,
        add_comment: bool = False,
        not_before: datetime | None = None,
        counted: bool = True,
        claim: str | None = None,
    ) -> ReleaseResult:
        cached = await self._claimed_with(agent, work_item_id, claim)
        if cached is None:
            return ReleaseResult(False, f"agent {agent.name!r} has no work source")
        async with self._using(agent.name, cached):
            options = ReleaseOptions(reason, add_comment, not_before, counted, claim)
            released = await cached.adapter.release_work(work_item_id, options)
            if released.success:
                cached.ended(work_item_id, claim)
            return released

    async def let_go(
        self, work_item_id: str, *, agent: SourcedAgent, claim: str | None = None
    ) -> None:
        """Nothing will be reported for this claim: it was lost, or its report was given up. The
        source is not told. An adapter that was kept only for this claim is closed."""
        kept = [*self._retired.get(agent.name, ()), self._cache.get(agent.name)]
        for cached in reversed(kept):
            if cached is not None and cached.has(work_item_id, claim):
                async with self._using(agent.name, cached):
                    cached.ended(work_item_id, claim)
                return

    async def clear_cache(self) -> None:
        """Close the adapters; one with open claims is closed when its last claim is reported."""
        names, self._cache = self._cache, {}
        await _close([one for name, cached in names.items() for one in self._retire(name, cached)])

    async def aclose(self, patience: float | None = None) -> None:
        """Close every adapter, even with open claims. A claim that is not given back within
        `patience` seconds is left to its lease: the source may not answer for a long time."""
        if self._giving_back:
            seconds = GIVE_BACK_SECONDS if patience is None else patience
            _, late = await asyncio.wait(self._giving_back, timeout=seconds)
            for task in late:
                task.cancel()
        kept = [*self._cache.values(), *(one for many in self._retired.values() for one in many)]
        self._cache, self._retired = {}, {}
        await _close(kept)

    async def _cached(self, agent: SourcedAgent) -> _Cached | None:
        config, old = agent.work_source, self._cache.get(agent.name)
        if old is not None and old.config == config:
            return old
        # No await before the new adapter is stored: concurrent callers get the same one.
        idle: list[_Cached] = []
        if old is not None:
            del self._cache[agent.name]
            idle = self._retire(agent.name, old)
        new = None
        try:
            if config is not None:
                adapter = self._registry.create(config, replace(self._context, agent=agent.name))
                new = self._cache[agent.name] = _Cached(copy.deepcopy(dict(config)), adapter)
        finally:
            await _close(idle)
        return new

    def _retire(self, name: str, cached: _Cached) -> list[_Cached]:
        """The adapters that can be closed at once."""
        if cached.is_idle:
            return [cached]
        self._retired.setdefault(name, []).append(cached)
        return []

    async def _claimed_with(
        self, agent: SourcedAgent, work_item_id: str, claim: str | None
    ) -> _Cached | None:
        """Only the adapter that made the claim knows it; another one would not recognise us."""
        for cached in reversed(self._retired.get(agent.name, ())):
            if cached.has(work_item_id, claim):
                return cached
        return await self._cached(agent)

    @asynccontextmanager
    async def _using(self, name: str, cached: _Cached) -> AsyncIterator[None]:
        cached.calls += 1
        try:
            yield
        finally:
            cached.calls -= 1
            retired = self._retired.get(name, [])
            if cached.is_idle and cached in retired:
                retired.remove(cached)
                await _close([cached])

    async def _claim_best(self, name: str, cached: _Cached, options: FetchOptions) -> NextWorkItem:
        answer, errors = NextWorkItem(), 0
        async for item in _candidates(cached.adapter, options):
            result = await self._claim(name, cached, item.id)
            if result.success:
                cached.claims[item.id] = result.claim
                return NextWorkItem(result.work_item or item, True, result)
            answer = NextWorkItem(item, False, result)
            errors += result.reason is ClaimFailureReason.SOURCE_ERROR
            # An agent that may take nothing now would be refused the next candidate too.
            if result.reason is ClaimFailureReason.PERMISSION_DENIED or errors == MOST_ERRORS:
                break
        return answer

    async def _claim(self, name: str, cached: _Cached, item_id: str) -> ClaimResult:
        """A caller that is cancelled while its claim is being made gives the item back."""
        claiming = asyncio.ensure_future(cached.adapter.claim_work(item_id))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            task = asyncio.ensure_future(self._give_back(name, cached, item_id, claiming))
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)
            cached.calls += 1  # released by the task, which may start after its caller has ended
            raise

    async def _give_back(
        self, name: str, cached: _Cached, item_id: str, claiming: "asyncio.Future[ClaimResult]"
    ) -> None:
        async with self._using(name, cached):
            cached.calls -= 1
            (result,) = await asyncio.gather(claiming, return_exceptions=True)
            if isinstance(result, ClaimResult) and result.success:
                # Nobody has worked on it, so it was no attempt.
                # This claim alone: the agent may hold a later one on the item by now.
                back = ReleaseOptions("claimer_gone", counted=False, claim=result.claim)
                releasing = cached.adapter.release_work(item_id, back)
                # No caller is left to tell; a claim that cannot be given back lapses.
                await asyncio.gather(releasing, return_exceptions=True)


async def _candidates(adapter: WorkSource, options: FetchOptions) -> AsyncIterator[WorkItem]:
    """Best first, from as many pages as needed."""
    left = CANDIDATES
    options = replace(options, limit=options.limit or left, include_claimed=False)
    while True:
        found = await adapter.fetch_available_work(options)
        for item in found.items[:left]:
            yield item
        left -= len(found.items)
        if left <= 0 or found.next_cursor is None:
            return
        options = replace(options, cursor=found.next_cursor)


async def _close(adapters: list[_Cached]) -> None:
    """Closes all of them, even when one fails."""
    closing = (close(cached.adapter) for cached in adapters)
    for answer in await asyncio.gather(*closing, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer
