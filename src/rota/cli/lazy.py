"""Commands that are imported when they are called, so that `rota --help` is quick."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

# section → command → (where it is, what it does). With the second, a list needs no import.
Sections = Mapping[str, Mapping[str, tuple[str, str]]]


class LazyGroup(click.Group):
    def __init__(self, *args: Any, sections: Sections, **facts: Any) -> None:
        super().__init__(*args, **facts)
        self._sections = sections
        self._homes = {name: home for part in sections.values() for name, home in part.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._homes:
            return None
        module, _, name = self._homes[cmd_name][0].partition(":")
        command = getattr(import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self._homes))
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), text) for name, (_, text) in commands.items()]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        demand_known(args, self._homes, ctx)
        return super().resolve_command(ctx, args)


def demand_known(args: Sequence[str], names: Iterable[str], ctx: click.Context) -> None:
    """Before click, which has other words for it."""
    if args and not args[0].startswith("-") and args[0] not in names:
        raise click.UsageError(f"there is no command {args[0]!r}{_similar(args[0], names)}", ctx)


def _similar(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""
