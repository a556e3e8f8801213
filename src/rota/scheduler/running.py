"""Runs one schedule directly, for programs that embed Rota without its loop."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from rota.model.clock import Clock, IdFactory, to_text
from rota.model.errors import ScheduleTriggerError
from rota.model.fleet import AgentSpec
from rota.model.runs import RunStatus
from rota.model.schedules import Schedule, SkipReason, Trigger, TriggerKind
from rota.prompts import Told, build_prompt
from rota.scheduler.ending import Endings
from rota.scheduler.presence import Presence
from rota.scheduler.roster import Roster
from rota.scheduler.signs import Sleep, kept_up
from rota.scheduler.syncing import sync
from rota.scheduler.taking import Taker, take_one
from rota.scheduler.triggering import OnTrigger, TriggerInfo, TriggerOutcome
from rota.storage.port import Store, Transaction


@dataclass(frozen=True, slots=True)
class ScheduleRunResult:
    success: bool
    outcome: str
    skip_reason: SkipReason | None = None
    error: str | None = None
    trigger: Trigger | None = None  # None: it was not started
    work_item: Told | None = None

    @property
    def processed_work_item(self) -> bool:
        return self.work_item is not None


def build_schedule_prompt(schedule: Schedule, item: Told | None = None) -> str:
    """The schedule's prompt, followed by the item's details."""
    return build_prompt(schedule.prompt, item)


async def run_schedule(
    *,
    agent: AgentSpec,
    schedule: Schedule,
    store: Store,
    on_trigger: OnTrigger,
    clock: Clock | None = None,
    message: str | None = None,
    sleep: Sleep = asyncio.sleep,
) -> ScheduleRunResult:
    """Trigger a schedule now, wait for its end, and record both.

    `on_trigger` does the work: find an item, build the prompt, run the agent, report. An exception
    from it is recorded as the schedule's last error, and raised as `ScheduleTriggerError`.

    Meanwhile the caller shows signs of life as a node. If none could be written for half a minute,
    another node may have taken it for dead; the result is then `lost`, however the run went.
    """
    clock = clock or store.clock
    node = IdFactory(clock).new()
    presence = Presence(store, node, node)
    await presence.enter(clock.now())
    try:
        async with kept_up(presence, clock, sleep):
            taken = await _begun(store, agent, schedule, node, message, clock.now())
            if isinstance(taken, SkipReason):
                return ScheduleRunResult(False, str(taken), taken)
            return await _carried_out(TriggerInfo(agent, schedule, taken), store, on_trigger, clock)
    finally:
        await presence.leave(clock.now())


async def _begun(  # noqa: PLR0917 - all of it is needed, once
    store: Store, agent: AgentSpec, schedule: Schedule, node: str, message: str | None,
    now: datetime,
) -> Trigger | SkipReason:  # fmt: skip
    roster = Roster.of([agent])
    trigger = Trigger(
        node, agent.name, schedule.name, node, TriggerKind.MANUAL, node, to_text(now), message
    )

    def body(tx: Transaction) -> Trigger | SkipReason:
        tx.put_roster(node, roster.listed())
        sync(tx, roster, node, now)
        return take_one(tx, Taker(node, roster, now, lambda: node), trigger)

    return await store.transact(body)


async def _carried_out(
    info: TriggerInfo, store: Store, on_trigger: OnTrigger, clock: Clock
) -> ScheduleRunResult:
    endings = Endings(store, clock)
    try:
        outcome = await on_trigger(info) or TriggerOutcome(RunStatus.SUCCEEDED)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        await endings.record(info, TriggerOutcome(RunStatus.FAILED, error=text))
        raise ScheduleTriggerError(
            f"{info.agent.name}/{info.schedule.name} failed: {text}",
            agent=info.agent.name,
            schedule=info.schedule.name,
        ) from error
    if not await endings.record(info, outcome):
        why = "it was taken for dead meanwhile, and its schedule may have been run beside it"
        return ScheduleRunResult(
            False, str(RunStatus.LOST), None, why, info.trigger, outcome.work_item
        )
    return ScheduleRunResult(
        outcome.outcome == RunStatus.SUCCEEDED,
        str(outcome.outcome),
        outcome.skip_reason,
        outcome.error,
        info.trigger,
        outcome.work_item,
    )
