"""Tokens for the API."""

from typing import TYPE_CHECKING

import click

from rota.cli.output import column, time_column
from rota.cli.parsing import LookedUp, Moment
from rota.cli.session import group
from rota.client.project_ids import is_id
from rota.model.access import AGENT_PREFIX
from rota.model.clock import SystemClock, to_text
from rota.model.errors import InvalidInput, NoLedger

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.client import SyncWorkQueueClient

token = group("token", "Create, list and revoke API tokens.", "rota token create ops --scope admin")

_COLUMNS = [
    column("id", whole=True),
    column("name", folds=True),
    column("scopes", folds=True, spare=4),
    time_column("created_at", "age"),
    time_column("expires_at", "expires", spare=3),
    time_column("revoked_at", "revoked", spare=5),
    time_column("last_used_at", "used", spare=2),
]


@token.member("create", example="rota token create smith --scope agent:smith --expires +90d")
@click.argument("name", required=False)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    help="What it allows: read, work, dispatch, admin or agent:NAME; repeatable.",
)
@click.option("--expires", "expires_at", type=Moment(), help="When it expires: ISO 8601, or +90d.")
def create(
    session: "Session", /, name: str | None, scopes: tuple[str, ...], expires_at: str | None
) -> None:
    """Create a token, and print its secret this once.

    Without NAME, it is named after its first scope: smith for agent:smith. The ledger keeps only a
    hash of the secret. From the first token on, every request to a server needs one: create the
    first with --scope admin, which may create others.
    """
    is_managed = "admin" in scopes or _is_managed(session)
    name = (scopes[0].removeprefix(AGENT_PREFIX) or scopes[0]) if name is None else name
    made = session.client.create_token(name, scopes, expires_at)
    if session.as_json:
        session.output.document(made)
        return
    print(made["secret"])
    session.output.say(f"token {made['id']} is made; keep the secret, it is not shown again")
    if not is_managed:
        session.output.say(
            "warning: every request to a server needs a token now, and no token may make or revoke"
            " others; make one that may straight on the database:"
            " rota token create NAME --scope admin --db DATABASE"
        )


def _is_managed(session: "Session") -> bool:
    """Whether a token may manage tokens. Asked before a token is made: afterwards the server may
    demand one that nobody here has."""
    now = to_text(SystemClock().now())
    try:
        found = session.client.tokens()
    except NoLedger:
        return False
    return any(
        "admin" in one["scopes"]
        and one["revoked_at"] is None
        and (one["expires_at"] is None or one["expires_at"] > now)
        for one in found
    )


@token.member("list", example="rota token list")
def list_tokens(session: "Session", /) -> None:
    """List tokens, without their secrets."""
    none = "no tokens: whoever reaches the server may do everything"
    session.output.table(session.client.tokens(), _COLUMNS, none)


class TokenName(LookedUp):
    """An id, or the name of one token that is not revoked."""

    name = "name|id"

    def id_of(self, client: "SyncWorkQueueClient", text: str) -> str:
        """A name that no token has is returned as it is; the server then finds none."""
        if is_id(text):
            return text
        live = [one for one in client.tokens() if one["revoked_at"] is None]
        found = [str(one["id"]) for one in live if one["name"] == text]
        if len(found) > 1:
            raise InvalidInput(
                f"token: {len(found)} are named {text[:100]!r}; give the id of one:"
                f" {', '.join(found[:5])}",
                field="token",
            )
        return found[0] if found else text


@token.member("revoke", example="rota token revoke smith")
@click.argument("token", metavar="NAME|ID", type=TokenName())
def revoke(session: "Session", /, token: str) -> None:
    """Revoke a token, so that it is not accepted any more."""
    session.client.revoke_token(token)
    session.output.facts({"id": token, "revoked": True}, [("revoked", token)])
