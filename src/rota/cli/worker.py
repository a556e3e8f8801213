"""`rota worker`: runs an agent on a machine other than the server's."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from rota.cli.parsing import Count, Span
from rota.cli.session import command, config_option
from rota.cli.streams import unminded
from rota.cli.text import one_line, shortened
from rota.model.errors import InvalidInput, Refused
from rota.surroundings import environ

if TYPE_CHECKING:
    from pathlib import Path

    from rota.cli.session import Session
    from rota.client import WorkQueueClient
    from rota.model.fleet import AgentSpec, Limits
    from rota.model.schedules import Schedule
    from rota.model.wanted import WorkWanted

_MOST_WORKERS = 1_000  # of one agent, on one machine
_SAID_WIDTH = 100


@command(
    "worker",
    example="rota worker --url https://rota.example.org --agent smith --config rota.yaml --slots 2",
)
@config_option
@click.option("--agent", required=True, help="The agent to run; the configuration file says how.")
@click.option("--token", help="The server's token.  [env: ROTA_TOKEN]")
@click.option("--schedule", help="Use the prompt and the settings of this schedule of the agent.")
@click.option(
    "--slots",
    type=Count(1, 1000),
    help="How many items at once.  [default: as in the file]",
)
@click.option(
    "--type",
    "--types",
    "types",
    multiple=True,
    help="Only items of this type; repeatable.  [default: as in work_source of the file]",
)
@click.option(
    "--lease",
    type=Span(),
    default="5m",
    show_default=True,
    help="How long a claim holds after the worker is gone.",
)
@click.option(
    "--grace",
    type=Span(),
    default="60s",
    show_default=True,
    help="How long runs may go on after Ctrl-C or SIGTERM; a second one ends them at once.",
)
@click.option("--once", is_flag=True, help="Take at most one item; exit code 1 when there is none.")
def worker(session: "Session", /, **options: Any) -> None:
    """Run an agent on this machine, for a server.

    Claims items from a server or a database, runs the agent on them here, and reports the results.
    The rota.yaml of this machine says how the agent is run: program, working directory,
    environment, timeout, hooks. The log goes to the server while it is written. If a database is
    named (--db, DATABASE_URL) and no server, the log stays in the state directory.
    """
    import uvloop

    _configure_logging()
    url = _server(session)
    part = _configured(session, options["agent"], options["schedule"], options["types"])
    name = part.agent.name
    with (
        unminded(),
        _home(session, name) as home,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runs = runner.run(_work(session, url, part, home, options))
    if options["once"] and not runs:
        session.output.negative([], "nothing_ready", f"nothing was ready for {name}")


def _configure_logging() -> None:
    import logging

    from rota.config.logs import configure_logging

    configure_logging(logging.WARNING)


def _server(session: "Session") -> str | None:
    """The server's address; None where the database itself is named."""
    from rota.cli.destination import missing_file, no_ledger, server_of

    url = server_of(session)
    if url is not None:
        return url
    if not (session.database or environ.get("DATABASE_URL")):
        raise click.UsageError(
            "no server runs here; name one with --url or ROTA_URL, or a database with --db"
        )
    if (path := missing_file(session.settings.database)) is not None:
        raise no_ledger(path)  # it would wait for ever for work in a new one
    return None


def _client(session: "Session", url: str | None, token: str | None) -> "WorkQueueClient":
    from rota.cli.destination import opened
    from rota.client import WorkQueueClient
    from rota.client.threaded import InProcess

    if url is not None:
        return WorkQueueClient(url, token, actor=session.actor_name)
    transport = InProcess(opened(session.settings))
    return WorkQueueClient(actor=session.actor_name, transport=transport)


@dataclass(frozen=True)
class Part:
    """What this machine's file says of the agent."""

    agent: "AgentSpec"
    schedule: "Schedule | None"
    limits: "Limits"  # of one run
    wanted: "WorkWanted"  # which items it takes


def _configured(
    session: "Session", name: str, schedule: str | None, types: tuple[str, ...]
) -> Part:
    from rota.config.loading import load_fleet
    from rota.runner.budget import tighter

    file = session.settings.config
    if not file.exists():
        raise InvalidInput(
            f"there is no {file} here to say how {name!r} is run; `rota init` writes one, or name"
            " another with --config",
            field="config",
        )
    loaded = load_fleet(file, runs_here=True)
    for warning in loaded.warnings:
        session.output.say(warning)
    found = loaded.fleet.agent(name)
    if found is None:
        known = ", ".join(one.name for one in loaded.fleet.agents) or "none"
        raise InvalidInput(f"{file} has no agent {name!r}; it has {known}", field="agent")
    chosen = next((one for one in found.schedules if one.name == schedule), None)
    if schedule is not None and chosen is None:
        known = ", ".join(one.name for one in found.schedules) or "none"
        raise InvalidInput(f"{name} has no schedule {schedule!r}; it has {known}", field="schedule")
    limits = tighter(found.budget.per_run, loaded.fleet.budget.per_run)
    return Part(found, chosen, limits, _wanted(found, chosen, types))


