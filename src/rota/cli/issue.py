"""Issues of a repository: who works on them, and keeping agents away from them."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli import issue_care, issue_deeds
from rota.cli.parsing import Amount, Span
from rota.cli.session import config_option, group

if TYPE_CHECKING:
    from rota.cli.session import Session

issue = group(
    "issue",
    "Claim, hold and inspect issues of a repository.\n\nISSUE is OWNER/REPO#NUMBER, the address of"
    " the issue's page, or REPO#NUMBER if only one source has that name. These commands call the"
    " tracker and open the database themselves, also beside a running server.",
    "rota issue status octocat/hello#7",
)

_issue = click.argument("name", metavar="ISSUE")
_agent = click.option("--agent", help="Act as this agent instead of as yourself.")
_firing = click.option(
    "--firing-id", "firing", help="With --agent: id of the agent's run.  [default: a new one]"
)
_max_age = click.option(
    "--max-age-hours",
    type=Amount(0),
    help="Claims of other fleets are stale after this much silence.  [default: 4]",
)


@issue.member("claim", example="rota issue claim octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Take it from its holder.")
@_agent
@_firing
@click.option("--lease", type=Span(), help="With --agent: how long the claim holds.  [default: 4h]")
@config_option
def claim(session: "Session", /, name: str, force: bool, agent: str | None, **how: Any) -> None:
    """Claim an issue for yourself, or for an agent.

    Agents stay away from your issue until you release it. With --agent, the issue is claimed for
    that agent, in the ledger and on the tracker. Exit code 1 when it cannot be claimed.
    """
    if agent is None:
        _only_with_agent(**how)
        issue_deeds.claim_as_person(session, name, force=force)
        return
    if force:
        raise click.UsageError("--force is for people: an agent does not take work from others")
    issue_deeds.claim_as_agent(session, name, agent=agent, **how)


@issue.member("release", example="rota issue release octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Release it even if somebody else holds it.")
@_agent
@click.option("--firing-id", "firing", help="With --agent: only if this run of the agent holds it.")
@click.option(
    "--outcome",
    help="With --agent: success, failure, partial, or a word of your own.  [default: success]",
)
@click.option("--pr", help="With --agent: address of the pull request that answers the issue.")
@click.option("--reason", help="With --agent: what to write on the issue.")
@config_option
def release(session: "Session", /, name: str, force: bool, agent: str | None, **how: Any) -> None:
    """Give an issue back, so that agents may take it again.

    With --agent, that agent's claim ends. The issue is then failed if the outcome is failure or
    partial, finished if the outcome is success and --pr is given, and ready again otherwise. Exit
    code 7 when the agent does not hold the issue.
    """
    if agent is None:
        _only_with_agent(**how)
        issue_deeds.release_as_person(session, name, force=force)
        return
    if force:
        raise click.UsageError("--force is for people; leave --agent out")
    how["outcome"] = how["outcome"] or "success"
    issue_deeds.release_as_agent(session, name, agent=agent, **how)


def _only_with_agent(**how: Any) -> None:
    given = [f"--{option.replace('firing', 'firing-id')}" for option, one in how.items() if one]
    if given:
        raise click.UsageError(f"{', '.join(given)}: only with --agent")


@issue.member("hold", example="rota issue hold octocat/hello#7")
@_issue
@config_option
def hold(session: "Session", /, name: str) -> None:
    """Keep agents away from an issue with a label.

    The label is do-not-pickup.
    """
    issue_deeds.hold(session, name)


@issue.member("unhold", example="rota issue unhold octocat/hello#7")
@_issue
@config_option
def unhold(session: "Session", /, name: str) -> None:
    """Remove the label do-not-pickup from an issue."""
    issue_deeds.unhold(session, name)


@issue.member("status", example="rota issue status octocat/hello#7 --json")
@_issue
@config_option
def status(session: "Session", /, name: str) -> None:
    """Show who holds an issue, and whether agents may take it."""
    issue_deeds.status(session, name)


@issue.member("dedup-check", example="rota issue dedup-check octocat/hello#7")
@_issue
@config_option
def dedup_check(session: "Session", /, name: str) -> None:
    """Check whether an issue may be picked up.

    Exit code 1 when it may not.
    """
    issue_deeds.dedup_check(session, name)


@issue.member("approve", example="rota issue approve octocat/hello#7")
@_issue
@config_option
def approve(session: "Session", /, name: str) -> None:
    """Approve the text of an issue for agents.

    You have read the issue, and agents may work from its text as it is now.
    """
    issue_deeds.approve(session, name)


@issue.member("reopen", example="rota issue reopen octocat/hello#7")
@_issue
@config_option
def reopen(session: "Session", /, name: str) -> None:
    """Let agents work on a finished issue again.

    Exit code 1 when the issue was not finished.
    """
    issue_deeds.reopen(session, name)


@issue.member("whois", example="rota issue whois octocat --repo octocat/hello")
@click.argument("login")
@click.option(
    "--repo", help="A repository on the account's tracker.  [default: the configured tracker]"
)
@config_option
def whois(session: "Session", /, login: str, repo: str | None) -> None:
    """Print the number of an account, for 'trusted' in rota.yaml."""
    from rota.cli.accounts import find_account

    found, host = find_account(session, login, repo)
    data = {"id": found.id, "login": found.login, "host": host}
    session.output.facts(data, data.items())


@issue.member("stale", example="rota issue stale octocat/hello")
@click.argument("repos", metavar="[REPO]...", nargs=-1)
@_max_age
@config_option
def stale(session: "Session", /, repos: tuple[str, ...], max_age_hours: float | None) -> None:
    """List claims that nobody keeps alive any more.

    Exit code 1 when there are none. REPO is OWNER/REPO; without REPO, all repositories that
    rota.yaml names.
    """
    issue_care.stale(session, repos, max_age_hours)


@issue.member("sweep", example="rota issue sweep octocat/hello --max-age-hours 8 --dry-run")
@click.argument("repos", metavar="[REPO]...", nargs=-1)
@_max_age
@click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
@config_option
def sweep(session: "Session", /, repos: tuple[str, ...], **how: Any) -> None:
    """End dead claims, ask about silent ones, repair labels.

    REPO is OWNER/REPO; without REPO, all repositories that rota.yaml names. A running server does
    this by itself.
    """
    issue_care.sweep(session, repos, **how)


@issue.member("pause", example="rota issue pause octocat/hello")
@click.argument("repo")
def pause(session: "Session", /, repo: str) -> None:
    """Stop agents from taking issues of a repository.

    Work in progress goes on. REPO is OWNER/REPO, or only the last part if rota.yaml names such a
    repository.
    """
    issue_care.demand_repository(session, repo)
    issue_care.set_paused(session, repo, True)


@issue.member("resume", example="rota issue resume octocat/hello")
@click.argument("repo")
def resume(session: "Session", /, repo: str) -> None:
    """Let agents take issues of a paused repository again.

    Exit code 1 when the repository was not paused.
    """
    issue_care.set_paused(session, repo, False)


@issue.member("paused", example="rota issue paused")
@click.argument("repo", required=False)
def paused(session: "Session", /, repo: str | None) -> None:
    """List the paused repositories.

    Exit code 1 when REPO is given and is not paused.
    """
    issue_care.list_paused(session, repo)
