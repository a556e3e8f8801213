"""The command line: a face that talks to a server or opens the database."""

# Whatever takes time to import is imported under `_until_interrupted`: Ctrl-C may come by then.
import os
import sys

TYPE_CHECKING = False  # as type checkers know it; `typing` is one of those
if TYPE_CHECKING:
    from collections.abc import Callable

    import click

_INTERRUPTED = 130  # as in `ending`


def main(arguments: list[str] | None = None) -> int:
    """The entry point `rota`. Returns the exit code."""
    return _until_interrupted(lambda: _rota(arguments))


def label_state(arguments: list[str] | None = None) -> int:
    """The entry point `label-state`."""
    return _until_interrupted(lambda: _label_state(arguments))


def _until_interrupted(command: "Callable[[], int]") -> int:
    try:
        return command()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _rota(arguments: list[str] | None) -> int:
    from rota.cli.root import rota

    if "_ROTA_COMPLETE" in os.environ:  # the shell asks for completions
        rota.main(prog_name="rota")
    return _run(rota, "rota", arguments)


def _label_state(arguments: list[str] | None) -> int:
    from rota.cli.labelstate import label_state as group

    return _run(group, "label-state", arguments)


def _run(group: "click.Group", name: str, arguments: list[str] | None) -> int:
    from rota.cli.ending import exit_code_of

    words = sys.argv[1:] if arguments is None else arguments

    def command() -> object:
        # Not by click's own `main`, which turns a closed pipe into exit code 1.
        with group.make_context(name, list(words)) as context:
            return group.invoke(context)

    return exit_code_of(command, as_json="--json" in words, name=name)
