"""The work source of a Markdown folder, for one agent."""

import asyncio
import os
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog

from rota.model.claims import DEFAULT_LEASE_SECONDS
from rota.model.clock import Clock, IdFactory, SystemClock, to_text
from rota.model.errors import ClaimLost, MalformedReference, WorkSourceError
from rota.sources.markdown.claimlog import Claim, End
from rota.sources.markdown.custody import Custody, Denial, Held
from rota.sources.markdown.folder import Folder, Offer, Problem
from rota.sources.markdown.sheet import PREFIX, BadSheet, Sheet, item_of, stem_of
from rota.sources.paging import page
from rota.sources.port import (
    ClaimFailureReason,
    ClaimResult,
    FetchOptions,
    FetchResult,
    ReleaseOptions,
    ReleaseResult,
    WorkItem,
    WorkResult,
    refused,
)
from rota.sources.registry import SourceContext

P = ParamSpec("P")
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]

# How much of a result goes into a file. The rest is in the run's log.
LONGEST = {"summary": 2_000, "details": 4_000, "error": 2_000, "artifact": 300}
MOST_ARTIFACTS = 20
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

log = structlog.get_logger("rota.sources")

# Problems already logged, by folder: several agents may work from one folder.
_said: dict[Path, frozenset[Problem]] = {}


