"""Budgets of the day: reported once a day, at the end of the run that used them up."""

from collections.abc import Iterator

from rota.model.clock import from_text, to_text
from rota.model.events import Event, EventType
from rota.model.fleet import Budget, Fleet
from rota.runner.budget import day_began, exceeded, next_day
from rota.storage.port import Transaction

FLEET = "the fleet"


def used_up(tx: Transaction, event: Event, fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Yields the owner and the words. A mark in the same transaction prevents a second report."""
    if event.type != EventType.RUN_FINISHED:
        return
    agent = fleet.agent(event.agent or "")
    if agent is not None and (words := _told_first(tx, event, agent.budget, agent.name)):
        yield agent.name, words
    if words := _told_first(tx, event, fleet.budget, None):
        yield FLEET, words


def _told_first(tx: Transaction, event: Event, budget: Budget, agent: str | None) -> str | None:
    if not budget.per_day.any:
        return None
    moment = from_text(event.occurred_at)
    since = to_text(day_began(moment, budget.timezone))
    mark = f"budget:{agent or ''}"
    if tx.get_mark(mark) == since:
        return None
    words = exceeded(budget.per_day, tx.spent(since, agent))
    if words is None:
        return None
    tx.put_mark(mark, since)
    return f"{words} of the day are used; until {to_text(next_day(moment, budget.timezone))}"