def _wanted(
    agent: "AgentSpec", schedule: "Schedule | None", types: tuple[str, ...]
) -> "WorkWanted":
    """As on a server, unless types are named on the command line."""
    from rota.model.wanted import WorkWanted

    source = (schedule.work_source if schedule else None) or agent.work_source
    wanted = WorkWanted("queue") if source is None else WorkWanted.of(source)
    if wanted.kind != "queue" and not types:
        raise InvalidInput(
            f"{agent.name} takes its work from {wanted.in_words}, and a worker takes items of the"
            " queue alone: let a server run it, or name what it shall take here with --type",
            field="work_source",
        )
    return replace(wanted, types=types) if types else wanted


@contextmanager
def _home(session: "Session", agent: str) -> "Iterator[Path]":
    """A directory for this process alone. What a dead worker left in it is ours to tidy up; what a
    living one runs is not."""
    from rota.config import StateDir

    for number in range(_MOST_WORKERS):
        path = session.settings.state_dir / "workers" / f"{agent}-{number}"
        held = StateDir(path).occupied()
        try:
            held.__enter__()
        except Refused:
            continue
        try:
            yield path
        finally:
            held.__exit__(None, None, None)
        return
    raise Refused(f"{_MOST_WORKERS} workers of {agent} run on this machine; that is enough")


async def _work(
    session: "Session", url: str | None, part: Part, home: "Path", options: dict[str, Any]
) -> int:
    from rota.client.worker import Worker
    from rota.client.worker_run import Equipment
    from rota.model.clock import SystemClock
    from rota.runner import LocalRunner
    from rota.runner.redaction import variables_named_in

    await _tidy(session, home)
    async with AsyncExitStack() as opened:
        client = _client(session, url, options["token"])
        await opened.enter_async_context(client)
        runner = LocalRunner(
            home,
            environ=environ,
            clock=SystemClock(),
            allowed_hosts=session.settings.hook_hosts,
            secret_names=lambda: variables_named_in(asdict(part.agent)),
        )
        opened.callback(runner.close)
        one = Worker(
            Equipment(
                client,
                part.agent,
                part.schedule,
                runner,
                home / "runs",
                part.limits,
                _node(home),
            ),
            slots=options["slots"] or part.agent.max_concurrent,
            wanted=part.wanted,
            lease_seconds=options["lease"],
            once=options["once"],
            heard=lambda what, facts: _say(session, what, facts),
        )
        stop, at_once = asyncio.Event(), asyncio.Event()
        with _signals(stop, at_once):
            where = {"url": url or "its database", "pid": os.getpid()}
            _say(session, "working", {"agent": part.agent.name, **where})
            await one.work(stop, at_once, options["grace"])
        return one.runs


async def _tidy(session: "Session", home: "Path") -> None:
    from rota.runner import clean_worktrees, end_orphans

    for orphan in await asyncio.to_thread(end_orphans, home):
        session.output.say(
            f"ended what a dead worker had left running: process {orphan.pid} of run"
            f" {orphan.run_id}"
        )
    for removed in await clean_worktrees(home, environ=environ):
        kept = f"; its commits are kept on {removed.ref}" if removed.ref else ""
        session.output.say(f"removed what a dead worker had left: {removed.path}{kept}")


def _node(home: "Path") -> str:
    """The name of this worker, for people who look at its runs."""
    host = "".join(letter for letter in socket.gethostname() if "!" <= letter <= "~")
    return f"{host[:100]}/{home.name}"


@contextmanager
def _signals(stop: asyncio.Event, at_once: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def heard() -> None:
        if stop.is_set():
            at_once.set()
        stop.set()

    wanted = (signal.SIGINT, signal.SIGTERM)
    for number in wanted:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)


_WORDS = {
    "working": "{agent} works for {url}; Ctrl-C ends it",
    "paused": "paused: {why}",
    "started": "{work_item_id}  attempt {attempt}  {title}",
    "ended": "{work_item_id}  {status}  {said}",
    "stopping": "nothing more is taken; runs have {seconds:g} s to end (again: at once)",
}


def _say(session: "Session", what: str, facts: dict[str, Any]) -> None:
    said = shortened(facts.get("error") or facts.get("summary") or "", _SAID_WIDTH)
    words = _WORDS[what].format(**facts, said=said)
    session.output.stream({"event": what, **facts}, one_line(words))
