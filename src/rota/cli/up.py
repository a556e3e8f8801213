"""Serving: `rota up` with everything, `rota serve` with the faces only."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.session import command, config_option
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config import Settings

_OPTIONS = (
    click.option("--host", help="Address to listen on.  [env: ROTA_HOST; default: 127.0.0.1]"),
    click.option("--port", help="Port; 0 takes a free one.  [env: PORT; default: 8080]"),
    click.option("--insecure", is_flag=True, help="Serve beyond this machine without any token."),
    click.option(
        "--allow-host",
        "allowed_hosts",
        multiple=True,
        help="A name this server may be called by, behind a proxy.  [env: ROTA_ALLOWED_HOSTS]",
    ),
    click.option("--no-dashboard", is_flag=True, help="Leave the dashboard out."),
)


def _address(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return config_option(function)


@command("up", example="rota up --port 8080 --db postgresql://rota@db/rota")
@_address
@click.option("--no-agents", is_flag=True, help="Wake no agents here, whatever rota.yaml says.")
@click.option("--no-signals", is_flag=True, help="Let signals wait.  [env: ROTA_SIGNALS=off]")
@click.option(
    "--drain",
    "drain_seconds",
    type=click.FloatRange(0, 24 * 3600),
    default=10.0,
    show_default=True,
    help="Seconds that runs have to end by themselves when the server is stopped.",
)
def up(session: "Session", /, no_agents: bool, no_signals: bool, **options: Any) -> None:
    """Wake the agents of rota.yaml, and serve the queue, its API and the dashboard.

    Ctrl-C ends it: runs have a while to finish, and what is left goes back to the queue.
    SIGHUP reads rota.yaml again, without dropping any run.
    """
    _serve(session, agents=not no_agents, signals=not no_signals, **options)


@command("serve", example="rota serve --host 0.0.0.0 --port 8080")
@_address
def serve(session: "Session", /, **options: Any) -> None:
    """Serve the queue, its API and the dashboard, and nothing else.

    No agents are woken here, no schedules kept, no signals fired, and stale items are not brought
    back: another `rota up` on the same database does that.
    """
    _serve(session, faces_only=True, **options)


def _serve(session: "Session", *, no_dashboard: bool, **options: Any) -> None:
    from rota import app
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
