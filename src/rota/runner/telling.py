"""What a run is given: its prompt, its variables, and the context for hooks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rota.claims.pushes import agents_branch
from rota.model.fleet import AgentSpec, Limits, RunSettings
from rota.model.runs import Run
from rota.model.schedules import Schedule, Trigger
from rota.prompts import Note, Told, fenced, full_prompt, of_claim
from rota.runner.port import Meter, RunRequest
from rota.tracing import traceparent

# Sources whose items are written by people of our own fleet.
OUR_OWN = frozenset({"queue", "memory", "markdown"})


def prompt_for(
    agent: AgentSpec,
    schedule: Schedule | None,
    item: Told | None,
    message: str | None = None,
    *,
    claim: int | None = None,
    notes: Sequence[Note] = (),
) -> str:
    """Text from outside, the item's and a message, is put between fences."""
    asked = (schedule.prompt if schedule else None) or agent.default_prompt
    trusted = item is not None and (agent.trusted or item.source in OUR_OWN)
    parts = [
        full_prompt(asked, item, notes, trusted=trusted),
        of_claim(claim, branch) if claim and (branch := _branch(item, claim)) else None,
        fenced(message) if message else None,
    ]
    return "\n\n".join(part for part in parts if part is not None)


def settings_for(agent: AgentSpec, schedule: Schedule | None) -> RunSettings:
    """The agent's settings, with those of the schedule over them."""
    settings = agent.run
    if schedule is not None and schedule.timeout is not None:
        settings = replace(settings, timeout=schedule.timeout)
    if schedule is not None and schedule.resume_session is not None:
        settings = replace(settings, resume_session=schedule.resume_session)
    return settings


def request_for(
    agent: AgentSpec,
    run: Run,
    log: Path,
    *,
    schedule: Schedule | None = None,
    trigger: Trigger | None = None,
    item: Told | None = None,
    claim: int | None = None,
    notes: Sequence[Note] = (),
    limits: Limits,
    session_id: str | None = None,
    meter: Meter | None = None,
) -> RunRequest:
    """`claim` is the claim's id on the item's tracker; `notes` are those on the item so far, the
    latest last."""
    message = trigger.message if trigger else None
    return RunRequest(
        run.id,
        agent.name,
        settings_for(agent, schedule),
        prompt_for(agent, schedule, item, message, claim=claim, notes=notes),
        log,
        limits,
        session_id=session_id,
        environ=_environ(run, item, claim),
        context=_context(run, item, claim, message, notes),
        meter=meter or Meter(),
    )


def _branch(item: Told | None, claim: int | None) -> str | None:
    return agents_branch(item.external_id, claim) if item and claim else None


def _environ(run: Run, item: Told | None, claim: int | None) -> dict[str, str]:
    facts = {
        "ROTA_SCHEDULE": run.schedule,
        "ROTA_WORK_ITEM_ID": run.work_item_id,
        "ROTA_ATTEMPT": str(run.attempt) if run.attempt is not None else None,
        "ROTA_EPOCH": str(run.epoch) if run.epoch is not None else None,
        "ROTA_CLAIM": str(claim) if claim else None,
        "ROTA_BRANCH": _branch(item, claim),
        "ROTA_ITEM_TYPE": str(item.metadata.get("type") or "") if item else None,
        "ROTA_ITEM_SOURCE": item.source if item else None,
        "ROTA_ITEM_REF": item.external_id if item else None,
        "ROTA_ITEM_URL": item.url if item else None,
        "TRACEPARENT": traceparent(),
    }
    return {name: value for name, value in facts.items() if value}


def _context(
    run: Run, item: Told | None, claim: int | None, message: str | None, notes: Sequence[Note]
) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "agent": run.agent,
        "schedule": run.schedule,
        "trigger": str(run.trigger),
        "started_at": run.started_at,
        "attempt": run.attempt,
        "epoch": run.epoch,
        "claim": claim,
        "branch": _branch(item, claim),
        "message": message,
        "item": _item(run, item, notes) if item else None,
    }


def _item(run: Run, item: Told, notes: Sequence[Note]) -> dict[str, Any]:
    return {
        "id": run.work_item_id,
        "source": item.source,
        "external_id": item.external_id,
        "title": item.title,
        "description": item.description,
        "priority": item.priority.name.lower(),
        "labels": list(item.labels),
        "url": item.url,
        "metadata": dict(item.metadata),  # other facts of its source, e.g. our type and payload
        "notes": [note._asdict() for note in notes],
    }
