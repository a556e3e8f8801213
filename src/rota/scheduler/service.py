"""Schedules for the faces: read, enable, disable, trigger.

A requested trigger is written to the ledger without a node. So it reaches the fleet even
from a server that runs no agents, and survives a crash. A node that knows the agent takes
it up when there is room.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.model.clock import Clock, IdFactory, parse_time, to_text
from rota.model.errors import Forbidden, NotFound, Refused
from rota.model.events import EventType, NewEvent
from rota.model.schedules import (
    Schedule,
    ScheduleState,
    ScheduleType,
    Trigger,
    TriggerKind,
)
from rota.model.work import check_name, check_text
from rota.scheduler.due import IMPORTED, Rhythm, first_slot
from rota.scheduler.presence import alive_since
from rota.scheduler.roster import Others, Roster, attended
from rota.storage.port import Store, Transaction
from rota.storage.schedule_port import TriggerRecord, Wakings

__all__ = [
    "LONGEST_MESSAGE",
    "MOST_WAITING",
    "Ask",
    "Attending",
    "Schedules",
    "TriggerRecord",
    "Wakings",
    "insert_asked",
]

MOST_WAITING = 100  # of one schedule
LONGEST_MESSAGE = 64_000


class Attending(Protocol):
    """The scheduler of this process, if there is one."""

    @property
    def roster(self) -> Roster: ...

    def wake(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """A requested trigger. The same `delivery` counts only once."""

    agent: str
    name: str
    kind: TriggerKind
    message: str | None = None
    delivery: str | None = None


# People may trigger every schedule; a webhook or a message only schedules of its own type.
_MADE_FOR = {TriggerKind.WEBHOOK: ScheduleType.WEBHOOK, TriggerKind.CHAT: ScheduleType.CHAT}


class Schedules:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ids = IdFactory(clock)
        self._attending: Attending | None = None

    def attach(self, scheduler: Attending | None) -> None:
        """Set the scheduler of this process: a requested trigger wakes it."""
        self._attending = scheduler

    # reading

    async def find(
        self, agent: str | None = None, after: tuple[str, str] | None = None, limit: int = 50
    ) -> list[ScheduleState]:
        """By agent and name."""
        since = self._alive_since()

        def body(tx: Transaction) -> list[ScheduleState]:
            return attended(tx, tx.schedule_states(agent, after, limit, since), since)

        return await self._store.read(body)

    async def get(self, agent: str, name: str) -> ScheduleState:
        since = self._alive_since()
        return await self._store.read(lambda tx: _shown(tx, agent, name, since))

    async def unattended(self, agents: Collection[str]) -> set[str]:
        """Those of these agents that have schedules, none of which a living node has."""
        since = self._alive_since()

        def body(tx: Transaction) -> set[str]:
            living = Others.of(tx.living_rosters(since))
            names = {(one.agent, one.name) for one in tx.standings(sorted(agents))}
            kept = {agent for agent, name in names if living.may_have((agent, name))}
            return {agent for agent, _ in names} - kept

        return await self._store.read(body)

    async def trigger_record(self, trigger_id: str) -> TriggerRecord:
        found = await self._store.read(lambda tx: tx.get_trigger(trigger_id))
        if found is None:
            raise NotFound(f"there is no trigger {trigger_id!r}", id=trigger_id)
        return found

    async def past(self, names: Sequence[tuple[str, str]], since: str) -> list[Wakings]:
        """What became of the triggers of these schedules, earliest first."""
        return await self._store.read(lambda tx: tx.wakings(names, since), long=True)

    def _alive_since(self) -> str:
        return alive_since(self._clock.now())

    # switching

    async def enable(self, agent: str, name: str, *, actor: str | None = None) -> ScheduleState:
        """The schedule goes on from now: slots that passed while it was disabled are not run."""
        now, since = self._clock.now(), self._alive_since()

        def body(tx: Transaction) -> ScheduleState:
            state = _locked(tx, agent, name, since)
            if state.enabled:
                return _shown(tx, agent, name, since)
            slot = first_slot(state, now)
            tx.enable_schedule(agent, name, slot, slot)
            tx.append([_switched(agent, name, True, actor, to_text(now))])
            return _shown(tx, agent, name, since)

        return await self._woken(body)

    async def disable(self, agent: str, name: str, *, actor: str | None = None) -> ScheduleState:
        """A running trigger goes on; the clock, webhooks and messages start no new ones."""
        now, since = to_text(self._clock.now()), self._alive_since()

        def body(tx: Transaction) -> ScheduleState:
            state = _locked(tx, agent, name, since)
            if not state.enabled:
                return _shown(tx, agent, name, since)
            tx.disable_schedule(agent, name)
            tx.append([_switched(agent, name, False, actor, now)])
            return _shown(tx, agent, name, since)

        return await self._woken(body)

    async def _woken(self, body: Callable[[Transaction], ScheduleState]) -> ScheduleState:
        state = await self._store.transact(body)
        self._wake()
        return state

    async def forget(self, agent: str, name: str) -> None:
        """For a schedule that no file has any more. If a living node has it, it comes back."""
        now, since = to_text(self._clock.now()), self._alive_since()

        def body(tx: Transaction) -> None:
            _found(tx, agent, name, since)
            tx.drop_schedules([(agent, name)], now)

        await self._store.transact(body)

    # triggering

    async def trigger(
        self, agent: str, name: str, message: str | None = None, *, actor: str | None = None
    ) -> Trigger:
        """By a person: also a disabled schedule, and of any type."""
        asked = await self.ask(Ask(agent, name, TriggerKind.MANUAL, message), actor=actor)
        assert asked is not None  # noqa: S101 - it has no delivery that could have been seen
        return asked

    async def ask(self, ask: Ask, *, actor: str | None = None) -> Trigger | None:
        """None when the delivery was seen before."""
        if ask.message is not None:
            check_text(ask.message, "message", LONGEST_MESSAGE, empty=True)
        now, since, new_id = to_text(self._clock.now()), self._alive_since(), self._ids.new()
        trigger = Trigger(new_id, ask.agent, ask.name, new_id, ask.kind, "", now, ask.message)

        def body(tx: Transaction) -> Trigger | None:
            _demand_triggerable(_found(tx, ask.agent, ask.name, since), ask.kind)
            if ask.delivery is not None and not tx.keep_delivery(_delivery(ask), now):
                return None
            insert_asked(tx, trigger)
            tx.append([_triggered(trigger, actor)])
            return trigger

        asked = await self._store.transact(body)
        self._wake()
        return asked

    def configured(self, agent: str, name: str) -> Schedule:
        """The schedule from this process's configuration; raises if it has none."""
        roster = self._attending.roster if self._attending else Roster()
        found = roster.schedules.get((agent, name))
        if found is None:
            raise NotFound(
                f"this server has no schedule {agent[:80]}/{name[:80]} in its configuration; ask"
                " the one that `rota up` started with it",
                agent=agent[:80],
                schedule=name[:80],
            )
        return found

    def secret_env(self, agent: str, name: str) -> str:
        """The variable with the secret that signs the schedule's webhooks."""
        schedule = self.configured(agent, name)
        _demand_type(schedule.type, TriggerKind.WEBHOOK, agent, name)
        if not schedule.secret_env:
            raise Forbidden(
                f"{agent}/{name} has no secret, so anybody could trigger it; name a variable with"
                " one as `secret_env` of the schedule in rota.yaml"
            )
        return schedule.secret_env

    def _wake(self) -> None:
        if self._attending is not None:
            self._attending.wake()

    # taking over

    async def restore(
        self,
        agent: str,
        name: str,
        *,
        enabled: bool = True,
        last_run_at: str | None = None,
        last_error: str | None = None,
    ) -> bool:
        """Take over what another scheduler knew of a schedule, whether it is configured here
        already or not.

        False when the schedule has already run here: nothing is changed then.
        """
        check_name(agent, "agent")
        check_name(name, "schedule")
        if last_error is not None:
            check_text(last_error, "last_error", LONGEST_MESSAGE, empty=True)
        now, since = self._clock.now(), self._alive_since()
        ran = None if last_run_at is None else min(parse_time(last_run_at, "last_run_at"), now)

        def body(tx: Transaction) -> bool:
            tx.lock_schedules([agent])  # see `_locked`
            known = tx.schedule_state(agent, name, since)
            rhythm = Rhythm.known(known.definition) if known else None
            slot = rhythm.first(ran, now) if rhythm and enabled else None
            text, when = to_text(slot) if slot else None, to_text(ran) if ran else None
            return tx.restore_schedule(
                ScheduleState(
                    agent, name,
                    known.type if known else ScheduleType.INTERVAL,
                    known.definition if known else IMPORTED,
                    enabled, text, text, when, when, last_error, None, None, 0, 0, 0,
                )
            )  # fmt: skip

        return await self._store.transact(body)


