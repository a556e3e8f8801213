"""That no server is there, for whoever asks the database itself: a server has not read the file
yet, so the ledger knows nothing of its agents."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.model.fleet import AgentSpec

_WAITS = ("queued", "dispatched")
_SAYS_IT = frozenset({"no_server", "next_wake", "already_running"})


def with_absence(session: "Session", told: dict[str, Any]) -> dict[str, Any]:
    """An explanation that begins with the server's absence, where an agent of the file would take
    the item."""
    said = any(one["code"] in _SAYS_IT for one in told["reasons"])
    if said or told["status"] not in _WAITS or not _is_home_alone(session):
        return told
    taker = _taker(session, session.client.work_get(told["id"]))
    if taker is None:
        return told
    message = f"no server runs here, so '{taker.name}' of {session.settings.config} does not work"
    reason = {"code": "no_server", "message": message, "fix": "start `rota up`"}
    return {**told, "summary": message, "reasons": [reason, *told["reasons"]]}


def _is_home_alone(session: "Session") -> bool:
    """Of a database elsewhere nobody knows here who serves it."""
    from rota.config import StateDir

    home = session.settings.state_dir
    ours = Path(session.settings.database).parent == home
    return ours and not StateDir(home).is_held


def _taker(session: "Session", item: dict[str, Any]) -> "AgentSpec | None":
    from rota.config.loading import load_fleet

    with suppress(InvalidInput):
        agents = load_fleet(session.settings.config).fleet.agents
        return next((one for one in agents if _would_take(one, item)), None)
    return None


def _would_take(agent: "AgentSpec", item: dict[str, Any]) -> bool:
    from rota.model.wanted import WorkWanted

    if not agent.schedules or agent.work_source is None:
        return False
    wanted = WorkWanted.of(agent.work_source)
    mine = item["assigned_agent"] in (None, agent.name) and item["source"] is None
    return mine and wanted.kind == "queue" and item["type"] in (wanted.types or (item["type"],))
