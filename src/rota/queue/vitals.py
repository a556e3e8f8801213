"""Reads the vital figures of the fleet. Each reads one index: the last hour, or what is open."""

from datetime import datetime, timedelta

from rota.model.clock import from_text, to_text
from rota.model.statistics import Bucket, Spread, spread
from rota.model.status import TERMINAL, Status
from rota.model.vitals import Vitals
from rota.storage.port import Transaction

WINDOW = timedelta(hours=1)
SKEW = timedelta(minutes=1)  # another server's clock may be a little ahead
MOST_TIMED = 512


def vitals(tx: Transaction, now: datetime) -> Vitals:
    hour = Bucket(to_text(now - WINDOW), to_text(now + SKEW))
    post = tx.post_figures()
    return Vitals(
        ended={status: tx.count_ended(status, hour) for status in sorted(TERMINAL)},
        lead_time=_lead_time(tx, hour),
        runs=tuple(tx.tallies(hour.begins)),
        open_runs=tx.count_open_runs(),
        agents=tuple(tx.agent_loads()),
        schedules_late=_late(tx.earliest_schedule(), now),
        signals_late=_late(tx.next_firing(), now),
        post=tuple(post),
        outbox_age=max((_late(one.oldest, now) for one in post), default=0.0),
    )


def _lead_time(tx: Transaction, hour: Bucket) -> Spread:
    """Of the latest completed items, at most `MOST_TIMED`."""
    latest = tx.last_ended(Status.COMPLETED, hour, MOST_TIMED)
    return spread(
        ((from_text(one.completed_at) - from_text(one.created_at)).total_seconds(), 1.0)
        for one in latest
    )


def _late(moment: str | None, now: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (now - from_text(moment)).total_seconds())
