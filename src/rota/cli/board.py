"""The board in the terminal."""

import asyncio
import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from rota.cli.parsing import Count
from rota.cli.project_names import ProjectName
from rota.cli.session import command

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.terminal.app import BoardApp
    from rota.terminal.board import BoardClient
    from rota.terminal.filters import Filters
    from rota.terminal.transport import Told


@command("board", example="rota board --agent smith --label urgent")
@click.option("--project", "project_id", type=ProjectName(), help="Only items of this project.")
@click.option("--agent", help="Only items of this agent.")
@click.option("--type", help="Only items of this type.")
@click.option("--label", help="Only items with this label.")
@click.option("--search", "q", help="Only items whose title or body contains this.")
@click.option(
    "--once", is_flag=True, help="Print the board as text once and exit; the default in a pipe."
)
@click.option(
    "--limit", type=Count(1, 1000), default=20, show_default=True,
    help="With --once: at most this many items per column.",
)  # fmt: skip
@click.option("--light", is_flag=True, help="Dark text on a light background.")
def board(
    session: "Session", /, once: bool, limit: int, light: bool, **filters: str | None
) -> None:
    """Show the board in the terminal, and move its cards.

    Press ? there to see the keys. The board follows the ledger by itself.
    """
    from rota.terminal.filters import Filters

    wanted = Filters(**filters)
    if once or session.as_json or not _has_screen():
        asyncio.run(_print(session, wanted, limit))
    else:
        asyncio.run(_show(session, _app(), wanted, light))


def _has_screen() -> bool:
    """A dumb terminal, such as an editor's, moves no cursor: it would be filled with rubbish."""
    is_dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return sys.stdout.isatty() and sys.stdin.isatty() and not is_dumb


def _app() -> "type[BoardApp]":
    try:
        from rota.terminal.app import BoardApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise click.ClickException(
            "the board needs a package that is not installed: pip install 'rota[board]'"
            " (without it, `rota board --once` prints the board as text)"
        ) from None
    return BoardApp


def _client(session: "Session") -> "tuple[BoardClient, Told]":
    from rota.cli.destination import application, server_of
    from rota.client.pooled import PooledTransport
    from rota.client.threaded import Threaded
    from rota.terminal.board import BoardClient
    from rota.terminal.transport import Told

    url = server_of(session)
    told = Told(Threaded(application(session)) if url is None else PooledTransport(url))
    return BoardClient(actor=session.actor_name, transport=told), told


async def _print(session: "Session", wanted: "Filters", limit: int) -> None:
    from rota.model.work import MAX_PAGE
    from rota.terminal.board import Board
    from rota.terminal.plain import document, text_lines

    client, _ = _client(session)
    async with client:
        shown = Board(client, wanted, limit, ended=MAX_PAGE)
        await shown.load()
    if session.as_json:
        session.output.document(document(shown))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(text_lines(shown, width=width)))


async def _show(
    session: "Session", board_app: "type[BoardApp]", wanted: "Filters", light: bool
) -> None:
    import logging

    logging.disable(logging.CRITICAL)  # log lines would be written across the board
    client, told = _client(session)
    async with client:
        app = board_app(client, told, wanted, session.output.via or "", light=light)
        await app.board.load()  # an error while reading is reported without a screen
        await app.run_async()
    if app.failure is not None:
        raise app.failure
