"""A fleet of scripted agents on sample items, so that a newcomer sees the board move."""

import asyncio
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.demo_fleet import FLEET, MORE, SAMPLES, create_projects, submit
from rota.cli.parsing import Amount
from rota.cli.program import by_name
from rota.cli.session import Session, command
from rota.cli.text import one_line
from rota.config import LEDGER, StateDir
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.client import WorkQueueClient

USUAL_PORT = 8080
STARTING_SECONDS = 30.0
ENDING_SECONDS = 30.0
PAUSE_SECONDS = 5.0  # between items that come in later
_COMPLAINT = "rota: "


@command("demo", example="rota demo --seconds 20")
@click.option("--port", type=int, help="Port of the demo's server.  [default: 8080, or a free one]")
@click.option(
    "--seconds",
    type=Amount(0),
    default=60,
    show_default=True,
    help="How long the demo runs.",
)
@click.option(
    "--keep", is_flag=True, help="Keep its directory, to look around in or to go on with."
)
def demo(session: Session, port: int | None, seconds: float, keep: bool) -> None:
    """Show a fleet of scripted agents at work on sample items.

    Runs `rota up` on a rota.yaml in a temporary directory. Three agents wake every second, and each
    takes items of its own types; a fourth wakes by the clock. One run fails and is tried again, one
    item waits for another, and one ends with a question for a person.
    """
    with _home(keep) as home, _server(home, port) as url:
        words = (
            f"The board is at {url}/ (the demo ends after {seconds:g} seconds, or with Ctrl-C)\n"
        )
        session.output.stream({"demo": {"url": url, "directory": str(home)}}, words)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_asked(url, lambda client: _play(client, session, seconds)))
        asyncio.run(_asked(url, lambda client: _sum_up(client, session)))
    if keep:
        up = shlex.join([*by_name(), "up"])
        session.output.say(f"\nAll of it is in {home}. To go on:  cd {home} && {up}")


@contextlib.contextmanager
def _home(keep: bool) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="rota-demo-"))
    try:
        (home / "rota.yaml").write_text(FLEET)
        yield home
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


# the server


@contextlib.contextmanager
def _server(home: Path, port: int | None) -> Iterator[str]:
    """`rota up` in its own process, as a user would run it. Yields its address."""
    with (home / "server.log").open("wb") as log, _ended_by_signals():
        server = subprocess.Popen(
            [sys.executable, "-m", "rota.cli.demo_server", *_arguments(home, port)],
            cwd=home,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the demo; `_end` stops the server
        )
        try:
            yield _url_of(server, home)
        finally:
            _end(server)


def _arguments(home: Path, port: int | None) -> list[str]:
    state = home / ".rota"
    place = ["--state-dir", str(state), "--db", str(state / LEDGER)]
    address = ["--host", "127.0.0.1", "--port", str(_port() if port is None else port)]
    return [*place, *address, "--config", str(home / "rota.yaml")]


def _port() -> int:
    """The usual port, or 0 for any other: the demo must not fail because a server runs."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", USUAL_PORT))
        except OSError:
            return 0
    return USUAL_PORT


def _environment() -> dict[str, str]:
    """Without variables that point to a real database or server."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ROTA_") and name not in ("DATABASE_URL", "PORT")
    }


def _url_of(server: "subprocess.Popen[bytes]", home: Path) -> str:
    deadline = time.monotonic() + STARTING_SECONDS
    while (found := StateDir(home / ".rota").running()) is None:
        if server.poll() is not None or time.monotonic() > deadline:
            said = _last_words((home / "server.log").read_text(errors="replace"))
            raise RotaError(f"the demo's server did not start: {said}")
        time.sleep(0.05)  # another process, whose file is all there is to watch
    return found.url


def _last_words(log: str) -> str:
    """What it complained of as a command does, without the name that ours has as well."""
    complaints = [line for line in log.splitlines() if line.startswith(_COMPLAINT)]
    return one_line(complaints[-1].removeprefix(_COMPLAINT) if complaints else log[-500:])


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Its runs finish first."""
    if server.stdin is not None:
        server.stdin.close()
    try:
        server.wait(ENDING_SECONDS)
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM, and SIGHUP from a closed terminal, end the demo as Ctrl-C does. They raise SIGINT
    because an event loop handles that signal in good order, unlike an exception at an arbitrary
    point."""

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    former = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


# the story


async def _asked(
    url: str, part: "Callable[[WorkQueueClient], Coroutine[None, None, None]]"
) -> None:
    from rota.client import WorkQueueClient

    async with WorkQueueClient(url, actor="demo") as client:
        await part(client)


async def _play(client: "WorkQueueClient", session: Session, seconds: float) -> None:
    from rota.cli.demo_story import Story

    story = Story(client, session.output)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as parts:
            parts.create_task(story.tell())
            parts.create_task(_bring_work(client))


async def _bring_work(client: "WorkQueueClient") -> None:
    projects = await create_projects(client)
    await submit(client, SAMPLES, projects)
    for sample in itertools.cycle(MORE):
        await asyncio.sleep(PAUSE_SECONDS)
        await submit(client, [sample], projects)


async def _sum_up(client: "WorkQueueClient", session: Session) -> None:
    from rota.cli.demo_story import sum_up

    await sum_up(client, session.output)
