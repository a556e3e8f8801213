"""Records how triggers ended; those that end together are written together."""

from collections.abc import Callable, Sequence
from datetime import datetime

from rota.model.clock import Clock, to_text
from rota.model.work import storable
from rota.queue.gathering import Gathering
from rota.scheduler.due import Rhythm, Rng, waking
from rota.scheduler.triggering import TriggerInfo, TriggerOutcome
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import TriggerEnd

LONGEST_ERROR = 4_000


class Endings:
    def __init__(self, store: Store, clock: Clock, rng: Rng | None = None) -> None:
        self._clock = clock
        self._rng = rng
        self._gathered = Gathering[TriggerEnd, bool](store, self._write)

    async def record(self, info: TriggerInfo, outcome: TriggerOutcome) -> bool:
        """Durably; False when the trigger had ended already, because this node was taken for
        dead."""
        return await self._gathered.ask(trigger_end(info, outcome, self._clock.now(), self._rng))

    def _write(self, tx: Transaction, ends: Sequence[TriggerEnd]) -> list[bool | Exception]:
        now = to_text(self._clock.now())
        ended = tx.end_triggers(ends, now)
        tx.free_waiting({end.agent for end in ends}, now)
        return [end.id in ended for end in ends]


def trigger_end(
    info: TriggerInfo, outcome: TriggerOutcome, now: datetime, rng: Rng | None = None
) -> TriggerEnd:
    trigger, error = info.trigger, outcome.error
    slot, at = _counted_from(info, now, rng)
    return TriggerEnd(
        trigger.id,
        trigger.agent,
        trigger.schedule,
        str(outcome.outcome),
        None if error is None else storable(error)[:LONGEST_ERROR],
        outcome.skip_reason,
        slot,
        at,
    )


def _counted_from(
    info: TriggerInfo, now: datetime, rng: Callable[[], float] | None
) -> tuple[str | None, str | None]:
    rhythm = Rhythm.of(info.schedule)
    if rhythm.interval is None:
        return None, None
    slot = rhythm.after(now)
    return to_text(slot), to_text(waking(rhythm, slot, now, info.schedule.jitter_percent, rng))
