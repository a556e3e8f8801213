"""`label-state`: the same commands about issues, with that tool's spelling."""

import click

from rota import __version__
from rota.cli import issue_care, issue_deeds
from rota.cli.parsing import Amount
from rota.cli.session import Group, Session, config_option, group, shared_options

_issue = click.argument("name", metavar="REPO#N")


@click.group(
    "label-state",
    cls=Group,
    epilog="\b\nExample: label-state claim octocat/hello#7\n\nIt is `rota issue` under another"
    " name; see `rota --help` for exit codes and --json.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="label-state (rota %(version)s)")
@shared_options
@click.pass_context
def label_state(context: click.Context) -> None:
    """Claim issues by labels and comments that everybody sees.

    REPO is OWNER/REPO, or only the repository's name if one source has that name.
    """
    context.ensure_object(Session)


repo = group("repo", "Pause whole repositories, and resume them.", "label-state repo list")
label_state.add_command(repo)


@label_state.member("claim", example="label-state claim octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Take it from its holder.")
@config_option
def claim(session: Session, /, name: str, force: bool) -> None:
    """Claim an issue for yourself.

    Agents stay away until you release it. Exit code 1 when it cannot be claimed.
    """
    issue_deeds.claim_as_person(session, name, force=force)


@label_state.member("release", example="label-state release octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Release it even if somebody else holds it.")
@config_option
def release(session: Session, /, name: str, force: bool) -> None:
    """Give an issue back, so that agents may take it again."""
    issue_deeds.release_as_person(session, name, force=force)


@label_state.member("status", example="label-state status octocat/hello#7")
@_issue
@config_option
def status(session: Session, /, name: str) -> None:
    """Show who holds an issue, and whether agents may take it."""
    issue_deeds.status(session, name)


@label_state.member("dedup-check", example="label-state dedup-check octocat/hello#7")
@_issue
@config_option
def dedup_check(session: Session, /, name: str) -> None:
    """Check whether an issue may be picked up.

    Exit code 1 when it may not.
    """
    issue_deeds.dedup_check(session, name)


@label_state.member("sweep-claims", example="label-state sweep-claims --max-age-hours 8 --dry-run")
@click.argument("repos", metavar="[REPO]...", nargs=-1)
@click.option(
    "--max-age-hours",
    type=Amount(0),
    help="Claims of other fleets are stale after this much silence.  [default: 4]",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
@config_option
def sweep_claims(
    session: Session, /, repos: tuple[str, ...], max_age_hours: float | None, dry_run: bool
) -> None:
    """End stale claims, and repair labels.

    Without REPO, in all configured repositories.
    """
    issue_care.sweep(session, repos, max_age_hours, dry_run)


@repo.member("pause", example="label-state repo pause octocat/hello")
@click.argument("name", metavar="REPO")
def pause(session: Session, /, name: str) -> None:
    """Stop agents from taking issues of a repository."""
    issue_care.set_paused(session, name, True)


@repo.member("resume", example="label-state repo resume octocat/hello")
@click.argument("name", metavar="REPO")
def resume(session: Session, /, name: str) -> None:
    """Let agents take issues of a paused repository again.

    Exit code 1 when the repository was not paused.
    """
    issue_care.set_paused(session, name, False)


@repo.member("list", example="label-state repo list")
@click.argument("name", metavar="[REPO]", required=False)
def list_paused(session: Session, /, name: str | None) -> None:
    """List the paused repositories.

    Exit code 1 when REPO is given and is not paused.
    """
    issue_care.list_paused(session, name)
