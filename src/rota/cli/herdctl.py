"""Takes over what herdctl's `state.yaml` knows of each schedule."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.cli.output import column
from rota.config.document import read
from rota.model.clock import parse_time, to_text
from rota.model.errors import InvalidInput
from rota.model.work import check_name

if TYPE_CHECKING:
    from rota.cli.session import Session

_LONGEST_ERROR = 4_000
_STATUSES = ("idle", "running", "disabled")


@dataclass(frozen=True, slots=True)
class Known:
    agent: str
    name: str
    enabled: bool
    last_run_at: str | None
    last_error: str | None


def take_over(session: "Session", path: Path, *, dry_run: bool = False) -> None:
    found, unmapped = read_state(path)
    rows = []
    for one in found:
        result = "would be imported" if dry_run else _restored(session, one)
        rows.append({"schedule": f"{one.agent}/{one.name}", "result": result})
    rows += [{"schedule": name, "result": f"not imported: {why}"} for name, why in unmapped]
    columns = [column("schedule", whole=True), column("result", folds=True)]
    session.output.table(rows, columns, f"{path} knows of no schedules")


def _restored(session: "Session", known: Known) -> str:
    taken = session.client.restore_schedule(
        known.agent,
        known.name,
        enabled=known.enabled,
        last_run_at=known.last_run_at,
        last_error=known.last_error,
    )
    return "imported" if taken else "has run here already"


def read_state(path: Path) -> tuple[list[Known], list[tuple[str, str]]]:
    """What can be taken over; and what cannot, each with the reason."""
    file = path / "state.yaml" if path.is_dir() else path
    content = read(file).content
    agents = content.get("agents") if isinstance(content, Mapping) else None
    if not isinstance(agents, Mapping):
        raise InvalidInput(f"{file}: this is no state of herdctl: it has no `agents`")
    found: list[Known] = []
    unmapped: list[tuple[str, str]] = []
    for agent, name, state in _schedules(agents):
        try:
            found.append(_known(agent, name, state))
        except InvalidInput as error:
            unmapped.append((f"{agent}/{name}", error.message))
    return found, unmapped


def _schedules(agents: Mapping[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    for agent, facts in agents.items():
        schedules = facts.get("schedules") if isinstance(facts, Mapping) else None
        if isinstance(schedules, Mapping):
            for name, state in schedules.items():
                # As the configuration does: names have small letters here.
                yield str(agent).lower(), str(name).lower(), state


def _known(agent: str, name: str, state: Any) -> Known:
    check_name(agent, "agent")
    check_name(name, "schedule")
    if not isinstance(state, Mapping):
        raise InvalidInput("its state is no mapping")
    status = str(state.get("status", "idle"))
    if status not in _STATUSES:
        raise InvalidInput(f"the status {status[:40]!r} is unknown")
    error = state.get("last_error")
    return Known(
        agent,
        name,
        status != "disabled",
        _moment(state.get("last_run_at")),
        str(error)[:_LONGEST_ERROR] if error else None,
    )


def _moment(value: Any) -> str | None:
    """YAML reads an unquoted time as a datetime."""
    if value is None:
        return None
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return to_text(parse_time(text, "last_run_at"))
