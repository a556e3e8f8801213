"""What all commands share: where to ask, as whom, and how to print."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli.lazy import demand_known
from rota.cli.output import Output
from rota.cli.parsing import LookedUp, check_words
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.client import SyncWorkQueueClient
    from rota.config import Settings

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Session:
    as_json: bool = False
    url: str | None = None
    database: str | None = None
    state_dir: str | None = None
    actor: str | None = None
    config: str | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def settings(self) -> "Settings":
        from rota.config import Settings

        return Settings.from_environment(
            database=self.database, state_dir=self.state_dir, config=self.config
        )

    @cached_property
    def client(self) -> "SyncWorkQueueClient":
        """Connected on first use, closed when the command ends."""
        from rota.cli.destination import connect

        client = connect(self)
        self._open.callback(client.close)
        return client

    @cached_property
    def output(self) -> Output:
        return Output(self.as_json)

    def close(self) -> None:
        self._open.close()

    @property
    def actor_name(self) -> str:
        return self.actor or os.environ.get("ROTA_ACTOR") or _login_name()


def _login_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return f"uid-{os.getuid()}"


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    check_words(parameter, value, context)
    if value and parameter.name:
        setattr(context.ensure_object(Session), parameter.name, value)


class SharedOption(click.Option):
    """An option that every command has; help lists these apart from the command's own."""


_SHARED: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("--json", "as_json"), {"is_flag": True, "help": "Print JSON, for programs."}),
    (("--url",), {"help": "Send requests to this server.  [env: ROTA_URL]"}),
    (("--db", "database"), {"help": "Open this database directly.  [env: DATABASE_URL]"}),
    (
        ("--state-dir",),
        {"help": "State directory of the server.  [env: ROTA_STATE_DIR; default: .rota]"},
    ),
    (
        ("--actor",),
        {"help": "Your name in the event log.  [env: ROTA_ACTOR; default: your login name]"},
    ),
]


def shared_options(function: F) -> F:
    for names, facts in reversed(_SHARED):
        option = click.option(
            *names, cls=SharedOption, expose_value=False, callback=_remember, **facts
        )
        function = option(function)
    return function


def config_option(function: F) -> F:
    """For commands that use what `rota.yaml` names."""
    return click.option(
        "--config",
        expose_value=False,
        callback=_remember,
        help="The configuration file.  [env: ROTA_CONFIG; default: rota.yaml]",
    )(function)


def named_once(session: Session, file: Path | None) -> Path | None:
    """For commands about the configuration file itself: FILE is the same as --config FILE."""
    if file is not None and session.config:
        raise click.UsageError("FILE and --config name the same thing: use one of them")
    if file is not None:
        session.config = str(file)
    return Path(session.config) if session.config else None


class Command(click.Command):
    """A command with the shared options, and an example at the end of its help."""

    def __init__(self, *args: Any, example: str, **facts: Any) -> None:
        super().__init__(*args, **{**facts, "epilog": f"\b\nExample: {example}"})
        self.params.extend(
            SharedOption(names, expose_value=False, callback=_remember, **facts)
            for names, facts in _SHARED
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, shared in (("Options", False), ("All commands have", True)):
            records = [
                record
                for parameter in self.get_params(ctx)
                if isinstance(parameter, click.Option)  # arguments are in the usage line
                and isinstance(parameter, SharedOption) is shared
                and (record := parameter.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        session = ctx.ensure_object(Session)
        ctx.call_on_close(session.close)
        try:
            self._look_up(ctx, session)
            return super().invoke(ctx)
        except RotaError as error:
            if session.as_json:  # programs expect the API's field names
                raise
            from rota.cli.wording import reworded

            raise reworded(error, self)  # noqa: B904 - it is the same error

    def _look_up(self, ctx: click.Context, session: Session) -> None:
        for parameter in self.params:
            named = ctx.params.get(parameter.name or "")
            check_words(parameter, named, ctx)
            if isinstance(kind := parameter.type, LookedUp) and named is not None:
                ctx.params[parameter.name or ""] = (
                    tuple(kind.id_of(session.client, one) for one in named)
                    if isinstance(named, tuple)
                    else kind.id_of(session.client, named)
                )


def command(name: str, *, example: str, **facts: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a command from a function whose first argument is the session."""

    def made(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command, example=example, **facts)(click.pass_obj(function))

    return made


class Group(click.Group):
    """A family of commands; members are added with `@family.member(…)`."""

    def member(
        self, name: str, *, example: str, **facts: Any
    ) -> Callable[[Callable[..., Any]], Command]:
        def made(function: Callable[..., Any]) -> Command:
            one = command(name, example=example, **facts)(function)
            self.add_command(one)
            return one

        return made

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        demand_known(args, self.commands, ctx)
        return super().resolve_command(ctx, args)


def group(name: str, help: str, example: str) -> Group:  # noqa: A002 - click's word for it
    return Group(name, help=help, epilog=f"\b\nExample: {example}")
