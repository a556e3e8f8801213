"""Reads the event log from a position that is stored together with the results.

Position, notices and letters are written in one transaction. A process that dies in the middle has
done nothing, and a concurrent reader waits for the lock on the position.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from rota.config.notify import NotifyConfig
from rota.model.clock import to_text
from rota.model.events import Event, EventFilter
from rota.model.fleet import Fleet
from rota.model.notices import Happening, WaitingNotice
from rota.notify.budgets import FLEET, used_up
from rota.notify.facts import Told, facts_of
from rota.notify.gathering import letter
from rota.notify.happenings import LOOKED_AT, agent_of, happenings
from rota.notify.quiet import quiet_until
from rota.notify.rules import Case, Match, matches
from rota.storage.port import Topic, Transaction

POSITION = "position"
PAGE = 100
QUIET = "quiet"
_WANTED = EventFilter(types=LOOKED_AT)


@dataclass(frozen=True, slots=True)
class Plan:
    """The notification part of the configuration."""

    config: NotifyConfig
    fleet: Fleet
    public_url: str

    @property
    def is_on(self) -> bool:
        return bool(self.config.rules)


def begin(tx: Transaction) -> None:
    """The first time, begin at the end of the log: nobody is told of the past."""
    position = tx.get_mark(POSITION)
    if position is None:
        tx.begin_mark(POSITION, str(tx.last_event()))
    elif int(position) > tx.highest_event():  # an older copy of the database was restored
        tx.put_mark(POSITION, str(tx.last_event()))


def look(tx: Transaction, after: int) -> tuple[bool, int]:
    """Whether there is anything of interest after `after`; if not, up to where the log was read."""
    last = tx.last_event()
    found = bool(tx.events_after(after, 1, _WANTED))
    return found, after if found else last


def read_on(tx: Transaction, plan: Plan, now: datetime) -> tuple[int, int]:
    """Reads one page of the log; the position after it, and the number of events."""
    position = tx.lock_mark(POSITION)
    if position is None:  # another server has dropped it
        begin(tx)
        return int(tx.get_mark(POSITION) or 0), 0
    page = tx.events_after(int(position), PAGE, _WANTED)
    if not page:
        return int(position), 0
    for case, match in _due(tx, plan, page):
        _tell(tx, plan, case, match, now)
    tx.put_mark(POSITION, str(page[-1].seq))
    return page[-1].seq, len(page)


def _due(tx: Transaction, plan: Plan, page: list[Event]) -> Iterator[tuple[Told, Match]]:
    for event in page:
        for told in _cases(tx, plan, event):
            for match in matches(plan.config, told.case):
                yield told, match


def _cases(tx: Transaction, plan: Plan, event: Event) -> Iterator[Told]:
    item = tx.get_item(event.work_item_id) if event.work_item_id else None
    project = tx.get_project(item.project_id) if item and item.project_id else None
    known = happenings(event)
    if known:
        yield Told(Case(event, known, item, project, agent_of(event, item)))
    for whose, words in used_up(tx, event, plan.fleet):
        agent = None if whose == FLEET else whose
        yield Told(Case(event, (Happening.BUDGET,), agent=agent), whose, words)


def _tell(tx: Transaction, plan: Plan, told: Told, match: Match, now: datetime) -> None:
    """Now, by the outbox, or later."""
    facts = facts_of(plan.public_url, told, match)
    # A colon is part of no name: otherwise `a-b` with `c` and `a` with `b-c` would have the same
    # id.
    notice = WaitingNotice(
        f"notice-{facts['event']['seq']}-{match.name}:{match.channel}{_of_budget(told)}",
        match.channel,
        QUIET,
        told.case.event.seq,
        facts,
        to_text(now),
        to_text(now),
    )
    later = _later(tx, plan, match, now)
    if later is None:
        tx.post(letter(notice.id, match.channel, [facts], now))
        tx.wake(Topic.POST)
        return
    bundle, due = later
    tx.put_notice(replace(notice, bundle=bundle, due_at=due))


def _of_budget(told: Told) -> str:
    """One run may use up both its agent's budget and the fleet's."""
    return "" if told.about is None else ("-all" if told.case.agent is None else "-own")


def _later(tx: Transaction, plan: Plan, match: Match, now: datetime) -> tuple[str, str] | None:
    """The bundle, and when it is due."""
    hours = plan.config.quiet_hours
    excepted = hours is not None and match.happening in hours.exceptions
    if match.rule.digest is not None:
        bundle = f"rule:{match.name}" + (":excepted" if excepted else "")
        open_until = tx.bundle_due(match.channel, bundle)
        due = now + match.rule.digest
        end = None if excepted else quiet_until(hours, due)
        return bundle, open_until or to_text(end or due)
    end = None if excepted else quiet_until(hours, now)
    return None if end is None else (QUIET, to_text(end))
