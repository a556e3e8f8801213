"""Faults: what may go wrong with a request, drawn from one seed.

Each matching request draws once for each active fault, in the order in which they were switched on:
the same requests in the same order get the same faults.
"""

import math
import random
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rota.testing.tracker.views import View


class FaultKind(StrEnum):
    # What a request sees or leaves behind
    STALE = "stale"  # misses entries younger than a random age of up to `seconds`
    LATE = "late"  # nobody sees entries it makes for `seconds`
    BACKDATED = "backdated"  # entries it makes are dated `seconds` earlier
    PAGE_SIZE = "page_size"  # pages of at most `size`
    BLIND_ETAG = "blind_etag"  # the same ETag when only the link to a next page is new
    DUPLICATE = "duplicate"  # applied twice, as by a proxy that repeats
    SHARED_REF = "shared_ref"  # creating a reference that exists on the same commit succeeds
    DELAY = "delay"  # starts up to `seconds` later
    # How it is answered: at most one of these applies
    SECONDARY_LIMIT = "secondary_limit"  # 403, with `retry_after` or without
    RATE_LIMIT = "rate_limit"  # 403 with nothing remaining, reset in `seconds`
    TOO_MANY = "too_many"  # 429 with `retry_after`
    ERROR_BEFORE = "error_before"  # `status`, nothing done
    ERROR_AFTER = "error_after"  # `status`, but done
    HANG_BEFORE = "hang_before"  # no answer (cut after `seconds`), nothing done
    HANG_AFTER = "hang_after"
    CUT_BEFORE = "cut_before"  # connection closed, nothing done
    CUT_AFTER = "cut_after"


OF_READS = frozenset({FaultKind.STALE, FaultKind.PAGE_SIZE, FaultKind.BLIND_ETAG})
OF_WRITES = frozenset(
    {FaultKind.LATE, FaultKind.BACKDATED, FaultKind.DUPLICATE, FaultKind.SHARED_REF}
)
MODIFIERS = OF_READS | OF_WRITES | {FaultKind.DELAY}
AFTER = frozenset({FaultKind.ERROR_AFTER, FaultKind.HANG_AFTER, FaultKind.CUT_AFTER})
HANGS = frozenset({FaultKind.HANG_BEFORE, FaultKind.HANG_AFTER})
CUTS = frozenset({FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER})

Entry = Literal["comments", "labels", "issues", "refs"]


class Fault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    kind: FaultKind
    method: str = ".*"  # regular expression, for the whole method
    path: str = ""  # regular expression, found anywhere in the path
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    times: Annotated[int, Meta(ge=1)] | None = None  # for so many matching requests
    seconds: Annotated[float, Meta(ge=0)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5  # chance that a young entry is missed
    entries: frozenset[Entry] = frozenset({"comments", "labels", "issues"})
    size: Annotated[int, Meta(ge=1)] = 2
    status: Annotated[int, Meta(ge=400, le=599)] = 502
    retry_after: int | None = None
    answer: Literal["first", "second"] = "second"  # which answer the client gets for a duplicate
    id: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        for pattern in (self.method, self.path):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None

    def matches(self, method: str, path: str) -> bool:
        if self.times is not None and self.hits >= self.times:
            return False
        if self.kind in (OF_WRITES if method == "GET" else OF_READS):
            return False
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


@dataclass(slots=True)
class Plan:
    """What was drawn for one request."""

    view: View
    page_size: int | None = None
    blind_tags: bool = False
    backdate: float = 0.0
    hide_seconds: float | None = None
    duplicate: str | None = None  # which answer is given
    shared_refs: bool = False
    delay: float = 0.0
    ending: Fault | None = None
    struck: list[str] = field(default_factory=list)


class Faults:
    def __init__(self, seed: int | str = 0) -> None:
        self.active: list[Fault] = []
        self.seed = seed
        self._random = random.Random(seed)
        self._number = 0

    def add(self, fault: Fault) -> Fault:
        self._number += 1
        fault.id = self._number
        self.active.append(fault)
        return fault

    def plan(self, method: str, path: str, now: float) -> Plan:
        plan = Plan(View(now))
        for fault in self.active:
            if fault.matches(method, path) and self._random.random() < fault.probability:
                self._strike(fault, plan)
        return plan

    def _strike(self, fault: Fault, plan: Plan) -> None:
        if fault.kind in MODIFIERS:
            self._modify(fault, plan)
        elif plan.ending is None:
            plan.ending = fault
        else:
            return
        fault.hits += 1
        plan.struck.append(fault.kind)

    def _modify(self, fault: Fault, plan: Plan) -> None:
        seconds = 1.0 if fault.seconds is None else fault.seconds
        match fault.kind:
            case FaultKind.STALE:
                horizon, salt = self._random.uniform(0, seconds), self._random.getrandbits(64)
                plan.view = View(plan.view.now, horizon, fault.share, salt, fault.entries)
            case FaultKind.LATE:
                plan.hide_seconds = seconds
            case FaultKind.BACKDATED:
                plan.backdate = math.ceil(seconds)
            case FaultKind.PAGE_SIZE:
                plan.page_size = fault.size
            case FaultKind.BLIND_ETAG:
                plan.blind_tags = True
            case FaultKind.DUPLICATE:
                plan.duplicate = fault.answer
            case FaultKind.SHARED_REF:
                plan.shared_refs = True
            case FaultKind.DELAY:
                plan.delay = self._random.uniform(0, seconds)
