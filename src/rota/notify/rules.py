"""Matches events with rules."""

from collections.abc import Iterator
from dataclasses import dataclass

from rota.config.notify import NotifyConfig, NotifyRule
from rota.model.events import Event
from rota.model.notices import Happening
from rota.model.work import Project, WorkItem


@dataclass(frozen=True, slots=True)
class Case:
    """An event, and what it is about."""

    event: Event
    happenings: tuple[Happening, ...]
    item: WorkItem | None = None
    project: Project | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    name: str
    rule: NotifyRule
    channel: str
    happening: Happening


def matches(config: NotifyConfig, case: Case) -> Iterator[Match]:
    """A channel is told of an event once: the first matching rule in the file counts."""
    told: set[str] = set()
    for name, rule in config.rules.items():
        happening = next((one for one in case.happenings if one in rule.on), None)
        if happening is None or not _fits(rule, case):
            continue
        for channel in rule.to:
            if channel not in told:
                told.add(channel)
                yield Match(name, rule, channel, happening)


def _fits(rule: NotifyRule, case: Case) -> bool:
    item, project = case.item, case.project
    names = {project.id, project.name} if project else set()
    return (
        (not rule.agent or case.agent in rule.agent)
        and (not rule.type or (item is not None and item.type in rule.type))
        and (not rule.label or (item is not None and bool({*item.labels} & {*rule.label})))
        and (not rule.project or bool(names & {*rule.project}))
    )
