"""Runs: what agents have done, are doing, and said."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.item_ids import ItemId, demand_item
from rota.cli.output import Column, Json, column, time_column
from rota.cli.parsing import limit_option
from rota.cli.session import group
from rota.cli.text import lines, local_time, one_line, shortened, span
from rota.model.runs import RunStatus

if TYPE_CHECKING:
    from rota.cli.session import Session

run = group("run", "List, show and cancel runs of agents.", "rota run list --agent smith")

STATUSES = [str(status) for status in RunStatus]
_SAID_WIDTH = 80


def _said(one: Json) -> str:
    """What the run said, or the item's title while it has said nothing."""
    return _shown_said(one) or shortened(one["item_title"] or "", _SAID_WIDTH)


def _shown_said(one: Json) -> str:
    if one.get("unseen_since"):
        return f"its server has not been seen since {local_time(one['unseen_since'])}"
    return shortened(one["error"] or one["summary"] or "", _SAID_WIDTH)


def _item(one: Json) -> str:
    return shortened(one["item_title"] or one["work_item_id"] or "", _SAID_WIDTH)


def _taken(one: Json) -> str:
    return span(one["seconds"]) if one["seconds"] is not None else ""


def _cost(one: Json) -> str:
    return f"{one['cost_usd']:.2f}" if one["cost_usd"] is not None else ""


_COLUMNS = [
    column("id", whole=True),
    column("status"),
    column("agent"),
    column("schedule", spare=2),
    Column("item", lambda one: one["work_item_id"], _item, folds=True),
    time_column("started_at", "age", spare=4),
    Column("took", lambda one: one["seconds"], _taken, spare=3),
    Column("usd", lambda one: one["cost_usd"], _cost, spare=1),
    Column("said", _said, _shown_said, folds=True, spare=5),
]


@run.member("list", example="rota run list --agent smith --status failed --limit 20")
@click.option("--agent", help="Only runs of this agent.")
@click.option("--schedule", help="Only runs of this schedule.")
@click.option("--item", "work_item_id", type=ItemId(), help="Only runs on this item.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(STATUSES),
    help="Only runs with this status; repeatable.",
)
@limit_option()
def list_runs(session: "Session", /, limit: int, **filters: Any) -> None:
    """List runs, newest first.

    In a pipe the columns are id, status, agent, schedule, item, start, seconds, USD, and the error
    or summary.
    """
    found = session.client.list_runs(**filters, limit=limit + 1)
    if not found:
        demand_item(session, filters["work_item_id"])
    session.output.page(found, limit, _COLUMNS, "no runs")


@run.member("show", example="rota run show 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@click.argument("id")
def show(session: "Session", /, id: str) -> None:  # noqa: A002 - the word in the help
    """Show one run: its result, cost, error and summary."""
    _show(session, session.client.get_run(id))


def _show(session: "Session", one: dict[str, Any]) -> None:
    session.output.facts(one, _facts(one))


def _facts(one: dict[str, Any]) -> list[tuple[str, object]]:
    asked = " (its end was asked for)" if one["cancel_requested"] else ""
    gone = one.get("unseen_since")
    attempt = f" (attempt {one['attempt']})" if one["attempt"] else ""
    return [
        ("id", one["id"]),
        ("status", f"{one['status']}{asked}"),
        ("agent", one_line(one["agent"])),
        ("schedule", one_line(one["schedule"] or "")),
        ("trigger", one["trigger"]),
        ("node", one_line(one["node"])),
        ("server", f"not seen since {local_time(gone)}" if gone else ""),
        ("item", f"{one['work_item_id']}{attempt}" if one["work_item_id"] else ""),
        ("title", one_line(one["item_title"] or "")),
        ("started", local_time(one["started_at"])),
        ("ended", local_time(one["ended_at"])),
        ("took", _taken(one)),
        ("exit code", one["exit_code"]),
        ("tokens", _tokens(one)),
        ("usd", _cost(one)),
        ("turns", one["turns"]),
        ("session", one_line(one["session_id"] or "")),
        ("error", one["error"]),
        ("summary", one["summary"]),
        ("artifacts", "\n".join(map(one_line, one["artifacts"]))),
        ("hooks", "\n".join(map(one_line, one["hook_errors"]))),
    ]


def _tokens(one: dict[str, Any]) -> str:
    read, written = one["input_tokens"], one["output_tokens"]
    return f"{read} in, {written} out" if read or written else ""


@run.member("log", example="rota run log 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f --follow")
@click.argument("id")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
def log(session: "Session", /, id: str, follow: bool) -> None:  # noqa: A002 - the word in the help
    """Print the log of a run.

    With --json, each line has its time and its stream. With --follow, the command waits for a
    server that does not answer. It also ends when the run is lost, or when the run's server is gone
    while another server answers; the last line says so.
    """
    for line in session.client.read_log(id, follow=follow, tell=session.output.say):
        session.output.stream(line, _spoken(line))


def _spoken(line: dict[str, Any]) -> str:
    """Agents repeat text from strangers, which must not control a terminal."""
    text = lines(line.get("text", ""))
    return f"[rota] {text}" if line.get("stream") == "rota" else text


@run.member("cancel", example="rota run cancel 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@click.argument("id")
def cancel(session: "Session", /, id: str) -> None:  # noqa: A002 - the word in the help
    """Ask for a run to be ended.

    The item of the run is then blocked, for you to look at. Exit code 7 when the run has already
    ended.
    """
    one = session.client.cancel_run(id)
    _show(session, one)
    if one.get("unseen_since"):
        session.output.say(
            "nobody is there to end it: its server has not been seen since"
            f" {local_time(one['unseen_since'])}. The next `rota up` there ends what is left of it"
            " as lost, and its item goes back to the queue"
        )
