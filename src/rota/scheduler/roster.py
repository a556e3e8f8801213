"""The agents that a node knows and their schedules by name, and those of the other nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rota.model.fleet import AgentSpec
from rota.model.schedules import Schedule, ScheduleState
from rota.model.wanted import WorkWanted
from rota.storage.port import Transaction
from rota.storage.schedule_port import Listed

Name = tuple[str, str]  # agent and schedule


@dataclass(frozen=True, slots=True)
class Roster:
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    schedules: Mapping[Name, Schedule] = field(default_factory=dict)

    @classmethod
    def of(cls, agents: Iterable[AgentSpec]) -> "Roster":
        known = {agent.name: agent for agent in agents}
        schedules = {
            (agent.name, schedule.name): schedule
            for agent in known.values()
            for schedule in agent.schedules
        }
        return cls(known, schedules)

    def source(self, name: Name) -> str | None:
        """The work that a schedule takes, in the form that the ledger stores."""
        given = self.schedules[name].work_source or self.agents[name[0]].work_source
        return WorkWanted.of(given).text if given else None

    def listed(self) -> Listed:
        return {
            name: [one.name for one in agent.schedules]
            for name, agent in sorted(self.agents.items())
        }

    def names(self) -> list[str]:
        return sorted(self.agents)

    def parts(self, size: int) -> "Iterator[Roster]":
        """In pieces of whole agents, each with about `size` agents and schedules together."""
        piece: list[AgentSpec] = []
        weight = 0
        for agent in self.agents.values():
            piece.append(agent)
            weight += len(agent.schedules) + 1
            if weight >= size:
                yield Roster.of(piece)
                piece, weight = [], 0
        if piece:
            yield Roster.of(piece)


@dataclass(frozen=True, slots=True)
class Others:
    """What the other living nodes have, or all of them. A node that has not said yet may have
    anything."""

    names: frozenset[Name] = frozenset()
    all_said: bool = True

    @classmethod
    def of(cls, rosters: Iterable[Listed | None]) -> "Others":
        rosters = list(rosters)
        known = [one for one in rosters if one is not None]
        names = ((agent, name) for one in known for agent, names in one.items() for name in names)
        return cls(frozenset(names), all_said=len(known) == len(rosters))

    @property
    def agents(self) -> set[str]:
        return {agent for agent, _ in self.names}

    def may_have(self, name: Name) -> bool:
        return not self.all_said or name in self.names


def attended(
    tx: Transaction, states: Iterable[ScheduleState], alive_since: str
) -> list[ScheduleState]:
    """The same states, saying whether a node that lives has them in its file."""
    living = Others.of(tx.living_rosters(alive_since))
    return [replace(one, attended=living.may_have((one.agent, one.name))) for one in states]
