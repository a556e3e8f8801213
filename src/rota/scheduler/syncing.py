"""Brings the ledger's schedules in line with what is configured, here and on other nodes."""

from dataclasses import dataclass, replace
from datetime import datetime

from rota.model.clock import from_text, to_text
from rota.model.schedules import Schedule
from rota.scheduler.due import Rhythm, Rng, waking
from rota.scheduler.roster import Name, Others, Roster
from rota.storage.port import Transaction
from rota.storage.schedule_port import RESTS, Advance, Standing


@dataclass(frozen=True, slots=True)
class Synced:
    """How many schedules were new or otherwise than before, and how many are no more."""

    changed: int = 0
    dropped: int = 0


def sync(
    tx: Transaction, roster: Roster, node: str, now: datetime, rng: Rng | None = None
) -> Synced:
    """Agents that this node does not know are another's, and are left alone; and so is a schedule
    that another living node has: its file may be newer than ours.

    Where nothing has changed, no time is computed: a restart is cheap."""
    stored = _stored(tx, roster)
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
    return Synced(len(changed), len(gone))


def let_others_rest(tx: Transaction, roster: Roster, node: str) -> None:
    """Agents that no living node has wake nobody. They go on when somebody comes who has them."""
    others = Others.of(tx.other_rosters(node))
    if others.all_said:
        tx.rest_schedules(sorted(others.agents.union(roster.agents)))


def is_whole(tx: Transaction, roster: Roster) -> bool:
    """Whether all that stands in the roster is in the ledger, and awake."""
    stored = _stored(tx, roster)
    return not any(_is_amiss(stored.get(name)) for name in roster.schedules)


def mend(tx: Transaction, roster: Roster, now: datetime, rng: Rng | None = None) -> int:
    """Bring back what is gone or rests; how many that were. Of all else the ledger is believed:
    another node may have read a newer file, and an operator may have had his say."""
    stored = _stored(tx, roster)
    standings = (
        standing_of(schedule, stored.get(name), now, rng, source=roster.source(name))
        for name, schedule in roster.schedules.items()
        if _is_amiss(stored.get(name))
    )
    mended = [standing for standing in standings if standing is not None]
    tx.put_schedules(mended)
    return len(mended)


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
    """What must be written; None when all is as it was.

    What an operator said of `enabled` holds until the file says something else
    than it did.
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
    """A slot that has passed was due at its time, and not just now: how late it is decides about
    it."""
    return slot if slot <= now else waking(rhythm, slot, now, schedule.jitter_percent, rng)


def _first(fresh: Standing, rhythm: Rhythm, now: datetime) -> datetime:
    ended = fresh.last_completed_at
    return rhythm.first(from_text(ended) if ended else None, now) or now


def rewind(tx: Transaction, roster: Roster, now: datetime, rng: Rng | None = None) -> int:
    """After the clock was put back: nobody waits for a time that was computed from the wrong one.

    Slots that were run already come again in the line, and the ledger knows them.
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
