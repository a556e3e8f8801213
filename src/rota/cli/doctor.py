"""Is everything in order, and if not, what mends it."""

from typing import TYPE_CHECKING

import click

from rota.cli.ending import NEGATIVE
from rota.cli.session import command
from rota.cli.text import one_line
from rota.model.errors import InvalidInput, RotaError

if TYPE_CHECKING:
    from rota.cli.checks import Finding
    from rota.cli.session import Session


@command("doctor", example="rota doctor --fix")
@click.option("--fix", is_flag=True, help="Mend permissions, directory, schema, left-over files.")
def doctor(session: "Session", /, fix: bool) -> None:
    """Check that everything is in order; exit code 1 when something is not.

    Each line says ok, warn or fail, and what mends it.
    """
    findings, mended = _examined(session, fix)
    session.output.via = None
    if session.as_json:
        entries = [
            {"check": one.check, "status": one.status, "message": one.message, "fix": one.fix}
            for one in findings
        ]
        session.output.document(entries, mended=mended)
    else:
        _print(findings, mended)
    if any(one.status == "fail" for one in findings):
        raise click.exceptions.Exit(NEGATIVE)


def _examined(session: "Session", fix: bool) -> "tuple[list[Finding], list[str]]":
    from rota.cli.checks import FAIL, Finding, examine

    try:
        settings = session.settings
    except InvalidInput as error:
        return [Finding("environment", FAIL, error.message, "correct it and ask again")], []
    findings = examine(settings)
    mended = [done for one in findings if (done := _mended(one))] if fix else []
    return (examine(settings) if mended else findings), mended


def _mended(finding: "Finding") -> str | None:
    if finding.mend is None:
        return None
    try:
        finding.mend()
    except (OSError, RotaError):
        return None  # the second look will say what is left
    return finding.message


def _print(findings: "list[Finding]", mended: list[str]) -> None:
    for message in mended:
        print(f"mended  {one_line(message)}")
    for one in findings:
        print(f"{one.status:<6}  {one_line(f'{one.check}: {one.message}')}")
        if one.fix and one.status != "ok":
            print(f"        {one_line(one.fix)}")
