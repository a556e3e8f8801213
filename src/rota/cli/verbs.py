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

_token = click.option("--token", help="The claim's token; needed while the item is claimed.")
_force = click.option("--force", is_flag=True, help="End somebody's claim on it. For dispatchers.")
_lease = click.option("--lease", "lease_seconds", type=Span(), help="Claim it for so long: 15m.")


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
@click.option("--agent", help="Who begins; it must be the one it is dispatched to.")
@_lease
def start(session: "Session", /, item: str, **how: Any) -> None:
    """Begin a dispatched item; with --lease it is claimed, and a token printed."""
    _begun(session, session.client.start(item, **how))


@command("resume", example="rota resume ITEM")
@item_ids.item
@_notes("What has changed")
@_lease
@click.option(
    "--force", is_flag=True, help="Although the fleet's agent will not go on. For dispatchers."
)
def resume(session: "Session", /, item: str, **how: Any) -> None:
    """Go on with a blocked item yourself; with --lease it is claimed, and a token printed.

    What an agent of the fleet shall go on with is given back to the queue, with the answer as a
    note: rota release ITEM --notes TEXT.
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
    """Complete an item; in review, that accepts it."""
    _moved(session, session.client.complete, item, **how)


@command("fail", example="rota fail ITEM --token TOKEN --notes 'the repository is gone'")
@item_ids.item
@_token
@_notes("What went wrong")
@_force
def fail(session: "Session", /, item: str, **how: Any) -> None:
    """Give an item up as failed; `rota retry` queues it again."""
    _moved(session, session.client.fail, item, **how)


@command("block", example="rota block ITEM --token TOKEN --notes 'which of the two formats?'")
@item_ids.item
@_token
@click.option("--notes", type=Text(), required=True, help="What it waits for: text, @file or -.")
@_force
def block(session: "Session", /, item: str, **how: Any) -> None:
    """Say that an item cannot go on, and why."""
    _moved(session, session.client.block, item, **how)


@command("release", example="rota release ITEM --token TOKEN --reason 'too large for me'")
@item_ids.item
@_token
@click.option("--reason", help="Why it is given back.")
@_notes("What was found out")
@click.option("--available-at", type=Moment(), help="Not before: ISO 8601, or +2h.")
@_force
def release(session: "Session", /, item: str, **how: Any) -> None:
    """Give an item back to the queue, for somebody else or for later."""
    _moved(session, session.client.release, item, **how)


@command("hand-over", example="rota hand-over ITEM https://example.org/pull/12 --token TOKEN")
@item_ids.item
@click.argument("artifact_url", metavar="URL")
@_token
@_notes("What to look at")
@_force
def hand_over(session: "Session", /, item: str, **how: Any) -> None:
    """Give an item to review; URL is where its result stands."""
    _moved(session, session.client.hand_over, item, **how)


@command("dispatch", example="rota dispatch ITEM smith --start")
@item_ids.item
@click.argument("agent", required=False)
@click.option("--start", "and_start", is_flag=True, help="Mark it as picked up, too.")
def dispatch(session: "Session", /, item: str, agent: str | None, and_start: bool) -> None:
    """Name the agent that shall do an item; without one, the agent it already names."""
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
    """Cancel an item before work on it has begun."""
    moved(session, session.client.cancel(item, notes=notes))


@command("reopen", example="rota reopen ITEM --notes 'the tests are missing'")
@item_ids.item
@_notes("What is missing")
def reopen(session: "Session", /, item: str, notes: str | None) -> None:
    """Send an item in review back to the queue."""
    moved(session, session.client.reopen(item, notes=notes))
