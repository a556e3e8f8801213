"""Places that work comes from."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli import source_deeds, source_states
from rota.cli.output import Column, column, time_column
from rota.cli.parsing import Text
from rota.cli.session import config_option, group

if TYPE_CHECKING:
    from rota.cli.session import Session

source = group(
    "source",
    "Places that work comes from.\n\nSOURCE is the name of one in rota.yaml, or TYPE:OWNER/REPO."
    " These commands speak to the source and open the database, also beside a running server.",
    "rota source next github:octocat/hello --agent smith",
)

_source = click.argument("name", metavar="SOURCE")
_item = click.argument("item")
_agent = click.option("--agent", required=True, help="Who has it, or wants it.")
_claim = click.option(
    "--claim", help="By which claim, as `source next` tells it; else the agent's present one."
)


def _limit(one: Any) -> str:
    return "" if one["rate_limit"] is None else f"{one['rate_remaining']}/{one['rate_limit']}"


_COLUMNS = [
    column("name", whole=True),
    column("type", spare=5),
    column("place", spare=6),
    column("claim_mode", "claims", spare=3),
    column("state"),
    time_column("polled_at", "polled", spare=7),
    time_column("swept_at", "swept", spare=4),
    column("settle_seconds", "settle", spare=1),
    Column("requests left", _limit, spare=2),
    column("note", folds=True),
]


@source.member("list", example="rota source list")
@config_option
def list_sources(session: "Session", /) -> None:
    """List the sources that rota.yaml names, and how a server found them last.

    Those of agents are there too; the queue is not.
    """
    found = source_states.states(session)
    session.output.table(found, _COLUMNS)
    if not found:
        session.output.say(source_states.none_there(session))


@source.member("types", example="rota source types")
def types(session: "Session", /) -> None:
    """List the types of sources that are installed."""
    from rota.sources.registry import get_registered_types

    session.output.table([{"type": name} for name in get_registered_types()], [column("type")])


@source.member("check", example="rota source check github:octocat/hello")
@click.argument("name", metavar="[SOURCE]", required=False)
@config_option
def check(session: "Session", /, name: str | None) -> None:
    """Check token, scopes, repository and labels; exit code 1 when something is wrong.

    Of a Markdown folder, also the files. Without SOURCE, of all that rota.yaml names, for an agent
    or in 'sources'.
    """
    source_states.check(session, name)


@source.member("next", example="rota source next github:octocat/hello --agent smith")
@_source
@_agent
@click.option("--no-claim", is_flag=True, help="Only look: nothing is claimed.")
@click.option("--prompt", type=Text(), help="Print what to tell the agent: text, @file or -.")
@config_option
def next_item(
    session: "Session", /, name: str, agent: str, no_claim: bool, prompt: str | None
) -> None:
    """Claim the best item of a source for an agent; exit code 1 when there is none.

    With --prompt, that text and the item follow as an agent should read them: what strangers may
    have written is fenced.
    """
    source_deeds.next_item(session, name, agent, claim=not no_claim, prompt=prompt)


@source.member(
    "done",
    example="rota source done github:octocat/hello github-7 --agent smith --outcome success"
    " --summary 'Mended' --artifact https://github.com/octocat/hello/pull/8",
)
@_source
@_item
@_agent
@click.option(
    "--outcome", required=True, type=click.Choice(["success", "failure", "partial"]), help="How."
)
@click.option("--summary", required=True, type=Text(), help="In a sentence: text, @file or -.")
@click.option("--details", type=Text(), help="At length: text, @file or -.")
@click.option("--artifact", "artifacts", multiple=True, help="Pull request, commit; repeatable.")
@click.option("--error", type=Text(), help="What went wrong: text, @file or -.")
@_claim
@config_option
def done(session: "Session", /, name: str, item: str, agent: str, **result: Any) -> None:
    """Report how the work on an item ended; exit code 7 when the claim is lost."""
    source_deeds.report(session, name, item, agent, result)


@source.member("release", example="rota source release github:octocat/hello github-7 --agent smith")
@_source
@_item
@_agent
@click.option("--reason", help="Why it is given back.")
@click.option("--comment", is_flag=True, help="Say so at the source, too.")
@_claim
@config_option
def release(session: "Session", /, name: str, item: str, agent: str, **how: Any) -> None:
    """Give an item back to its source; exit code 7 when it is not the agent's any more."""
    source_deeds.release(session, name, item, agent, **how)


@source.member("poll", example="rota source poll github:octocat/hello")
@_source
@config_option
def poll(session: "Session", /, name: str) -> None:
    """Look after a repository once, as a server does all the time, and say what that did."""
    from rota.cli.source_poll import poll as poll_now

    poll_now(session, name)
