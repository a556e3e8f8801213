"""A first `rota.yaml`."""

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.session import command, config_option, named_once
from rota.model.errors import InvalidInput, Refused
from rota.surroundings import environ, own_command

if TYPE_CHECKING:
    from rota.cli.session import Session

USUAL = "rota.yaml"  # where commands look by default
EXAMPLES = ("command", "claude", "github")


@command("init", example="rota init --example claude")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@config_option
@click.option(
    "--example",
    type=click.Choice(EXAMPLES),
    default="command",
    show_default=True,
    help="What the file runs: your own program, Claude on the queue, or Claude on issues.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(session: "Session", /, file: Path | None, example: str, force: bool) -> None:
    """Write a first rota.yaml.

    The file works as it is; its comments say what to change.
    """
    text = _starter(example)
    file = named_once(session, file) or Path(environ.get("ROTA_CONFIG") or USUAL)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise Refused(f"{file} is there already; --force overwrites it", file=str(file)) from None
    except OSError as error:
        if not force:
            with suppress(OSError):
                file.unlink()  # on a full disk it is there, and empty
        raise InvalidInput(f"{file} cannot be written: {error.strerror}", field="file") from None
    session.output.facts({"file": str(file), "example": example}, [("written", str(file))])
    named = "" if file == Path(USUAL) else f" --config {shlex.quote(str(file))}"
    start = "config reload" if not named and _server_runs(session) else f"up{named}"
    rota = own_command()
    session.output.say(f"Next: {rota} config check{named}, then {rota} {start}.")


def _server_runs(session: "Session") -> bool:
    from rota.config import StateDir

    with suppress(InvalidInput):  # a mistake in the environment is for `rota up` to report
        return StateDir(session.settings.state_dir).running() is not None
    return False


def _starter(name: str) -> str:
    from importlib.resources import files

    return files("rota.config").joinpath("starters", f"{name}.yaml").read_text("utf-8")
