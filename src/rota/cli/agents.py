"""Who works, and on how many items at once."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rota.cli.output import Column, Json, column
from rota.cli.parsing import Count
from rota.cli.session import group
from rota.cli.text import local_time
from rota.model.errors import InvalidInput, NoLedger

if TYPE_CHECKING:
    from rota.cli.session import Session

agent = group("agent", "List, show, configure, pause and resume agents.", "rota agent list")


def _today_column(title: str, field: str, spare: int, form: str = "{}") -> Column:
    """On a terminal, zero is shown as empty, so that a fleet that has not run has narrow tables."""

    def shown(one: Json) -> str:
        spent = one["spent_today"][field]
        return form.format(spent) if spent else ""

    return Column(title, lambda one: one["spent_today"][field], shown, spare=spare)


def _kept(one: Json) -> str:
    """What keeps the agent from running, apart from a pause by a person."""
    until = {"quota used up": one["usage_until"], "failed too often": one["breaker_until"]}
    if one.get("budget_used"):  # an older server does not send it
        until[f"used up {one['budget_used']}"] = one["budget_until"]
    reasons = [f"{why}, until {local_time(when)}" for why, when in until.items() if when]
    if one["max_in_review"] and one["in_review"] + one["in_progress"] >= one["max_in_review"]:
        reasons.append("its work waits for reviews")
    if one.get("unattended"):
        reasons.append(
            f"no running server has its schedules: rota schedule list --agent {one['name']}"
        )
    if one.get("unseen_since"):
        reasons.append(f"its server has not been seen since {local_time(one['unseen_since'])}")
    return "; ".join(reasons)


def _reviews(one: Json) -> str:
    """How many items are in review, and of how many allowed."""
    if one["max_in_review"]:
        return f"{one['in_review']} of {one['max_in_review']}"
    return str(one["in_review"] or "")


_COLUMNS = [
    column("name", whole=True),
    column("in_progress", spare=8),
    column("dispatched", spare=4),
    column("max_concurrent", spare=3),
    Column("paused", lambda one: "paused" if one["paused"] else ""),
    Column("running", lambda one: one["running"], lambda one: one["running"] or "", spare=7),
    _today_column("runs today", "runs", spare=6),
    _today_column("usd today", "cost_usd", spare=2, form="{:.2f}"),
    _today_column("tokens today", "tokens", spare=1),
    Column("in review", lambda one: one["in_review"], _reviews, spare=5),
    Column("kept", _kept, folds=True),
]


def _show(session: "Session", one: dict[str, Any]) -> None:
    facts = [(one_.title, one_.value(one)) for one_ in _COLUMNS[:5]]
    more = [
        ("in review", _reviews(one)),
        ("running", one["running"] or ""),
        ("today", _today(one["spent_today"])),
        ("kept", _kept(one)),
        ("note", one["note"]),
    ]
    session.output.facts(one, [*facts, *more])


def _today(spent: dict[str, Any]) -> str:
    if not spent["runs"]:
        return ""
    runs = "1 run" if spent["runs"] == 1 else f"{spent['runs']} runs"
    return f"{runs}, {spent['tokens']} tokens, {spent['cost_usd']:.2f} USD"


@agent.member("list", example="rota agent list")
def list_agents(session: "Session", /) -> None:
    """List agents with their items, spending and obstacles.

    In a pipe the columns are name, items in progress, items dispatched, slots, "paused" or nothing,
    current runs, today's runs, today's USD, today's tokens, items in review, and what else keeps
    the agent from running.
    """
    none = "no agents: no rota.yaml names one (`rota up` reads it), and none has an item now"
    session.output.table(session.client.agents(), _COLUMNS, none)


@agent.member("show", example="rota agent show smith")
@click.argument("name")
def show(session: "Session", /, name: str) -> None:
    """Show one agent: its items, limits, spending and obstacles."""
    _show(session, session.client.get_agent(name))


@agent.member("set", example="rota agent set smith --max-concurrent 3")
@click.argument("name")
@click.option("--max-concurrent", type=Count(1), help="How many items it may work on at once.")
@click.option(
    "--max-in-review",
    metavar="N",
    help="Most items in progress or in review before it gets no new one; none: no limit.",
)
def set_agent(
    session: "Session", /, name: str, max_concurrent: int | None, max_in_review: str | None
) -> None:
    """Set the limits of an agent; a new name adds an agent."""
    if max_concurrent is None and max_in_review is None:
        raise click.UsageError("say what to set: --max-concurrent N, --max-in-review N, or both")
    more: dict[str, Any] = {}
    if max_in_review is not None:
        more["max_in_review"] = _limit(max_in_review)
    _show(session, session.client.set_agent(name, max_concurrent=max_concurrent, **more))


def _limit(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(
            f"{text!r} is no number; write 3, or none", param_hint="'--max-in-review'"
        )
    return int(text)


@agent.member("pause", example="rota agent pause smith")
@click.argument("name")
def pause(session: "Session", /, name: str) -> None:
    """Stop an agent from taking items; it keeps those it has."""
    known = _is_known(session, name)
    _show(session, session.client.set_agent(name, paused=True))
    if not known:
        session.output.say(f"nothing is known of an agent {name!r}; it is paused should it come")


def _is_known(session: "Session", name: str) -> bool:
    """Whether the ledger knows the agent, or the file, if no server has read that yet."""
    from rota.config.loading import load_fleet

    client = session.client
    with suppress(NoLedger):
        if (
            any(one["name"] == name for one in client.agents())
            or client.work_list(agent=name, limit=1)
            or client.list_runs(agent=name, limit=1)
        ):
            return True
    with suppress(InvalidInput):
        return any(one.name == name for one in load_fleet(session.settings.config).fleet.agents)
    return False


@agent.member("resume", example="rota agent resume smith")
@click.argument("name")
def resume(session: "Session", /, name: str) -> None:
    """Let a paused agent take items again.

    Also lets an agent run again that failed too often or used up its quota. Exit code 1 when
    nothing is known of the agent.
    """
    if not _is_known(session, name):
        session.output.negative(
            None, "unknown_agent", f"nothing is known of an agent {name!r}; see `rota agent list`"
        )
    _show(session, session.client.set_agent(name, paused=False))
