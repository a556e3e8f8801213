"""What an agent must know before it works here."""

from typing import TYPE_CHECKING

import click

from rota.cli.program import with_its_ledger
from rota.cli.session import command
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.mcp.prime import Standing


@command("prime", example="rota prime --agent smith")
@click.option("--agent", help="Print what is ready for this agent, and what it holds.")
def prime(session: "Session", /, agent: str | None) -> None:
    """Print what a coding agent must know to work here.

    Markdown of at most 2,000 tokens: how to work with Rota, and which items are ready.
    """
    from rota.mcp.prime import text

    standing = stand(session, agent)
    if session.as_json:
        session.output.document(standing.document(with_its_ledger(session)))
    else:
        print(text(standing, with_its_ledger(session)), end="")


def stand(session: "Session", agent: str | None) -> "Standing":
    """Errors become part of the text: an agent has to know the rules all the same."""
    from rota.cli.desks import run
    from rota.cli.seats import has_ledger
    from rota.mcp.prime import Standing
    from rota.model.work import check_name

    if agent is not None:
        check_name(agent, "agent")
    if not has_ledger(session):
        nothing = "there is no ledger here yet: `rota add` or `rota up` makes one"
        return Standing(agent, "none", server=False, ready=[], trouble=nothing)
    try:
        return run(_looked(session, agent))
    except RotaError as error:
        return Standing(agent, "not reached", server=False, ready=[], trouble=error.message)


async def _looked(session: "Session", agent: str | None) -> "Standing":
    from rota.cli.seats import seated
    from rota.mcp.prime import look

    async with seated(session, agent) as (seat, ledger):
        return await look(seat, ledger)
