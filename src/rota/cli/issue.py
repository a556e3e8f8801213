"""Issues of a repository: who works on them, and keeping agents away from them."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli import issue_care, issue_deeds
from rota.cli.parsing import Span
from rota.cli.session import config_option, group

if TYPE_CHECKING:
    from rota.cli.session import Session

issue = group(
    "issue",
    "Issues of a repository: claim, hold, look, tidy up.\n\nISSUE is OWNER/REPO#NUMBER,"
    " REPO#NUMBER where one source is called so, or the address of its page. These commands speak"
    " to the tracker and open the database, also beside a running server.",
    "rota issue status octocat/hello#7",
)

_issue = click.argument("name", metavar="ISSUE")
_agent = click.option("--agent", help="Do it as this agent; else as yourself.")
_firing = click.option("--firing-id", "firing", help="The agent's run.  [default: a new one]")
_max_age = click.option(
    "--max-age-hours",
    type=click.FloatRange(0),
    help="Claims of other fleets are stale when silent for so long.  [default: 4]",
)


@issue.member("claim", example="rota issue claim octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Take it away from whoever has it.")
@_agent
@_firing
@click.option("--lease", type=Span(), help="With --agent: for how long.  [default: 4h]")
@config_option
def claim(session: "Session", /, name: str, force: bool, agent: str | None, **how: Any) -> None:
    """Work on an issue yourself: agents stay away until you release it.

    With --agent it is claimed for that agent, in the ledger and on the tracker. Exit code 1 when
    it cannot be claimed.
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
@click.option("--force", is_flag=True, help="Also what somebody else has.")
@_agent
@click.option("--firing-id", "firing", help="Only if this run of the agent has it.")
@click.option("--outcome", help="How it went: success, failure, partial, or a word of your own.")
@click.option("--pr", help="Address of the pull request that answers the issue.")
@click.option("--reason", help="What to say on the issue.")
@config_option
def release(session: "Session", /, name: str, force: bool, agent: str | None, **how: Any) -> None:
    """Give an issue back, so that agents may take it.

    With --agent it ends that agent's claim: with --pr it is finished, without it is ready again,
    or failed when the outcome is failure or partial. Exit code 7 when it is not the agent's.
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
    """Keep agents away from an issue, by the label do-not-pickup."""
    issue_deeds.hold(session, name)


@issue.member("unhold", example="rota issue unhold octocat/hello#7")
@_issue
@config_option
def unhold(session: "Session", /, name: str) -> None:
    """Take the label do-not-pickup off."""
    issue_deeds.unhold(session, name)


@issue.member("status", example="rota issue status octocat/hello#7 --json")
@_issue
@config_option
def status(session: "Session", /, name: str) -> None:
    """Show how an issue stands: who has it, and whether an agent may take it."""
    issue_deeds.status(session, name)


@issue.member("dedup-check", example="rota issue dedup-check octocat/hello#7")
@_issue
@config_option
def dedup_check(session: "Session", /, name: str) -> None:
    """Ask whether an issue may be picked up; exit code 1 when not."""
    issue_deeds.dedup_check(session, name)


@issue.member("approve", example="rota issue approve octocat/hello#7")
@_issue
@config_option
def approve(session: "Session", /, name: str) -> None:
    """Say that you have read an issue, and agents may work from its text as it stands."""
    issue_deeds.approve(session, name)


@issue.member("reopen", example="rota issue reopen octocat/hello#7")
@_issue
@config_option
def reopen(session: "Session", /, name: str) -> None:
    """Let a finished issue be worked again; exit code 1 when it was not finished."""
    issue_deeds.reopen(session, name)


@issue.member("whois", example="rota issue whois octocat --repo octocat/hello")
@click.argument("login")
@click.option("--repo", help="On whose tracker.  [default: the one that is configured]")
@config_option
def whois(session: "Session", /, login: str, repo: str | None) -> None:
    """Find the number of an account, to put into 'trusted' in rota.yaml."""
    from rota.cli.accounts import find_account

    found, host = find_account(session, login, repo)
    data = {"id": found.id, "login": found.login, "host": host}
    session.output.facts(data, data.items())


@issue.member("stale", example="rota issue stale octocat/hello")
@click.argument("repos", metavar="[REPO]...", nargs=-1)
@_max_age
@config_option
def stale(session: "Session", /, repos: tuple[str, ...], max_age_hours: float | None) -> None:
    """List claims that nobody keeps any more; exit code 1 when there are none.

    REPO is OWNER/REPO; without any, all that rota.yaml names.
    """
    issue_care.stale(session, repos, max_age_hours)


@issue.member("sweep", example="rota issue sweep octocat/hello --max-age-hours 8 --dry-run")
@click.argument("repos", metavar="[REPO]...", nargs=-1)
@_max_age
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@config_option
def sweep(session: "Session", /, repos: tuple[str, ...], **how: Any) -> None:
    """End claims whose runs are dead, ask after silent ones, and mend labels.

    REPO is OWNER/REPO; without any, all that rota.yaml names. A running server does this by itself.
    """
    issue_care.sweep(session, repos, **how)


@issue.member("pause", example="rota issue pause octocat/hello")
@click.argument("repo")
def pause(session: "Session", /, repo: str) -> None:
    """Let no agent take issues of a repository; what is being worked on goes on.

    REPO is OWNER/REPO, or its last part where rota.yaml names such a repository.
    """
    issue_care.demand_repository(session, repo)
    issue_care.set_paused(session, repo, True)


@issue.member("resume", example="rota issue resume octocat/hello")
@click.argument("repo")
def resume(session: "Session", /, repo: str) -> None:
    """Let agents take issues of a paused repository again; exit code 1 when it was not paused."""
    issue_care.set_paused(session, repo, False)


@issue.member("paused", example="rota issue paused")
@click.argument("repo", required=False)
def paused(session: "Session", /, repo: str | None) -> None:
    """List the paused repositories; exit code 1 when the one that is named is not paused."""
    issue_care.list_paused(session, repo)
