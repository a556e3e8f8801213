"""`rota up` and `rota serve`: one process from its start to its end."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rota import __version__
from rota.app.faces import make_asgi
from rota.app.ledgers import open_store
from rota.config import Settings, StateDir
from rota.model.errors import Refused
from rota.surroundings import own_command

if TYPE_CHECKING:
    from rota.app.fleet import FleetAtWork
    from rota.config.loading import Loaded
    from rota.queue.ledger import Ledger


def collect_rarely() -> None:
    """For a process that serves and does little else: what a call makes is freed when its last
    reader lets go, and the look for cycles found none and cost much (decision 0031)."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def up(settings: Settings) -> None:
    """`rota up`: every loop of this machine in one process, until a signal ends it."""
    import asyncio
    import signal

    import uvloop

    from rota.app.sources import read_fleet
    from rota.config.logs import configure_logging
    from rota.tracing import sending

    configure_logging()
    # Whoever wants the file to be read again before it was read at all must not end the server.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loaded = None
    if not settings.faces_only:  # what is wrong with the file is said before anything is touched
        loaded = read_fleet(settings)
        settings = _as_the_file_says(settings, loaded)
    with (
        sending(os.environ),
        StateDir(settings.state_dir).occupied(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(settings, loaded))


def _as_the_file_says(settings: Settings, loaded: "Loaded") -> Settings:
    web = loaded.web
    dashboard = settings.dashboard and web.enabled
    return replace(settings.listening(web.host, web.port), dashboard=dashboard)


async def _serve(settings: Settings, loaded: "Loaded | None") -> None:
    """Without a configuration it is the faces alone: sweeping and agents are another's."""
    import asyncio

    from rota import daemon
    from rota.app.fleet import FleetAtWork
    from rota.model.clock import IdFactory, SystemClock
    from rota.model.fleet import Fleet
    from rota.queue.ledger import Ledger
    from rota.signals import Signals

    node = IdFactory(SystemClock()).new()
    fleet: FleetAtWork | None = None
    async with open_store(settings.database) as store:
        ledger = Ledger.on(
            store,
            node=node,
            logs=settings.run_logs,
            fleet=lambda: fleet.everybody if fleet else Fleet(),
        )
        signals = Signals(store)
        await _demand_safe_address(settings, ledger)
        listener = daemon.bind(settings.host, settings.port)
        settings = replace(settings, port=listener.getsockname()[1])
        stopping = asyncio.Event()
        crew = daemon.Crew(
            [
                daemon.Pruning(ledger.sweeper),
                daemon.Freeing(ledger.sweeper),
                daemon.Writing(ledger.writes),
            ],
            stopping,
        )
        if loaded is not None:
            fleet = FleetAtWork(
                settings, store, ledger, signals, node=node, loaded=loaded, crew=crew
            )
        api = make_asgi(ledger, signals, settings, stopping, fleet)
        collect_rarely()
        face = daemon.Face(api, lambda: _announce(settings, ledger, fleet), ledger.clock)
        if fleet is None:
            await daemon.run(face, listener, crew, stopping)
            return
        crew.add(daemon.Sweeping(ledger.sweeper, api.metrics.swept))
        fleet.signals.observe = api.metrics.signal_fired
        async with fleet:
            duties = daemon.Duties(fleet.drain, fleet.reload)
            await daemon.run(face, listener, crew, stopping, duties)


async def _demand_safe_address(settings: Settings, ledger: "Ledger") -> None:
    others = settings.allowed_hosts if settings.on_loopback else {settings.host}
    if not others or settings.insecure or await ledger.tokens.required():
        return
    raise Refused(
        f"{min(others)} can be reached from other machines, and no token protects this server;"
        " create one first (rota token create NAME --scope admin), or say --insecure if the"
        " network itself keeps strangers out"
    )


def _option(name: str, path: Path, usual: Path) -> str:
    """An option with which a command finds what this server has, if it does not without."""
    import shlex

    return "" if path == usual else f" --{name} {shlex.quote(str(path))}"


_NOT_HERE = "no agents, no schedules, no signals here; another `rota up` does that"


def _announce(settings: Settings, ledger: "Ledger", fleet: "FleetAtWork | None") -> None:
    """The first thing a person sees: where to look, and what to do next."""
    from rota.app.fleet import next_step
    from rota.model.fleet import Fleet

    StateDir(settings.state_dir).announce(settings.url)
    usual, rota = Settings(), own_command()
    step = next_step(
        fleet.fleet if fleet else Fleet(),
        _option("state-dir", settings.state_dir, usual.state_dir),
        _option("config", settings.config, usual.config),
    )
    lines = [
        f"Rota {__version__}",
        *([f"  dashboard  {settings.url}/"] if settings.dashboard else []),
        f"  API        {settings.url}/docs",
        f"  database   {ledger.database}",
        f"  fleet      {fleet.in_words(rota) if fleet else _NOT_HERE}",
        f"  next       in another terminal:  {rota} {step}",
        "  stop       Ctrl-C (twice: at once)",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
