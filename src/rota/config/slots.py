"""Warns of slots that the schedules of an agent cannot fill."""

from rota.config.mistakes import Findings
from rota.config.tree import PlacedMap, find
from rota.model.fleet import AgentSpec


def warn_of_idle_slots(agent: AgentSpec, layers: PlacedMap, findings: Findings) -> None:
    """An agent without schedules is for workers, which have slots of their own. Defaults are for
    many agents, and need not fit each."""
    many = len(agent.schedules)
    place, said = find(layers, ("instances", "max_concurrent"))
    if said is None or "defaults" in place.loc or not 0 < many < agent.max_concurrent:
        return
    wakers = "1 schedule wakes" if many == 1 else f"{many} schedules wake"
    findings.warning(
        place,
        f"{agent.max_concurrent} slots, and {wakers} it: a schedule does not overlap itself, so"
        f" the server runs at most {many} at once; write a schedule for each slot",
    )
