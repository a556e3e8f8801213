"""Signals: what they wait for, what has fired, what failed, and which follow-ups are open."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from rota.api.answers import Answer
from rota.api.bodies import Strict
from rota.api.call import Call
from rota.api.pages import id_cursor
from rota.api.routing import Endpoint, endpoint
from rota.dashboard.rendering import page, zone_of
from rota.dashboard.signal_words import waits_for, will_do
from rota.model.access import DISPATCH, READ, WORK
from rota.model.errors import InvalidInput, NotFound
from rota.model.signals import FiringRecord, FollowUp, FollowUpStatus, Signal, SignalStatus
from rota.signals import Signals

SIGNALS_A_PAGE = 30
MOST_FAILED = 100
MOST_FOLLOW_UPS = 50
MOST_ITEMS = 5  # of those that a condition names


class Show(StrEnum):
    ACTIVE = "active"
    FIRED = "fired"
    FAILED = "failed"  # firings, not signals
    ALL = "all"


STATUS_OF = {Show.ACTIVE: SignalStatus.ACTIVE, Show.FIRED: SignalStatus.FIRED}


class SignalsQuery(Strict, frozen=True):
    show: Annotated[str, Meta(max_length=40)] = Show.ACTIVE.value
    before: Annotated[str, Meta(max_length=100)] | None = None


@dataclass(frozen=True, slots=True)
class SignalCard:
    signal: Signal
    when: str
    then: str


def signal_pages(signals: Signals) -> tuple[Endpoint, ...]:
    @endpoint("GET", "/ui/signals", scope=READ, tag="dashboard", hidden=True)
    async def signals_page(call: Call, query: SignalsQuery) -> Answer:
        """Signals, the newest first; firings that failed; and follow-ups that are open."""
        show = _show(query.show)
        before = id_cursor(query.before)
        found = [] if show is Show.FAILED else await _page_of(signals, show, before)
        shown = found[:SIGNALS_A_PAGE]
        failed = await signals.failed(MOST_FAILED + 1)
        follow_ups = await _follow_ups(signals)
        projects = await _projects(call, shown)
        of_failed = await _signals_of(signals, failed) if show is Show.FAILED else {}
        return await page(
            call, "signals.html", "signals", show=show, tabs=tuple(Show),
            cards=[_card(call, one, projects) for one in shown],
            more=shown[-1].id if len(found) > SIGNALS_A_PAGE else None, before=before,
            failed=failed[:MOST_FAILED], failed_count=len(failed), most_failed=MOST_FAILED,
            of_failed=of_failed, follow_ups=follow_ups, projects=projects,
            titles=await _titles(call, _items_of(shown, failed, follow_ups)), most_items=MOST_ITEMS,
            may_steer=call.caller.may(DISPATCH), may_work=call.caller.may(WORK),
        )  # fmt: skip

    return (signals_page,)


def _show(name: str) -> Show:
    try:
        return Show(name)
    except ValueError:
        raise InvalidInput(
            f"show: {name[:40]!r} is unknown; there are {', '.join(Show)}", field="show"
        ) from None


async def _page_of(signals: Signals, show: Show, before: str | None) -> list[Signal]:
    return await signals.find(
        STATUS_OF.get(show), after=before, limit=SIGNALS_A_PAGE + 1, newest=True
    )


async def _follow_ups(signals: Signals) -> list[FollowUp]:
    """Leased follow-ups first, then open ones."""
    leased = await signals.follow_ups(FollowUpStatus.LEASED, limit=MOST_FOLLOW_UPS)
    waiting = await signals.follow_ups(FollowUpStatus.OPEN, limit=MOST_FOLLOW_UPS)
    return [*leased, *waiting][:MOST_FOLLOW_UPS]


def _card(call: Call, signal: Signal, projects: Mapping[str, str]) -> SignalCard:
    watched, made = signal.condition.project_id, signal.action.project_id
    when = waits_for(
        signal.condition,
        zone_of(call),
        of_item=signal.work_item_id is not None,
        project=projects.get(watched or ""),
    )
    return SignalCard(signal, when, will_do(signal.action, projects.get(made or "")))


async def _projects(call: Call, signals: Iterable[Signal]) -> dict[str, str]:
    """The names of the projects that these signals name."""
    asked = {one.condition.project_id for one in signals}
    asked |= {one.action.project_id for one in signals}
    return {
        project: (await call.ledger.views.project(project)).name for project in asked if project
    }


def _items_of(
    shown: Iterable[Signal], failed: Iterable[FiringRecord], follow_ups: Iterable[FollowUp]
) -> set[str]:
    about: list[Signal | FiringRecord | FollowUp] = [*shown, *failed, *follow_ups]
    named = {one.work_item_id for one in about if one.work_item_id}
    return named | {item for one in shown for item in one.condition.items[:MOST_ITEMS]}


async def _titles(call: Call, items: Iterable[str]) -> dict[str, str]:
    titles = {}
    for item in items:
        try:
            titles[item] = (await call.ledger.views.item(item)).description
        except NotFound:  # a firing may outlive its item
            titles[item] = item
    return titles


async def _signals_of(signals: Signals, firings: Iterable[FiringRecord]) -> dict[str, Signal]:
    return {
        one: (await signals.get(one)).signal for one in {firing.signal_id for firing in firings}
    }
