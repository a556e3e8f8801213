"""Whether everything is in order, and if not, what mends it."""

from typing import TYPE_CHECKING

import click

from rota.cli.ending import GONE, NEGATIVE, is_nowhere
from rota.cli.findings import FAIL, Finding, show
from rota.cli.session import command, config_option
from rota.cli.text import one_line
from rota.model.errors import InvalidInput, RotaError

if TYPE_CHECKING:
    from rota.cli.session import Session


@command("doctor", example="rota doctor --fix")
@click.option(
    "--fix", is_flag=True, help="Fix permissions, state directory, schema and left-over files."
)
@config_option
def doctor(session: "Session", /, fix: bool) -> None:
    """Check this machine's setup, and say how to fix it.

    Each line says ok, warn or fail, and what fixes the problem. Exit code 1 when a check fails.
    """
    if session.url:
        raise click.UsageError(
            "--url is not for this command: it looks at this machine; with ROTA_URL it also looks"
            " whether that server answers"
        )
    findings, mended = _examined(session, fix)
    session.output.via = None
    if session.as_json:
        session.output.document([one.told() for one in findings], mended=mended)
    else:
        for message in mended:
            print(f"mended  {one_line(message)}")
        show(findings)
    if any(one.status == "fail" for one in findings):
        raise click.exceptions.Exit(NEGATIVE)


def _examined(session: "Session", fix: bool) -> tuple[list[Finding], list[str]]:
    from rota.cli.checks import examine

    if is_nowhere():
        return [Finding("environment", FAIL, GONE, "cd to the project")], []
    try:
        settings = session.settings
    except InvalidInput as error:
        return [Finding("environment", FAIL, error.message, "correct it and ask again")], []
    findings = examine(settings)
    mended = [done for one in findings if (done := _mended(one))] if fix else []
    return (examine(settings) if mended else findings), mended


def _mended(finding: Finding) -> str | None:
    if finding.mend is None:
        return None
    try:
        finding.mend()
    except (OSError, RotaError):
        return None  # the second examination reports what is left
    return finding.message
