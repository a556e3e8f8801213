"""Groups of items."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rota.cli.output import column, time_column
from rota.cli.parsing import cleared
from rota.cli.project_names import named
from rota.cli.session import group
from rota.cli.text import local_time, one_line
from rota.model.errors import NoLedger, Refused

if TYPE_CHECKING:
    from rota.cli.session import Session

project = group("project", "Add, list and edit projects: groups of items.", "rota project list")

_COLUMNS = [
    column("id", whole=True),
    column("name", folds=True),
    column("external_ref", "reference", spare=2),
    time_column("created_at", "age"),
]
_REFERENCE = "Its reference elsewhere: a repository, a board"


def _id_of(session: "Session", project: str) -> str:
    return named(session.client, project) or project


_same_name = click.option(
    "--same-name", is_flag=True, help="Allow a name that another project has; then name them by id."
)


def _demand_free(session: "Session", name: str, but: str | None = None) -> None:
    """The ledger allows two projects of one name, but then `--project` could mean neither."""
    with suppress(NoLedger):
        for one in session.client.list_projects():
            if one["name"] == name and one["id"] != but:
                raise Refused(
                    f"there is a project {name[:100]!r} already: {one['id']}; use that one, or make"
                    " another with --same-name",
                    id=one["id"],
                )


def _show(session: "Session", one: dict[str, Any]) -> None:
    facts = [
        ("id", one["id"]),
        ("name", one_line(one["name"])),
        ("reference", one_line(one["external_ref"] or "")),
        ("created", local_time(one["created_at"])),
        ("updated", local_time(one["updated_at"])),
    ]
    session.output.facts(one, facts)


@project.member("add", example="rota project add 'Shopping list API' --ref github:acme/list")
@click.argument("name")
@click.option("--ref", "external_ref", help=f"{_REFERENCE}.")
@_same_name
def add(session: "Session", /, name: str, external_ref: str | None, same_name: bool) -> None:
    """Add a project, and print its id."""
    if not same_name:
        _demand_free(session, name)
    made = session.client.create_project(name, external_ref)
    session.output.line(made, made["id"])


@project.member("list", example="rota project list")
def list_projects(session: "Session", /) -> None:
    """List all projects."""
    session.output.table(session.client.list_projects(), _COLUMNS, "no projects")


@project.member("show", example="rota project show PROJECT")
@click.argument("project")
def show(session: "Session", /, project: str) -> None:
    """Show one project, by its name or id."""
    _show(session, session.client.get_project(_id_of(session, project)))


@project.member("edit", example="rota project edit PROJECT --name 'List API' --ref none")
@click.argument("project")
@click.option("--name", help="The new name.")
@click.option("--ref", "external_ref", help=f"{_REFERENCE}; none removes it.")
@_same_name
def edit(session: "Session", /, project: str, same_name: bool, **options: str | None) -> None:
    """Change the name or the reference of a project."""
    changes: dict[str, str | None] = {k: v for k, v in options.items() if v is not None}
    if not changes:
        raise click.UsageError("nothing to change; name at least one field")
    if changes.get("external_ref"):
        changes["external_ref"] = cleared(str(changes["external_ref"]))
    found = _id_of(session, project)
    if changes.get("name") and not same_name:
        _demand_free(session, str(changes["name"]), but=found)
    _show(session, session.client.update_project(found, **changes))