class MarkdownWorkSource:
    """Keeps the claims that it made alive while it is open."""

    type: str = "markdown"

    def __init__(
        self,
        folder: Folder,
        agent: str,
        *,
        labels: tuple[str, ...] = (),
        exclude_labels: tuple[str, ...] = (),
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.agent = agent
        self._folder = folder
        self._custody = Custody(folder, self._shows)
        self._labels, self._excluded = labels, exclude_labels
        self._lease_seconds = lease_seconds
        self._clock = clock or SystemClock()
        self._ids = IdFactory(self._clock)
        self._sleep = sleep
        self._held: dict[str, Held] = {}
        self._keeper: asyncio.Task[None] | None = None

    async def fetch_available_work(
        self,
        options: FetchOptions = FetchOptions(),  # noqa: B008 - frozen
    ) -> FetchResult:
        listing = await _asked(self._folder.listing)
        _say(self._folder.path, listing.problems)
        found = [*listing.available, *(listing.claimed if options.include_claimed else [])]
        return page([self._item(offer) for offer in found if self._shows(offer.sheet)], options)

    async def problems(self) -> tuple[Problem, ...]:
        """The files that are not offered, each with its problem."""
        return tuple((await _asked(self._folder.listing)).problems)

    async def claim_work(self, work_item_id: str) -> ClaimResult:
        try:
            stem = stem_of(work_item_id)
            answer = await asyncio.to_thread(self._custody.claim, stem, self._claim())
        except MalformedReference as error:
            return refused(ClaimFailureReason.NOT_FOUND, error.message)
        except WorkSourceError as error:
            return refused(ClaimFailureReason.SOURCE_ERROR, error.message)
        except PermissionError as error:
            return refused(ClaimFailureReason.PERMISSION_DENIED, str(error))
        except OSError as error:
            return refused(ClaimFailureReason.SOURCE_ERROR, str(error))
        if isinstance(answer, Denial):
            return refused(answer.reason, answer.message)
        self._held[stem] = answer
        self._keep_alive()
        return ClaimResult(True, await self.get_work(work_item_id), claim=answer.name)

    async def complete_work(self, work_item_id: str, result: WorkResult) -> None:
        stem = stem_of(work_item_id)
        held = await self._claim_of(stem, result.claim)
        end = self._end(result.outcome, held, result=_recorded(result))
        if not await _asked(self._custody.complete, stem, held, end):
            self._forget(stem, held)
            raise self._lost(work_item_id)
        self._forget(stem, held)

    async def release_work(
        self,
        work_item_id: str,
        options: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    ) -> ReleaseResult:
        with suppress(MalformedReference):
            stem = stem_of(work_item_id)
            held = await self._claim_of(stem, options.claim)
            if held is None:
                return ReleaseResult(True, "it is not ours any more")
            end = self._end("released", held, reason=_cut(options.reason or "", 2_000) or None)
            ended = await _asked(self._custody.release, stem, held, end)
            self._forget(stem, held)
            return ReleaseResult(True, None if ended else "it is not ours any more")
        return ReleaseResult(False, f"{work_item_id[:100]!r} is no item of a Markdown folder")

    async def get_work(self, work_item_id: str) -> WorkItem | None:
        with suppress(MalformedReference):
            return await _asked(self._look, stem_of(work_item_id))
        return None

    def _look(self, stem: str) -> WorkItem | None:
        path = self._folder.place(stem)
        with suppress(BadSheet):
            found = self._folder.sheet(path)
            return None if found is None else item_of(found, path)
        return None

    async def aclose(self) -> None:
        """Claims are not given back: a caller that closes for good has released them, or lets them
        lapse."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None

    async def heartbeat(self, work_item_id: str) -> None:
        """Renews one claim; raises `ClaimLost`. Also done automatically, three times per lease."""
        stem = stem_of(work_item_id)
        held = self._held.get(stem)
        if held is None or not await _asked(self._custody.beat, stem, held):
            self._forget(stem, held)
            raise self._lost(work_item_id)

    async def _claim_of(self, stem: str, name: str | None) -> Held | None:
        """The named claim, also one of an earlier process; otherwise the one we hold. A claim that
        is found is kept alive until its end is written."""
        if name is None:
            return self._held.get(stem)
        held = await _asked(self._custody.named, stem, self.agent, name)
        if held is not None and stem not in self._held:
            self._held[stem] = held
            self._keep_alive()
        return held

    def _keep_alive(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while self._held:
            await self._sleep(self._lease_seconds / 3)
            for stem in list(self._held):
                # A lost claim shows when its result is reported; a full disk may recover.
                with suppress(ClaimLost, WorkSourceError):
                    await self.heartbeat(f"{PREFIX}{stem}")

    def _shows(self, sheet: Sheet) -> bool:
        labels = set(sheet.labels)
        return set(self._labels) <= labels and labels.isdisjoint(self._excluded)

    def _item(self, offer: Offer) -> WorkItem:
        item = item_of(offer.sheet, self._folder.file(offer.sheet.stem))
        end = offer.standing.end
        if end is not None and end.reason:
            # The reason that the last agent gave when it released the item.
            item.metadata["released"] = {"agent": end.agent, "at": end.at, "reason": end.reason}
        return item

    def _lost(self, work_item_id: str) -> ClaimLost:
        return ClaimLost(f"{work_item_id} is not with {self.agent!r} any more; stop working on it")

    def _claim(self) -> Claim:
        now, token = self._clock.now(), self._ids.token()
        return Claim(
            self.agent,
            f"{now:%Y%m%d-%H%M%S}-{os.urandom(2).hex()}",
            token,
            socket.gethostname(),
            os.getpid(),
            to_text(now),
            self._lease_seconds,
        )

    def _end(
        self,
        kind: str,
        held: Held | None,
        *,
        reason: str | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> End:
        token = held.token if held is not None else ""
        return End(kind, token, self.agent, to_text(self._clock.now()), reason, result or {})

    def _forget(self, stem: str, held: Held | None) -> None:
        if held is not None and self._held.get(stem) == held:
            del self._held[stem]


async def _asked(step: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Runs in a thread, because it waits for the disk."""
    try:
        return await asyncio.to_thread(step, *given, **named)
    except OSError as error:
        raise WorkSourceError(f"the folder could not be read or written: {error}") from error
    except BadSheet as error:
        raise WorkSourceError(str(error)) from error


def _say(folder: Path, problems: Iterable[Problem]) -> None:
    """Logs each problem once until it is fixed: the folder is read every few seconds. Problems that
    pass by themselves are not logged; an affected call reports them."""
    now = frozenset(one for one in problems if not one.passes)
    for one in sorted(now - _said.get(folder, frozenset()), key=lambda one: one.name):
        log.warning("file is not offered", folder=str(folder), file=one.name, why=one.message)
    _said[folder] = now


def _recorded(result: WorkResult) -> dict[str, Any]:
    said = {
        "outcome": result.outcome,
        "summary": _cut(result.summary, LONGEST["summary"]),
        "details": _cut(result.details or "", LONGEST["details"]),
        "error": _cut(result.error or "", LONGEST["error"]),
        "artifacts": [
            _cut(artifact, LONGEST["artifact"]) for artifact in result.artifacts[:MOST_ARTIFACTS]
        ],
    }
    return {key: value for key, value in said.items() if value}


def _cut(text: str, longest: int) -> str:
    plain = _CONTROLS.sub(" ", text).encode(errors="replace").decode().strip()
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def create(config: Mapping[str, Any], context: SourceContext) -> MarkdownWorkSource:
    from rota.config.fleet import source_config  # noqa: PLC0415 - pydantic is slow to import
    from rota.config.sources import MarkdownSource  # noqa: PLC0415

    settings = source_config(config)
    assert isinstance(settings, MarkdownSource)  # noqa: S101 - the registry chose us by this type
    return MarkdownWorkSource(
        Folder(context.directory / settings.path, context.clock),
        context.agent,
        labels=settings.labels,
        exclude_labels=settings.exclude_labels,
        lease_seconds=settings.lease_seconds,
        clock=context.clock,
    )
