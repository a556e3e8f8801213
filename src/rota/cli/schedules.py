"""When agents wake, and why they did not."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.output import Column, Json, column
from rota.cli.parsing import Span, limit_option
from rota.cli.session import group
from rota.cli.text import age, local_time, one_line, shortened
from rota.model.schedules import ScheduleStatus, ScheduleType

if TYPE_CHECKING:
    from rota.cli.session import Session

schedule = group(
    "schedule", "List, trigger, enable and disable schedules.", "rota schedule list --agent smith"
)

_ERROR_WIDTH = 60
_RESTING = "resting"
_NOBODY = "no running server has it in its rota.yaml"
_LOOK_SECONDS = 0.2


class Name(click.ParamType[tuple[str, str]]):
    """AGENT/NAME."""

    name = "agent/name"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        agent, slash, name = str(value).partition("/")
        if not (agent and slash and name) or "/" in name:
            self.fail(f"{str(value)[:80]!r} is no schedule; write AGENT/NAME", param, ctx)
        return agent, name


def _status(one: Json) -> str:
    """Also for a schedule that nothing wakes, because no running server has it."""
    return _RESTING if one["status"] == ScheduleStatus.IDLE and _is_left(one) else one["status"]


def _is_left(one: Json) -> bool:
    return not one.get("attended", True)  # an older server does not send it


def _next(one: Json) -> str:
    """In words: `in 5m`, `due`, or nothing."""
    words = age(one["next_run_at"])
    if not words or _is_left(one):
        return ""
    return f"in {words[1:]}" if words.startswith("+") else "due"


def _last_look(one: Json) -> str:
    words = age(one["last_run_at"])
    return f"{words} ago" if words else "never"


def _last_run(one: Json) -> str:
    """The last run, which may be older than the last look: most looks find nothing to run for."""
    run = one.get("last_run")
    return f"{run['status']} {age(run['started_at'])} ago" if run else ""


_COLUMNS = [
    Column("schedule", lambda one: f"{one['agent']}/{one['name']}", whole=True),
    Column("status", _status),
    column("rhythm", spare=2),
    Column("last look", lambda one: one["last_run_at"], _last_look, spare=3),
    Column("next", lambda one: one["next_run_at"], _next, spare=4),
    Column("last skip", lambda one: one["last_skip_reason"], whole=True),
    Column("last error", lambda one: shortened(one["last_error"] or "", _ERROR_WIDTH), folds=True),
    Column(
        "last run", lambda one: (one.get("last_run") or {}).get("started_at"), _last_run, spare=1
    ),
]


@schedule.member("list", example="rota schedule list --agent smith")
@click.option("--agent", help="Only schedules of this agent.")
@limit_option(200)
def list_schedules(session: "Session", /, agent: str | None, limit: int) -> None:
    """List schedules by agent and name.

    In a pipe the columns are agent/name, status, rhythm, last look, next look, last skip reason,
    last error and last run. A schedule is resting while no running server has it. A look that finds
    nothing to do is no run. The last run is shown if it began within the last day, or since the
    last look if that is longer ago.
    """
    found = session.client.list_schedules(agent=agent, limit=limit + 1)
    session.output.page(found, limit, _COLUMNS, "no schedules; `rota up` reads them from rota.yaml")
    if any(_status(one) == _RESTING for one in found[:limit]):
        session.output.say(f"{_RESTING}: {_NOBODY}; {_ways_on('AGENT/NAME')}")


@schedule.member("show", example="rota schedule show smith/morning")
@click.argument("name", type=Name())
def show(session: "Session", /, name: tuple[str, str]) -> None:
    """Show when a schedule ran, will run, and why it did not."""
    _show(session, session.client.get_schedule(*name))


@schedule.member("enable", example="rota schedule enable smith/morning")
@click.argument("name", type=Name())
def enable(session: "Session", /, name: tuple[str, str]) -> None:
    """Let a schedule wake its agent again, from now on."""
    _show(session, session.client.enable_schedule(*name))


@schedule.member("disable", example="rota schedule disable smith/morning")
@click.argument("name", type=Name())
def disable(session: "Session", /, name: tuple[str, str]) -> None:
    """Stop a schedule from waking its agent.

    Runs that have begun go on.
    """
    _show(session, session.client.disable_schedule(*name))


@schedule.member("forget", example="rota schedule forget smith/morning")
@click.argument("name", type=Name())
def forget(session: "Session", /, name: tuple[str, str]) -> None:
    """Remove a schedule that no rota.yaml names any more.

    If the rota.yaml of a server still names it, it comes back as new: remove it there.
    """
    rests = _rests(session.client.get_schedule(*name))
    session.client.forget_schedule(*name)
    told = {"schedule": "/".join(name), "result": "forgotten"}
    session.output.facts(told, told.items())
    if not rests:
        session.output.say(
            "warning: a server whose rota.yaml still names it brings it back, as new and enabled;"
            f" take it out there, or keep it and say rota schedule disable {'/'.join(name)}"
        )


def _rests(one: Json) -> bool:
    """Whether a server has noticed that no configuration names this schedule any more. Servers can
    tell this only for schedules by the clock that are not disabled."""
    by_clock = ScheduleType(one["type"]).by_clock
    return by_clock and one["status"] != "disabled" and one["next_run_at"] is None


def _ways_on(called: str) -> str:
    return f"start one that has it, or remove it: rota schedule forget {called}"


def _show(session: "Session", one: Json) -> None:
    session.output.facts(one, _facts(one))
    if _is_left(one):
        called = f"{one['agent']}/{one['name']}"
        session.output.say(f"nothing wakes it: {_NOBODY}; {_ways_on(called)}")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _facts(one: Json) -> list[tuple[str, object]]:
    skip, run = one["last_skip_reason"], one.get("last_run")
    return [
        ("schedule", f"{one['agent']}/{one['name']}"),
        ("type", one["type"]),
        ("rhythm", one_line(one["rhythm"])),
        ("status", _status(one)),
        ("next", local_time(one["next_run_at"])),
        ("last look", local_time(one["last_run_at"])),
        ("last end", local_time(one["last_completed_at"])),
        ("last run", f"{run['status']}, {local_time(run['started_at'])}" if run else ""),
        ("triggered", _times(one["trigger_count"])),
        ("skipped", _times(one["skip_count"]) if one["skip_count"] else ""),
        ("last skip", f"{skip}, {local_time(one['last_skip_at'])}" if skip else ""),
        ("because", one_line(one["last_skip_detail"] or "")),
        ("last error", one["last_error"]),
    ]


@schedule.member("trigger", example='rota schedule trigger smith/morning --message "look at #7"')
@click.argument("name", type=Name())
@click.option("--message", help="Text for the agent, after its prompt.")
@click.option(
    "--wait", type=Span(), help="Wait this long for the end; exit code 1 unless it succeeded."
)
def trigger(
    session: "Session", /, name: tuple[str, str], message: str | None, wait: float | None
) -> None:
    """Wake an agent now, by one of its schedules.

    This works also when the schedule is disabled. A server with this agent starts it as soon as
    there is room; while none runs, the trigger waits, and a warning says so.
    """
    one = session.client.trigger_schedule(*name, message=message)
    is_left = _is_left(session.client.get_schedule(*name))
    if is_left:
        session.output.say(f"warning: it waits: {_NOBODY}; {_ways_on('/'.join(name))}")
    if wait is not None:
        one = _waited(session, one, wait)
    session.output.facts(one, _trigger_facts(one), attended=not is_left)
    if wait is not None and one["outcome"] != "succeeded":
        session.output.say(_verdict(one))
        raise click.exceptions.Exit(1)


def _waited(session: "Session", one: dict[str, Any], seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    # The run is in another process, perhaps on another machine, so it can only be polled.
    while one["ended_at"] is None and time.monotonic() < deadline:
        time.sleep(min(_LOOK_SECONDS, max(deadline - time.monotonic(), 0)))
        one = session.client.get_trigger(one["id"])
    return one


def _verdict(one: Json) -> str:
    if one["ended_at"] is not None:
        return f"it ended as {one['outcome']}"
    return "no server has taken it up yet" if one["node"] is None else "it has not ended yet"


def _trigger_facts(one: Json) -> list[tuple[str, object]]:
    return [
        ("trigger", one["id"]),
        ("schedule", f"{one['agent']}/{one['schedule']}"),
        ("node", one_line(one["node"] or "not taken up yet")),
        ("ended", local_time(one["ended_at"])),
        ("outcome", one["outcome"]),
        ("error", one["error"]),
    ]


@schedule.member("import", example="rota schedule import .herdctl/state.yaml")
@click.argument("path", type=click.Path(path_type=Path))
def import_state(session: "Session", /, path: Path) -> None:
    """Import the state of herdctl's schedules.

    The state is the last run, the last error, and whether the schedule is disabled. PATH is a
    `state.yaml`, or the `.herdctl` directory that holds it. Intervals go on from their last run. A
    schedule that has already run here stays as it is, so importing twice changes nothing.
    """
    from rota.cli.herdctl import take_over

    take_over(session, path)
