"""Projects and agents: what the ledger knows of them, and how that is changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Any

from rota.model.agents import Agent
from rota.model.claims import MAX_IN_REVIEW, MAX_SLOTS
from rota.model.errors import InvalidInput, NotFound
from rota.model.events import EventType, NewEvent
from rota.model.work import Project, check_name, check_text
from rota.queue import intake
from rota.queue.intake import LONGEST
from rota.storage.port import Topic, Transaction


def check_project(fields: Mapping[str, Any]) -> None:
    if "name" in fields:
        check_text(fields["name"] or "", "name", LONGEST["name"])
    intake.check_optional(fields.get("external_ref"), "external_ref")


def add_project(tx: Transaction, project: Project, actor: str | None) -> Project:
    tx.insert_project(project)
    tx.append([_told(EventType.PROJECT_CREATED, project, actor)])
    return project


def change_project(
    tx: Transaction, project_id: str, changes: dict[str, Any], actor: str | None, now: str
) -> Project:
    project = tx.update_project(project_id, changes, now) if changes else tx.get_project(project_id)
    if project is None:
        raise NotFound(f"there is no project {project_id[:100]!r}", id=project_id[:100])
    if changes:
        tx.append([_told(EventType.PROJECT_UPDATED, project, actor)])
    return project


def _told(kind: EventType, project: Project, actor: str | None) -> NewEvent:
    return NewEvent(
        kind, project.updated_at, actor, project_id=project.id, data={"name": project.name}
    )


@dataclass(frozen=True, slots=True)
class AgentChange:
    """`None` leaves a value as it is; so does `...` for a limit that may itself be `None`."""

    name: str
    max_concurrent: int | None
    paused: bool | None
    max_in_review: int | EllipsisType | None

    def check(self) -> None:
        check_name(self.name, "agent")
        if self.max_concurrent is not None and not 1 <= self.max_concurrent <= MAX_SLOTS:
            raise InvalidInput(
                f"max_concurrent: {self.max_concurrent} is out of range; use 1 to {MAX_SLOTS}",
                field="max_concurrent",
            )
        most = self.max_in_review
        if isinstance(most, int) and not 1 <= most <= MAX_IN_REVIEW:
            raise InvalidInput(
                f"max_in_review: {most} is out of range; use 1 to {MAX_IN_REVIEW}, or"
                " nothing for no limit",
                field="max_in_review",
            )

    def applied_to(self, old: Agent, now: str) -> Agent:
        concurrent, most = self.max_concurrent, self.max_in_review
        return replace(
            old,
            max_concurrent=old.max_concurrent if concurrent is None else concurrent,
            paused=old.paused if self.paused is None else self.paused,
            max_in_review=old.max_in_review if most is ... else most,
            updated_at=now,
        )


def change_agent(tx: Transaction, wanted: AgentChange, actor: str | None, now: str) -> Agent:
    # Under a lock: two changes at once that name different values must both be kept.
    tx.lock_agents([wanted.name])
    old = tx.get_agent(wanted.name) or Agent(wanted.name, created_at=now)
    agent = wanted.applied_to(old, now)
    tx.put_agent(agent)
    data = {
        "max_concurrent": agent.max_concurrent,
        "paused": agent.paused,
        "max_in_review": agent.max_in_review,
    }
    tx.append([NewEvent(EventType.AGENT_UPDATED, now, actor, agent=agent.name, data=data)])
    tx.wake(Topic.READY)
    return agent


def project_of(tx: Transaction, item_id: str | None) -> str | None:
    """The project of an item, for an event about it."""
    item = tx.get_item(item_id) if item_id is not None else None
    return item.project_id if item is not None else None
