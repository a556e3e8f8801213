"""What `rota.yaml` says, and whether that can be right."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.cli.ending import NEGATIVE
from rota.cli.session import config_option, group, named_once
from rota.cli.text import one_line
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.loading import Loaded

config = group("config", "Check, show and reload rota.yaml.", "rota config check")

_a_file = click.argument("file", type=click.Path(path_type=Path), required=False)


@config.member("check", example="rota config check --json")
@_a_file
@config_option
def check(session: "Session", /, file: Path | None) -> None:
    """Check rota.yaml and the files that it names.

    Exit code 1 when there is a mistake. All mistakes are reported at once, each with file, line and
    column. Warnings are about keys without effect, missing directories and programs, webhooks
    without a secret, signals whose time has passed, and agents that nothing wakes.
    """
    named = _file(session, file)
    mistakes, warnings, counts = _examined(session)
    if session.as_json:
        data = {"file": named, "ok": not mistakes, **counts}
        session.output.document({**data, "mistakes": mistakes, "warnings": warnings})
    else:
        _tell("fail", mistakes)
        _tell("warn", warnings)
        if not mistakes:
            print(f"ok      {one_line(named)}: {_counted(counts)}")
    if mistakes:
        raise click.exceptions.Exit(NEGATIVE)


def _examined(session: "Session") -> tuple[list[Any], list[Any], dict[str, int]]:
    from rota.app.sources import named_sources, read_fleet

    try:
        loaded = read_fleet(session.settings)
        late = _check_signals(loaded)
    except InvalidInput as error:
        return list(error.details["mistakes"]), list(error.details.get("warnings", ())), {}
    agents = loaded.fleet.agents
    sources = named_sources(loaded, session.settings.config.absolute().parent)
    counts = {
        "agents": len(agents),
        "schedules": sum(len(one.schedules) for one in agents),
        "sources": len(sources),
    }
    return [], [*loaded.remarks, *late, *loaded.idle], counts


def _check_signals(loaded: "Loaded") -> list[dict[str, Any]]:
    from rota.model.clock import SystemClock
    from rota.signals.declared import declared, late

    now = SystemClock().now()
    declared(loaded.signals, now)
    return late(loaded.signals, now)


def _tell(status: str, remarks: list[dict[str, Any]]) -> None:
    for one in remarks:
        where = f"{one['file']}:{one['line']}:{one['column']}"
        said = f"{one['key']}: {one['message']}" if one["key"] else one["message"]
        print(f"{status:<6}  {one_line(f'{where}: {said}')}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(
        f"{number} {name if number != 1 else name.removesuffix('s')}"
        for name, number in counts.items()
    )


@config.member("show", example="rota config show --json")
@_a_file
@config_option
def show(session: "Session", /, file: Path | None) -> None:
    """Print the whole configuration, with defaults filled in.

    Values from environment variables are shown as the file writes them. A value whose key looks
    like a secret is shown as ***.
    """
    _file(session, file)
    shown = dict(_loaded(session).shown)
    if session.as_json:
        session.output.document(shown)
    else:
        print(_yaml(shown), end="")


@config.member("reload", example="rota config reload")
def reload(session: "Session", /) -> None:
    """Make the running server read its rota.yaml again.

    No run is dropped. A file with a mistake changes nothing: the mistakes are printed, and the old
    configuration stays. Exit code 1 when no server runs.
    """
    from rota.cli.destination import server_of

    if server_of(session) is None:
        session.output.negative(
            None,
            "no_server",
            "no server runs here; `rota up` reads the file when it starts, or name one with --url",
        )
    told = session.client.reload_config()
    if session.as_json:
        session.output.document(told)
        return
    _tell_plainly(told)


def _tell_plainly(told: dict[str, Any]) -> None:
    for warning in told["warnings"]:
        print(f"warn    {one_line(warning)}")
    for line in _gone(told.get("gone", {})):  # an older server does not send it
        print(f"gone    {one_line(line)}")
    agents = _counted({"agents": len(told["agents"]), "sources": len(told["sources"])})
    print(f"{'read' if told['changed'] else 'same'}    {agents}")


def _gone(gone: dict[str, Any]) -> Iterator[str]:
    for name in gone.get("agents", ()):
        yield (
            f"agent {name}; its schedules rest until a server has them again, or you remove them:"
            f" rota schedule forget {name}/NAME"
        )
    for kind in ("schedules", "sources"):
        yield from (f"{kind[:-1]} {name}" for name in gone.get(kind, ()))


@config.member("schema", example="rota config schema")
def schema(session: "Session", /) -> None:
    """Print the JSON Schema of rota.yaml, for editors.

    Write it to a file, and name that file in the editor's settings. With --json the schema is the
    `data` of the document, as in all commands.
    """
    import json

    from rota.config.schema import json_schema

    if session.as_json:
        session.output.document(json_schema())
    else:
        print(json.dumps(json_schema(), indent=2))


def _file(session: "Session", file: Path | None) -> str:
    named_once(session, file)
    path = session.settings.config
    if not path.exists():
        session.output.negative(
            None, "no_file", f"there is no {path}; `rota init` writes one to begin with"
        )
    return str(path)


def _loaded(session: "Session") -> "Loaded":
    from rota.config.loading import load_fleet

    return load_fleet(session.settings.config)


def _yaml(data: dict[str, Any]) -> str:
    from io import StringIO

    from ruamel.yaml import YAML

    writer, text = YAML(typ="safe", pure=True), StringIO()
    writer.default_flow_style = False
    writer.allow_unicode = False  # so that nothing in it can control a terminal
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(_filled(data), text)
    return text.getvalue()


def _filled(data: Any) -> Any:
    """Without fields that are not set."""
    if isinstance(data, list):
        return [_filled(one) for one in data]
    if not isinstance(data, dict):
        return data
    kept = {name: _filled(one) for name, one in data.items()}
    return {name: one for name, one in kept.items() if one not in (None, {}, [])}
