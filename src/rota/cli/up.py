"""Serving: `rota up` with everything, `rota serve` with the faces only."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.parsing import Amount
from rota.cli.session import command, config_option
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config import Settings

_OPTIONS = (
    click.option("--host", help="Address to listen on.  [env: ROTA_HOST; default: 127.0.0.1]"),
    click.option(
        "--port", help="Port to listen on; 0 takes a free one.  [env: PORT; default: 8080]"
    ),
    click.option("--insecure", is_flag=True, help="Serve other machines even if no token exists."),
    click.option(
        "--allow-host",
        "allowed_hosts",
        multiple=True,
        help="Another host name of this server, behind a proxy; repeatable."
        "  [env: ROTA_ALLOWED_HOSTS]",
    ),
    click.option("--no-dashboard", is_flag=True, help="Do not serve the dashboard."),
)


def _address(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return config_option(function)


@command("up", example="rota up --port 8080 --db postgresql://rota@db/rota")
@_address
@click.option("--no-agents", is_flag=True, help="Wake no agents here, whatever rota.yaml says.")
@click.option(
    "--no-signals", is_flag=True, help="Fire no signals here; they wait.  [env: ROTA_SIGNALS=off]"
)
@click.option(
    "--drain",
    "drain_seconds",
    type=Amount(0, 24 * 3600),
    default=10.0,
    show_default=True,
    help="Seconds that runs have to end by themselves when the server stops.",
)
def up(session: "Session", /, no_agents: bool, no_signals: bool, **options: Any) -> None:
    """Run the server: agents, API and dashboard.

    Wakes the agents of rota.yaml, and serves the queue, its API and the dashboard. Ctrl-C stops the
    server: runs have a while to finish, and the rest goes back to the queue. On SIGHUP the server
    reads rota.yaml again, without dropping any run.
    """
    _serve(session, agents=not no_agents, signals=not no_signals, **options)


@command("serve", example="rota serve --host 0.0.0.0 --port 8080")
@_address
def serve(session: "Session", /, **options: Any) -> None:
    """Serve the API and the dashboard, without agents.

    This server answers requests and does nothing by itself: no agents, no schedules, no signals, no
    polling of sources, no notifications, no sweeping of stale items. Another `rota up` on the same
    database does that.
    """
    _serve(session, faces_only=True, **options)


def _serve(session: "Session", *, no_dashboard: bool, **options: Any) -> None:
    from rota import app
    from rota.cli.streams import unminded
    from rota.config import Settings

    if session.url:
        raise click.UsageError("--url names a server to ask; to serve, use --host and --port")
    settings = Settings.from_environment(
        database=session.database,
        state_dir=session.state_dir,
        config=session.config,
        dashboard=not no_dashboard,
        **options,
    )
    if settings.faces_only:
        _warn_of_agents(session, settings)
    with unminded():
        app.up(settings)


def _warn_of_agents(session: "Session", settings: "Settings") -> None:
    from rota.app.fleet import counted
    from rota.config.loading import load_fleet

    try:
        agents = load_fleet(settings.config).fleet.agents
    except InvalidInput:
        return  # whoever needs the file will complain
    if agents:
        session.output.say(
            f"warning: {settings.config} has {counted(len(agents), 'agent')}, and none is woken"
            " here; a plain `rota up` does that"
        )
