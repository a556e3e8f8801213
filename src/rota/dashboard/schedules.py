"""Schedules: when each wakes its agent, how that ended, and why it did not."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rota.api.answers import Answer
from rota.api.bodies import AgentName, Cursor, Strict
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.api.schedules import last_runs
from rota.dashboard import rules
from rota.dashboard.prose import pieces
from rota.dashboard.rendering import page, zone_of
from rota.dashboard.strip import LEGEND, Strip, begin_of, strip_of, ticks_of
from rota.model.access import READ
from rota.model.clock import to_text
from rota.model.errors import BadCursor, Forbidden, NotFound
from rota.model.runs import Run
from rota.model.schedules import ScheduleState, ScheduleType
from rota.model.work import NAME
from rota.queue.reasons import Reason
from rota.scheduler.due import Rhythm
from rota.scheduler.service import Wakings

PAGE = 50
_ADDRESSES = {ScheduleType.WEBHOOK: "hooks", ScheduleType.CHAT: "chat"}


class SchedulesQuery(Strict, frozen=True):
    agent: AgentName | None = None
    after: Cursor | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    state: ScheduleState
    words: str
    exactly: str
    run: Run | None  # the last run that is known
    outcome: str | None  # of the last trigger
    address: str | None
    trouble: str | None  # why nobody can reach the address
    refusal: Reason | None  # why a run would be refused now
    strip: Strip

    @property
    def name(self) -> str:
        return f"{self.state.agent}/{self.state.name}"

    @property
    def run_is_last(self) -> bool:
        """Whether the last trigger led to this run."""
        return self.run is not None and self.run.started_at >= (self.state.last_run_at or "")


@endpoint("GET", "/ui/schedules", scope=READ, tag="dashboard", hidden=True)
async def schedules(call: Call, query: SchedulesQuery) -> Answer:
    """When agents wake."""
    after = None if query.after is None else _place(query.after)
    found = await call.ledger.schedules.find(query.agent, after, PAGE + 1)
    panels = await _panels(call, found[:PAGE])
    more = panels[-1].name if len(found) > PAGE else None
    return await page(
        call, "schedules.html", "schedules", panels=panels, more=more, legend=LEGEND,
        agent=query.agent, first=after is None, pieces=pieces,
        ticks=list(ticks_of(call.ledger.clock.now(), zone_of(call))),
    )  # fmt: skip


def _place(cursor: str) -> tuple[str, str]:
    agent, _, name = cursor.partition("/")
    if not NAME.fullmatch(agent) or not NAME.fullmatch(name):
        raise BadCursor("after: not a valid cursor; begin at /ui/schedules", field="after")
    return agent, name


async def _panels(call: Call, states: Sequence[ScheduleState]) -> list[Panel]:
    """The past of all schedules is read at once, however many there are."""
    now, zone = call.ledger.clock.now(), zone_of(call)
    names = [(one.agent, one.name) for one in states]
    past = defaultdict[tuple[str, str], list[Wakings]](list)
    for one in await call.ledger.schedules.past(names, to_text(begin_of(now))):
        past[one.agent, one.schedule].append(one)
    runs = await last_runs(call, states)
    refused = await call.ledger.views.refusals(sorted({one.agent for one in states}))
    panels = []
    for name, state in zip(names, states, strict=True):
        strip = strip_of(state, past[name], now, zone)
        refusal = next(iter(refused[state.agent]), None)
        panels.append(_panel(call, state, runs.get(name), past[name], strip, refusal))
    return panels


def _panel(  # noqa: PLR0917 - what was read for all of them at once
    call: Call,
    state: ScheduleState,
    run: Run | None,
    past: Sequence[Wakings],
    strip: Strip,
    refusal: Reason | None,
) -> Panel:
    rhythm = Rhythm.known(state.definition)
    last = max(past, key=lambda one: one.last_at, default=None)
    return Panel(
        state,
        rules.in_words(rhythm),
        rules.exactly(rhythm),
        run,
        last.outcome if last else None,
        _address(state),
        _trouble(call, state),
        refusal,
        strip,
    )


def _address(state: ScheduleState) -> str | None:
    room = _ADDRESSES.get(state.type)
    return f"/{room}/{state.agent}/{state.name}" if room else None


def _trouble(call: Call, state: ScheduleState) -> str | None:
    if state.type is not ScheduleType.WEBHOOK:
        return None
    try:
        call.ledger.schedules.secret_env(state.agent, state.name)
    except (Forbidden, NotFound) as error:
        return error.message
    return None


ENDPOINTS = (schedules,)
