"""Records how triggers ended; ends that come in together are written together."""

from collections.abc import Callable, Sequence
from datetime import datetime

from rota.model.clock import Clock, to_text
from rota.model.schedules import Schedule, Trigger
from rota.model.work import storable
from rota.queue.gathering import Gathering
from rota.scheduler.due import Rhythm, Rng, waking
from rota.scheduler.roster import Roster
from rota.scheduler.triggering import TriggerInfo, TriggerOutcome
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import TriggerEnd

LONGEST_ERROR = 4_000


class Endings:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: Rng | None = None,
        roster: Callable[[], Roster] = Roster,
    ) -> None:
        """`roster` gives the current file: an interval counts as it is when the run ends."""
        self._roster = roster
        self._clock = clock
        self._rng = rng
        self._gathered = Gathering[TriggerEnd, bool](store, self._write)

    async def record(self, info: TriggerInfo, outcome: TriggerOutcome) -> bool:
        """Returns after the commit; False when the trigger had already ended, because this node was
        taken for dead."""
        name = (info.agent.name, info.schedule.name)
        schedule = self._roster().schedules.get(name, info.schedule)
        end = trigger_end(info.trigger, outcome, schedule, self._clock.now(), self._rng)
        return await self._gathered.ask(end)

    def _write(self, tx: Transaction, ends: Sequence[TriggerEnd]) -> list[bool | Exception]:
        now = to_text(self._clock.now())
        ended = tx.end_triggers(ends, now)
        tx.free_waiting({end.agent for end in ends}, now)
        return [end.id in ended for end in ends]


def trigger_end(
    trigger: Trigger,
    outcome: TriggerOutcome,
    schedule: Schedule,
    now: datetime,
    rng: Rng | None = None,
) -> TriggerEnd:
    error = outcome.error
    rhythm = Rhythm.of(schedule)
    slot, at = _counted_from(rhythm, schedule, now, rng)
    return TriggerEnd(
        trigger.id,
        trigger.agent,
        trigger.schedule,
        str(outcome.outcome),
        None if error is None else storable(error)[:LONGEST_ERROR],
        outcome.skip_reason,
        slot,
        at,
        rhythm.text,
    )


def _counted_from(
    rhythm: Rhythm, schedule: Schedule, now: datetime, rng: Rng | None
) -> tuple[str | None, str | None]:
    if rhythm.interval is None:
        return None, None
    slot = rhythm.after(now)
    return to_text(slot), to_text(waking(rhythm, slot, now, schedule.jitter_percent, rng))
