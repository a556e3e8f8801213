"""All facts about a happening, as they are stored and given to programs."""

from dataclasses import dataclass
from typing import Any

from rota.model.work import WorkItem
from rota.notify.happenings import WORDS, title, why
from rota.notify.rules import Case, Match

LONGEST = 1_000  # characters: a digest holds many of them


@dataclass(frozen=True, slots=True)
class Told:
    case: Case
    about: str | None = None  # the owner of a budget
    why: str | None = None


def facts_of(public_url: str, told: Told, match: Match) -> dict[str, Any]:
    case, event, item = told.case, told.case.event, told.case.item
    about = f"{WORDS[match.happening]}: {told.about}" if told.about else None
    return {
        "happening": str(match.happening),
        "rule": match.name,
        "title": (about or title(match.happening, event, item))[:LONGEST],
        "why": (told.why or why(match.happening, event, item))[:LONGEST],
        "url": _page(public_url, case),
        "at": event.occurred_at,
        "agent": case.agent,
        "project": case.project.name if case.project else None,
        "item": _item(item) if item else None,
        "event": {
            "seq": event.seq,
            "type": event.type,
            "reason": event.reason,
            "actor": event.actor,
        },
    }


def _page(public_url: str, case: Case) -> str:
    if case.item is not None:
        return f"{public_url}/items/{case.item.id}"
    return f"{public_url}/ui/agents" if case.agent else f"{public_url}/"


def _item(item: WorkItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "description": item.description[:LONGEST],
        "type": item.type,
        "status": str(item.status),
        "priority": item.priority,
        "project_id": item.project_id,
        "labels": list(item.labels),
        "artifact_url": item.artifact_url,
    }
