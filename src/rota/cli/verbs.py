"""The verbs of the status machine, one command each."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rota.cli import item_ids
from rota.cli.claim import how_to_go_on
from rota.cli.moved import moved
from rota.cli.parsing import Moment, Span, Text
from rota.cli.session import command

if TYPE_CHECKING:
    from rota.cli.session import Session

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_token = click.option("--token", help="The claim's token; required while the item is claimed.")
_force = click.option(
    "--force", is_flag=True, help="End another holder's claim on it; for dispatchers."
)
_lease = click.option(
    "--lease", "lease_seconds", type=Span(), help="Also claim it, with this lease: 15m."
)


def _moved(session: "Session", verb: Callable[..., dict[str, Any]], item: str, **how: Any) -> None:
    if how["force"] and how["token"]:
        raise click.UsageError(
            "--token is that of your claim, and --force ends a stranger's: use one"
        )
    moved(session, verb(item, **how))


def _notes(help: str) -> Decorator:  # noqa: A002 - click's word for it
    return click.option("--notes", type=Text(), help=f"{help}: text, @file or -.")


@command("start", example="rota start ITEM --lease 15m")
@item_ids.item
@click.option("--agent", help="The agent that starts; the item must be dispatched to it.")
@_lease
def start(session: "Session", /, item: str, **how: Any) -> None:
    """Start work on a dispatched item.

    With --lease, claims the item and prints the claim's token.
    """
    _begun(session, session.client.start(item, **how))


@command("resume", example="rota resume ITEM")
@item_ids.item
@_notes("What has changed")
@_lease
@click.option(
    "--force",
    is_flag=True,
    help="Resume it although its agent, woken by the fleet, would not go on; for dispatchers.",
)
def resume(session: "Session", /, item: str, **how: Any) -> None:
    """Resume a blocked item yourself.

    With --lease, claims the item and prints the claim's token. If an agent of the fleet should go
    on with the item, give it back to the queue instead, with your answer as a note: rota release
    ITEM --notes TEXT.
    """
    _begun(session, session.client.resume(item, **how))


def _begun(session: "Session", item: dict[str, Any]) -> None:
    moved(session, item)
    if item.get("claim") and not session.as_json:
        session.output.say(how_to_go_on(item))


@command("done", example="rota done ITEM --token TOKEN --notes 'merged as #12'")
@item_ids.item
@_token
@_notes("The result")
@_force
def done(session: "Session", /, item: str, **how: Any) -> None:
    """Complete an item.

    For an item in review, this accepts the result.
    """
    _moved(session, session.client.complete, item, **how)


@command("fail", example="rota fail ITEM --token TOKEN --notes 'the repository is gone'")
@item_ids.item
@_token
@_notes("What went wrong")
@_force
def fail(session: "Session", /, item: str, **how: Any) -> None:
    """Mark an item as failed.

    `rota retry` queues it again.
    """
    _moved(session, session.client.fail, item, **how)


@command("block", example="rota block ITEM --token TOKEN --notes 'which of the two formats?'")
@item_ids.item
@_token
@click.option("--notes", type=Text(), required=True, help="What it waits for: text, @file or -.")
@_force
def block(session: "Session", /, item: str, **how: Any) -> None:
    """Mark an item as blocked, and say why."""
    _moved(session, session.client.block, item, **how)


@command("release", example="rota release ITEM --token TOKEN --reason 'too large for me'")
@item_ids.item
@_token
@click.option("--reason", help="Why it is given back.")
@_notes("What was found out")
@click.option("--available-at", type=Moment(), help="Nobody may take it before: ISO 8601, or +2h.")
@_force
def release(session: "Session", /, item: str, **how: Any) -> None:
    """Give an item back to the queue."""
    _moved(session, session.client.release, item, **how)


@command("hand-over", example="rota hand-over ITEM https://example.org/pull/12 --token TOKEN")
@item_ids.item
@click.argument("artifact_url", metavar="URL")
@_token
@_notes("What to look at")
@_force
def hand_over(session: "Session", /, item: str, **how: Any) -> None:
    """Hand an item over for review.

    URL is the address of the result.
    """
    _moved(session, session.client.hand_over, item, **how)


@command("dispatch", example="rota dispatch ITEM smith --start")
@item_ids.item
@click.argument("agent", required=False)
@click.option("--start", "and_start", is_flag=True, help="Also start it.")
def dispatch(session: "Session", /, item: str, agent: str | None, and_start: bool) -> None:
    """Dispatch an item to an agent.

    Without AGENT, to the agent that the item already names.
    """
    dispatched = session.client.dispatch(item, agent)
    moved(session, session.client.start(item) if and_start else dispatched)


@command("retry", example="rota retry ITEM")
@item_ids.item
@_notes("Why it may work now")
def retry(session: "Session", /, item: str, notes: str | None) -> None:
    """Queue a failed item again, with fresh attempts."""
    moved(session, session.client.retry(item, notes=notes))


@command("cancel", example="rota cancel ITEM")
@item_ids.item
@_notes("Why")
def cancel(session: "Session", /, item: str, notes: str | None) -> None:
    """Cancel an item before work on it begins."""
    moved(session, session.client.cancel(item, notes=notes))


@command("reopen", example="rota reopen ITEM --notes 'the tests are missing'")
@item_ids.item
@_notes("What is missing")
def reopen(session: "Session", /, item: str, notes: str | None) -> None:
    """Send an item in review back to the queue."""
    moved(session, session.client.reopen(item, notes=notes))
