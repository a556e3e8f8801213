"""Brings the ledger's schedules in line with the configuration, here and on other nodes."""

from dataclasses import replace
from datetime import datetime

from rota.model.clock import from_text, to_text
from rota.model.schedules import Schedule
from rota.scheduler.due import Rhythm, Rng, waking
from rota.scheduler.roster import Name, Others, Roster
from rota.storage.port import Transaction
from rota.storage.schedule_port import RESTS, Advance, Standing


def sync(tx: Transaction, roster: Roster, node: str, now: datetime, rng: Rng | None = None) -> None:
    """Agents that this node does not know belong to other nodes and are left alone. A schedule that
    is not in our file but that another living node has is not dropped: its file may be newer.

    If nothing has changed, no times are computed, so a restart is cheap."""
    stored = _locked(tx, roster)
    standings = (
        standing_of(schedule, stored.get(name), now, rng, source=roster.source(name))
        for name, schedule in roster.schedules.items()
    )
    changed = [standing for standing in standings if standing is not None]
    gone: list[Name] = [name for name in stored if name not in roster.schedules]
    if gone:
        others = Others.of(tx.other_rosters(node))
        gone = [name for name in gone if not others.may_have(name)]
    tx.put_schedules(changed)
    tx.drop_schedules(gone, to_text(now))


def let_others_rest(tx: Transaction, roster: Roster, node: str) -> None:
    """Let schedules of agents that no living node has rest, until a node comes that has them."""
    others = Others.of(tx.other_rosters(node))
    if others.all_said:
        tx.rest_schedules(sorted(others.agents.union(roster.agents)))


def is_whole(tx: Transaction, roster: Roster) -> bool:
    """Whether all schedules of the roster are in the ledger and do not rest."""
    stored = _stored(tx, roster)
    return not any(_is_amiss(stored.get(name)) for name in roster.schedules)


def mend(tx: Transaction, roster: Roster, now: datetime, rng: Rng | None = None) -> int:
    """Bring back schedules that are gone or rest; returns how many. Everything else is left as the
    ledger has it: another node may have read a newer file, or an operator may have changed it."""
    stored = _locked(tx, roster)
    standings = (
        standing_of(schedule, stored.get(name), now, rng, source=roster.source(name))
        for name, schedule in roster.schedules.items()
        if _is_amiss(stored.get(name))
    )
    mended = [standing for standing in standings if standing is not None]
    tx.put_schedules(mended)
    return len(mended)


def _locked(tx: Transaction, roster: Roster) -> dict[Name, Standing]:
    """What is written goes by what was read, so an operator's switch must not come in between."""
    tx.lock_schedules(roster.names())
    return _stored(tx, roster)


def _stored(tx: Transaction, roster: Roster) -> dict[Name, Standing]:
    return {(row.agent, row.name): row for row in tx.standings(roster.names())}


def _is_amiss(row: Standing | None) -> bool:
    if row is None:
        return True
    return row.enabled and row.type.by_clock and row.next_at in {None, RESTS}


def standing_of(
    schedule: Schedule,
    row: Standing | None,
    now: datetime,
    rng: Rng | None = None,
    *,
    source: str | None = None,
) -> Standing | None:
    """The row to be written; None when nothing has changed.

    An operator's `enabled` holds until the value in the file changes.
    """
    rhythm = Rhythm.of(schedule)
    fresh = Standing(
        schedule.agent,
        schedule.name,
        schedule.type,
        rhythm.text,
        configured=schedule.enabled,
        enabled=schedule.enabled,
        next_at=None,
        slot=None,
        source=source,
    )
    if row is not None:
        operator = row.enabled if row.configured == schedule.enabled else schedule.enabled
        fresh = replace(fresh, enabled=operator, last_completed_at=row.last_completed_at)
    if fresh.enabled and schedule.type.by_clock:
        if row is not None and row.slot is not None and row.definition == fresh.definition:
            at = row.next_at
            if at == RESTS:
                at = to_text(_rewaking(rhythm, from_text(row.slot), now, schedule, rng))
            fresh = replace(fresh, slot=row.slot, next_at=at)
        else:
            slot = _first(fresh, rhythm, now)
            at = to_text(waking(rhythm, slot, now, schedule.jitter_percent, rng))
            fresh = replace(fresh, slot=to_text(slot), next_at=at)
    return None if fresh == row else fresh


def _rewaking(
    rhythm: Rhythm, slot: datetime, now: datetime, schedule: Schedule, rng: Rng | None
) -> datetime:
    """A slot that has passed was due at its own time and not just now: catch-up depends on how late
    it is."""
    return slot if slot <= now else waking(rhythm, slot, now, schedule.jitter_percent, rng)


def _first(fresh: Standing, rhythm: Rhythm, now: datetime) -> datetime:
    ended = fresh.last_completed_at
    return rhythm.first(from_text(ended) if ended else None, now) or now


def rewind(tx: Transaction, roster: Roster, now: datetime, rng: Rng | None = None) -> int:
    """After the clock was put back: recompute times that came from the wrong clock.

    Slots that were already run become due again; the ledger knows them, and does not run them
    twice.
    """
    steps = []
    for row in tx.ahead_of(to_text(now), roster.names()):
        schedule = roster.schedules.get((row.agent, row.name))
        rhythm = Rhythm.read(row.definition)
        slot = rhythm.rewound(from_text(row.slot), now)
        if schedule is None or to_text(slot) == row.slot:
            continue
        at = to_text(waking(rhythm, slot, now, schedule.jitter_percent, rng))
        steps.append(Advance(row.agent, row.name, row.slot, to_text(slot), at))
    return tx.advance_schedules(steps, to_text(now))
