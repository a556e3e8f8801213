"""When this happens, that follows."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.columns import event_line
from rota.cli.item_ids import ItemId, demand_item
from rota.cli.output import Column, Json, column, time_column
from rota.cli.parsing import limit_option
from rota.cli.session import group
from rota.cli.signal_specs import body_of, in_words, signal_options
from rota.cli.signal_wording import told_by_options
from rota.cli.text import local_time, one_line, shortened
from rota.model.signals import SignalStatus

if TYPE_CHECKING:
    from rota.cli.session import Session

signal = group(
    "signal",
    "Make and manage signals: when this happens, do that.",
    "rota signal add --on-status failed --of-type bug_fix --then submit --title 'Why?'",
)

_WORDS_WIDTH = 100
_FIRINGS_SHOWN = 10


def _fired(one: Json) -> str:
    return str(one["fires"]) if one["max_fires"] is None else f"{one['fires']}/{one['max_fires']}"


def _when(one: Json) -> str:
    words = in_words(one["trigger"]).replace("work_item.status.transition", "status")
    return shortened(words.removeprefix("work_items."), _WORDS_WIDTH)


def _then(one: Json) -> str:
    return shortened(in_words(one["action"]), _WORDS_WIDTH)


_COLUMNS = [
    column("id", whole=True),
    column("name", spare=4),
    column("status"),
    Column("fired", _fired, spare=3),
    column("work_item_id", "item", whole=True, beginning=True, spare=1),
    time_column("created_at", "age", spare=2),
    Column("when", lambda one: in_words(one["trigger"]), _when, folds=True),
    Column("then", lambda one: in_words(one["action"]), _then, folds=True),
]
_FIRINGS = [
    column("id", whole=True),
    column("signal_id", "signal", whole=True, spare=1),
    column("work_item_id", "item", whole=True, beginning=True, spare=2),
    column("attempt", spare=4),
    time_column("created_at", "age", spare=3),
    column("error", folds=True),
]


@signal.member(
    "add", example="rota signal add --on-status failed --item ITEM --then follow-up --title 'Why?'"
)
@signal_options
def add(session: "Session", /, **options: Any) -> None:
    """Make a signal.

    One option says when the signal fires, --then says what to do.

    \b
    rota signal add --on-status queued --from failed --then hold --max-fires unlimited
    rota signal add --when-all-in completed --project ID --then submit --title "Release it"
    rota signal add --after 2h --in in_review --then notify --to https://example.org/hook
    rota signal add --on-run failed --of-agent smith --then submit --title "Look at {run.id}"
    rota signal add --spec signal.json
    """
    with told_by_options(options, as_json=session.as_json):
        made = session.client.create_signal(**body_of(options))
    session.output.facts(made, facts_of(made))


@signal.member("test", example="rota signal test --on-status failed --of-type bug_fix")
@signal_options
def test(session: "Session", /, **options: Any) -> None:
    """Show which past events would have fired a signal.

    Looks at the last 1,000 events, and judges them by the present state of the items. Nothing is
    stored. Exit code 1 when no event would have fired it.
    """
    body = body_of(options)
    kept = {name: body[name] for name in ("action", "work_item_id") if name in body}
    with told_by_options(options, as_json=session.as_json):
        found = session.client.test_signal(body["trigger"], **kept)
    if not found:
        session.output.negative([], "no_event", "none of the last 1,000 events would have fired it")
    if session.as_json:
        session.output.document(found, count=len(found))
        return
    for event in found:
        print(event_line(event))


@signal.member("list", example="rota signal list --status active")
@click.option(
    "--status",
    type=click.Choice([str(one) for one in SignalStatus]),
    help="Only signals with this status.",
)
@click.option("--item", "work_item_id", type=ItemId(), help="Only signals of this item.")
@click.option("--failed", is_flag=True, help="List firings that failed for good instead.")
@limit_option()
def list_signals(session: "Session", /, failed: bool, limit: int, **filters: Any) -> None:
    """List signals by age, or firings that failed.

    In a pipe the columns are id, name, status, how often it fired, item, creation, trigger and
    action. With --failed they are firing, signal, item, attempts, creation and error.
    """
    if failed:
        _list_failed(session, limit)
        return
    found = session.client.list_signals(**filters, limit=limit + 1)
    if not found:
        demand_item(session, filters["work_item_id"])
    session.output.page(found, limit, _COLUMNS, "no signals")


def _list_failed(session: "Session", limit: int) -> None:
    session.output.table(session.client.firings(limit=limit), _FIRINGS, "no firing has failed")


@signal.member("show", example="rota signal show 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@click.argument("signal")
def show(session: "Session", /, signal: str) -> None:
    """Show one signal with its latest firings."""
    detail = session.client.get_signal(signal)
    firings = "\n".join(map(_firing_line, detail["firings"][:_FIRINGS_SHOWN]))
    session.output.facts(detail, [*facts_of(detail), ("firings", firings)])


@signal.member("cancel", example="rota signal cancel 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@click.argument("signal")
def cancel(session: "Session", /, signal: str) -> None:
    """Cancel an active signal.

    What it has already done stays.
    """
    session.client.cancel_signal(signal)
    session.output.facts({"id": signal, "status": "cancelled"}, [("cancelled", signal)])


@signal.member("retry", example="rota signal retry 0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f:42")
@click.argument("firing")
def retry(session: "Session", /, firing: str) -> None:
    """Retry a firing that failed for good.

    `rota signal list --failed` lists them.
    """
    again = session.client.retry_firing(firing)
    session.output.facts(again, [("firing", again["id"]), ("status", again["status"])])


def facts_of(one: Json) -> list[tuple[str, object]]:
    most = one["max_fires"]
    fired = (
        f"{one['fires']}, as often as it happens" if most is None else f"{one['fires']} of {most}"
    )
    return [
        ("id", one["id"]),
        ("name", one["name"]),
        ("status", one["status"]),
        ("item", one["work_item_id"]),
        ("when", one_line(in_words(one["trigger"]))),
        ("then", one_line(in_words(one["action"]))),
        ("fired", fired),
        ("last fired", local_time(one["last_fired_at"])),
        ("expires", local_time(one["expires_at"])),
        ("created", f"{local_time(one['created_at'])} by {one_line(one['created_by'] or '')}"),
        ("from", "rota.yaml" if one["configured"] else ""),
    ]


def _firing_line(one: Json) -> str:
    made = " ".join(f"{name}={value}" for name, value in one["result"].items())
    words = (one["id"], one["status"], local_time(one["created_at"]), one["error"] or made)
    return one_line("  ".join(words))
