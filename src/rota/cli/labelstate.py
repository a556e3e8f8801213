"""`label-state`: the same commands about issues, with that tool's spelling."""

import click

from rota import __version__
from rota.cli import issue_care, issue_deeds
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
    """Claims on issues, as labels and comments that everybody can see.

    REPO is OWNER/REPO, or the repository's name where one source is called so.
    """
    context.ensure_object(Session)


repo = group("repo", "Take a whole repository offline from the fleet.", "label-state repo list")
label_state.add_command(repo)


@label_state.member("claim", example="label-state claim octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Take it away from whoever has it.")
@config_option
def claim(session: Session, /, name: str, force: bool) -> None:
    """Work on an issue yourself: agents stay away until you release it."""
    issue_deeds.claim_as_person(session, name, force=force)


@label_state.member("release", example="label-state release octocat/hello#7")
@_issue
@click.option("--force", is_flag=True, help="Also what somebody else has.")
@config_option
def release(session: Session, /, name: str, force: bool) -> None:
    """Give an issue back, so that agents may take it."""
    issue_deeds.release_as_person(session, name, force=force)


@label_state.member("status", example="label-state status octocat/hello#7")
@_issue
@config_option
def status(session: Session, /, name: str) -> None:
    """Show how an issue stands."""
    issue_deeds.status(session, name)


@label_state.member("dedup-check", example="label-state dedup-check octocat/hello#7")
@_issue
@config_option
def dedup_check(session: Session, /, name: str) -> None:
    """Ask whether an issue may be picked up; exit code 1 when not."""
    issue_deeds.dedup_check(session, name)


@label_state.member("sweep-claims", example="label-state sweep-claims --max-age-hours 8 --dry-run")
@click.argument("repos", metavar="[REPO]...", nargs=-1)
@click.option("--max-age-hours", type=click.FloatRange(0), help="[default: 4]")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@config_option
def sweep_claims(
    session: Session, /, repos: tuple[str, ...], max_age_hours: float | None, dry_run: bool
) -> None:
    """End stale claims, and mend labels; without REPO, of all that are configured."""
    issue_care.sweep(session, repos, max_age_hours, dry_run)


@repo.member("pause", example="label-state repo pause octocat/hello")
@click.argument("name", metavar="REPO")
def pause(session: Session, /, name: str) -> None:
    """Let no agent take issues of a repository."""
    issue_care.set_paused(session, name, True)


@repo.member("resume", example="label-state repo resume octocat/hello")
@click.argument("name", metavar="REPO")
def resume(session: Session, /, name: str) -> None:
    """Let agents take its issues again."""
    issue_care.set_paused(session, name, False)


@repo.member("list", example="label-state repo list")
@click.argument("name", metavar="[REPO]", required=False)
def list_paused(session: Session, /, name: str | None) -> None:
    """List the paused repositories; exit code 1 when the one that is named is not paused."""
    issue_care.list_paused(session, name)
