"""Reports and notifications that could not be delivered yet."""

from typing import TYPE_CHECKING

import click

from rota.cli.output import column, time_column
from rota.cli.parsing import limit_option
from rota.cli.session import group

if TYPE_CHECKING:
    from rota.cli.session import Session

outbox = group(
    "outbox",
    "List and retry undelivered reports and notifications.",
    "rota outbox list --buried",
)

_COLUMNS = [
    column("id", whole=True),
    column("agent", spare=2),
    column("subject", "item or channel", spare=4),
    column("attempts", spare=1),
    time_column("created_at", "age", spare=3),
    time_column("next_attempt_at", "next", spare=6),
    column("says", folds=True, spare=5),
    column("error", folds=True),
]


@outbox.member("list", example="rota outbox list --buried")
@click.option("--buried", is_flag=True, help="List what was given up instead.")
@limit_option(most=1000)
def list_outbox(session: "Session", /, buried: bool, limit: int) -> None:
    """List what still has to reach a source or a channel.

    Each entry shows its attempts and the last error.
    """
    found = session.client.outbox(buried=buried, limit=limit)
    none = "nothing was given up" if buried else "nothing waits"
    session.output.table(found, _COLUMNS, none)


@outbox.member("retry", example="rota outbox retry report-0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f")
@click.argument("id")
def retry(session: "Session", /, id: str) -> None:  # noqa: A002 - the word in the help
    """Retry the delivery of an entry that was given up."""
    session.client.retry_outbox(id)
    session.output.facts({"id": id, "retried": True}, [("retried", id)])