def insert_asked(tx: Transaction, trigger: Trigger) -> None:
    """Insert a requested trigger. The number of waiting triggers is limited, because no node may be
    there to take them up."""
    if tx.count_waiting(trigger.agent, trigger.schedule) >= MOST_WAITING:
        raise Refused(
            f"{MOST_WAITING} triggers of {trigger.agent}/{trigger.schedule} wait already; is a"
            " node with this agent running?"
        )
    tx.insert_triggers([trigger])


def _found(tx: Transaction, agent: str, name: str, alive_since: str) -> ScheduleState:
    state = tx.schedule_state(agent, name, alive_since)
    if state is None:
        raise NotFound(
            f"there is no schedule {agent[:80]}/{name[:80]}; `rota schedule list` names them all",
            agent=agent[:80],
            schedule=name[:80],
        )
    return state


def _shown(tx: Transaction, agent: str, name: str, alive_since: str) -> ScheduleState:
    (state,) = attended(tx, [_found(tx, agent, name, alive_since)], alive_since)
    return state


def _locked(tx: Transaction, agent: str, name: str, alive_since: str) -> ScheduleState:
    """Times follow from the definition, which a server that reads its file may be writing."""
    tx.lock_schedules([agent])
    return _found(tx, agent, name, alive_since)


def _switched(agent: str, name: str, enabled: bool, actor: str | None, now: str) -> NewEvent:
    return NewEvent(
        EventType.SCHEDULE_UPDATED,
        now,
        actor,
        agent=agent,
        reason="enabled" if enabled else "disabled",
        data={"schedule": name, "enabled": enabled},
    )


def _triggered(trigger: Trigger, actor: str | None) -> NewEvent:
    kind = str(trigger.kind)
    return NewEvent(
        EventType.SCHEDULE_UPDATED,
        trigger.triggered_at,
        actor or kind,
        agent=trigger.agent,
        reason="triggered",
        data={"schedule": trigger.schedule, "triggered": kind, "trigger_id": trigger.id},
    )


def _demand_triggerable(state: ScheduleState, kind: TriggerKind) -> None:
    _demand_type(state.type, kind, state.agent, state.name)
    if kind is not TriggerKind.MANUAL and not state.enabled:
        raise Refused(
            f"{state.agent}/{state.name} is disabled; enable it with `rota schedule enable`"
        )


def _demand_type(type_: ScheduleType, kind: TriggerKind, agent: str, name: str) -> None:
    if kind in _MADE_FOR and type_ is not _MADE_FOR[kind]:
        raise Refused(
            f"{agent}/{name} is of type {type_}, and not to be triggered by a {_MADE_FOR[kind]}",
            schedule_type=str(type_),
        )


def _delivery(ask: Ask) -> str:
    return f"{ask.kind}:{ask.agent}/{ask.name}:{ask.delivery}"[:300]
