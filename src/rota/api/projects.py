"""Projects: groups of items."""

import msgspec

from rota.api import schemas, wire
from rota.api.answers import Answer, json_answer
from rota.api.bodies import NewProject, PageQuery, ProjectChange
from rota.api.call import Call
from rota.api.routing import endpoint
from rota.model.access import DISPATCH, READ

TAG = "projects"


@endpoint(
    "POST", "/projects", scope=DISPATCH, tag=TAG, gives=schemas.Project, status=201,
    sets=("Location",),
)  # fmt: skip
async def create_project(call: Call, body: NewProject) -> Answer:
    """Create a project."""
    project = await call.ledger.queue.create_project(body.name, body.external_ref, actor=call.actor)
    return json_answer(wire.project_of(project), 201, {"location": f"/projects/{project.id}"})


@endpoint(
    "GET", "/projects", scope=READ, tag=TAG, gives=list[schemas.Project], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_projects(call: Call, query: PageQuery) -> Answer:
    """List projects, oldest first."""
    page = await call.ledger.views.projects(query.limit, query.cursor)
    headers = call.next_page(cursor=page.cursor) if page.cursor else None
    return json_answer([wire.project_of(one) for one in page.projects], 200, headers)


@endpoint("GET", "/projects/{id}", scope=READ, tag=TAG, gives=schemas.Project)
async def show_project(call: Call) -> Answer:
    """Show one project."""
    return json_answer(wire.project_of(await call.ledger.views.project(call.id)))


@endpoint("PATCH", "/projects/{id}", scope=DISPATCH, tag=TAG, gives=schemas.Project)
async def change_project(call: Call, body: ProjectChange) -> Answer:
    """Change a project's name or external reference."""
    given = {"name": body.name, "external_ref": body.external_ref}
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    project = await call.ledger.queue.update_project(call.id, changes, actor=call.actor)
    return json_answer(wire.project_of(project))


ENDPOINTS = (create_project, list_projects, show_project, change_project)
