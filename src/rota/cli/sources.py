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
    "List and check sources, and take items from them.\n\nSOURCE is the name of a source in"
    " rota.yaml, or TYPE:OWNER/REPO. These commands call the source and open the database"
    " themselves, also beside a running server.",
    "rota source next github:octocat/hello --agent smith",
)

_source = click.argument("name", metavar="SOURCE")
_item = click.argument("item")
_agent = click.option("--agent", required=True, help="The agent that takes or holds the item.")
_claim = click.option(
    "--claim", help="The claim, as `source next` prints it.  [default: the agent's present claim]"
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
    """List the sources in rota.yaml, and their last state.

    The state is what a server found last. Sources of agents are included; the queue is not.
    """
    found = source_states.states(session)
    session.output.table(found, _COLUMNS, source_states.none_there(session))


@source.member("types", example="rota source types")
def types(session: "Session", /) -> None:
    """List the installed types of sources."""
    from rota.sources.registry import get_registered_types

    session.output.table([{"type": name} for name in get_registered_types()], [column("type")])


@source.member("check", example="rota source check github:octocat/hello")
@click.argument("name", metavar="[SOURCE]", required=False)
@config_option
def check(session: "Session", /, name: str | None) -> None:
    """Check token, scopes, repository and labels of a source.

    Of a Markdown folder, the files are checked too. Without SOURCE, checks all sources that
    rota.yaml names, for an agent or in 'sources'. Exit code 1 when something is wrong.
    """
    source_states.check(session, name)


@source.member("next", example="rota source next github:octocat/hello --agent smith")
@_source
@_agent
@click.option("--no-claim", is_flag=True, help="Only look; claim nothing.")
@click.option(
    "--prompt", type=Text(), help="Also print a prompt that begins with this: text, @file or -."
)
@config_option
def next_item(
    session: "Session", /, name: str, agent: str, no_claim: bool, prompt: str | None
) -> None:
    """Claim the best item of a source for an agent.

    Exit code 1 when there is none. With --prompt, prints that text and the item as an agent should
    read them; text that strangers may have written is fenced.
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
    "--outcome",
    required=True,
    type=click.Choice(["success", "failure", "partial"]),
    help="How the work ended.",
)
@click.option(
    "--summary", required=True, type=Text(), help="The result in one sentence: text, @file or -."
)
@click.option("--details", type=Text(), help="The result in detail: text, @file or -.")
@click.option(
    "--artifact", "artifacts", multiple=True, help="A pull request or a commit; repeatable."
)
@click.option("--error", type=Text(), help="What went wrong: text, @file or -.")
@_claim
@config_option
def done(session: "Session", /, name: str, item: str, agent: str, **result: Any) -> None:
    """Report how the work on an item ended.

    Exit code 7 when the claim is lost.
    """
    source_deeds.report(session, name, item, agent, result)


@source.member("release", example="rota source release github:octocat/hello github-7 --agent smith")
@_source
@_item
@_agent
@click.option("--reason", help="Why it is given back.")
@click.option("--comment", is_flag=True, help="Also write a comment at the source.")
@_claim
@config_option
def release(session: "Session", /, name: str, item: str, agent: str, **how: Any) -> None:
    """Give an item back to its source.

    Exit code 7 when the agent does not hold it any more.
    """
    source_deeds.release(session, name, item, agent, **how)


@source.member("poll", example="rota source poll github:octocat/hello")
@_source
@config_option
def poll(session: "Session", /, name: str) -> None:
    """Tend a repository once, as a server does all the time.

    Prints what has changed.
    """
    from rota.cli.source_poll import poll as poll_now

    poll_now(session, name)


@source.member("reset-settle", example="rota source reset-settle github:octocat/hello")
@_source
@config_option
def reset_settle(session: "Session", /, name: str) -> None:
    """Let claims on a tracker wait as configured again.

    A tracker that was seen to show writes late is treated as slow from then on: claims wait longer,
    and `source list` says so. Use this when it is quick again; every server notices it. Should the
    tracker still be slow, it is noticed as before.
    """
    from rota.cli.source_patience import reset

    reset(session, name)
