"""A fleet of scripted agents on sample items, so that a newcomer sees the board move."""

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.session import Session, command
from rota.config import StateDir
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.client import ClaimedItem, WorkQueueClient

STARTING_SECONDS = 30.0
PAUSE_SECONDS = (0.4, 1.6)  # how long a scripted agent "works"

SAMPLES = [
    ("bug_fix", "The login page forgets the language", 2),
    ("bug_fix", "Totals are off by a cent on invoices with discounts", 1),
    ("code_review", "Review: retry with backoff in the mail sender", 3),
    ("docs", "Describe the new export format", 4),
    ("code_review", "Review: index for the orders table", 2),
    ("bug_fix", "Upload of empty files hangs", 2),
    ("docs", "Screenshots of the settings page are old", 5),
    ("chore", "Rotate the staging certificates", 3),
    ("chore", "Remove the feature flag for the old search", 4),
    ("code_review", "Review: currency rounding", 1),
    ("bug_fix", "Time zone of reminders is wrong in winter", 3),
    ("docs", "Explain how to restore a backup", 3),
]
AGENTS = {
    "ada": ["bug_fix", "chore"],
    "brin": ["code_review"],
    "cleo": ["docs", "chore"],
    "dax": ["bug_fix", "code_review"],
}


@command("demo", example="rota demo --port 8090")
@click.option("--port", type=int, default=8080, show_default=True, help="Where to serve it.")
@click.option("--seconds", type=float, default=None, help="End by itself after this long.")
def demo(session: Session, port: int, seconds: float | None) -> None:
    """Show a working fleet: a server of its own, sample items, four scripted agents.

    Everything lives in a temporary directory and is gone afterwards. One agent
    blocks an item, one fails some, and failed items are retried, so that every
    column of the board has something to show.
    """
    with tempfile.TemporaryDirectory(prefix="rota-demo-") as directory, _server(directory, port):
        url = StateDir(Path(directory)).running()
        if url is None:
            raise RotaError("the demo's server went away; see what it printed above")
        click.echo("Agents at work; watch the board. Ctrl-C ends the demo and removes its data.")
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_play(url.url, seconds))


@contextlib.contextmanager
def _server(directory: str, port: int) -> Iterator[None]:
    """`rota up` in a process of its own, as anybody would run it."""
    # The database is named, because DATABASE_URL may point to one that people live from.
    database = str(Path(directory) / "rota.db")
    arguments = ["up", "--state-dir", directory, "--db", database, "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, "-m", "rota.cli", *arguments],
        start_new_session=True,  # Ctrl-C is for the agents first; the server is ended below
    )
    try:
        _wait_until_it_serves(server, directory)
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _wait_until_it_serves(server: "subprocess.Popen[bytes]", directory: str) -> None:
    import time

    deadline = time.monotonic() + STARTING_SECONDS
    while StateDir(Path(directory)).running() is None:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RotaError("the demo's server did not start; is the port taken? Try --port 0")
        time.sleep(0.05)  # another process: there is nothing to wait on but its file


async def _play(url: str, seconds: float | None) -> None:
    from rota.client import WorkQueueClient

    async with WorkQueueClient(url, actor="demo") as client:
        await _submit(client, SAMPLES)
        parts: list[Any] = [_agent(url, name, types) for name, types in AGENTS.items()]
        parts.append(_dispatcher(client))
        playing = asyncio.gather(*parts)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(playing, seconds)


async def _submit(client: "WorkQueueClient", samples: list[tuple[str, str, int]]) -> None:
    await client.work_add_many(
        [{"type": kind, "description": text, "priority": rank} for kind, text, rank in samples]
    )


async def _agent(url: str, name: str, types: list[str]) -> None:
    from rota.client import WorkQueueClient

    async with (
        WorkQueueClient(url, actor=name) as client,
        client.work(agent=name, types=types, lease_seconds=15) as work,
    ):
        async for item in work:
            await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
            verdict = await _judge(item)
            click.echo(f"  {name:5} {verdict:10} {item.description}")


async def _judge(item: "ClaimedItem") -> str:
    """Mostly it works out; now and then it does not, as in life."""
    luck = random.random()
    if luck < 0.10:
        await item.block("Waiting for an answer: which of the two formats is meant?")
        return "blocked"
    if luck < 0.22 and item.attempts < 2:
        await item.fail("The tests failed; see the log")
        return "failed"
    if luck < 0.32:
        await item.hand_over("https://example.org/pull/42", "Ready for a look")
        return "in review"
    await item.complete("Done, with tests")
    return "completed"


async def _dispatcher(client: "WorkQueueClient") -> None:
    """A person's part: answers, reviews, retries, and new work every few seconds."""
    while True:
        await asyncio.sleep(2.5)
        for item in await client.work_list(status="blocked", limit=1):
            await client.release(item["id"])
        for item in await client.work_list(status="failed", limit=1):
            await client.retry(item["id"])
        for item in await client.work_list(status="in_review", limit=1):
            await client.complete(item["id"])
        await _submit(client, random.sample(SAMPLES, 3))
