"""Printing: tables on a terminal, tab-separated text in a pipe, JSON when asked for."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from rota.cli.ending import NEGATIVE, SCHEMA_VERSION
from rota.cli.text import age, lines, one_line

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """`value` is for a pipe; `shown`, where it differs, is for people."""

    title: str
    value: Callable[[Json], object]
    shown: Callable[[Json], object] | None = None
    whole: bool = False  # never cut, so that it can be copied: ids, and names used as ids
    beginning: bool = False  # of an id that commands take by its beginning: may be short
    folds: bool = False  # may be wrapped; a column that neither folds nor is whole may be cut
    spare: int = 0  # left out on a narrow terminal: 1 first, then 2, …; 0 never


def column(
    field: str,
    title: str | None = None,
    *,
    whole: bool = False,
    beginning: bool = False,
    folds: bool = False,
    spare: int = 0,
) -> Column:
    def value(entry: Json) -> object:
        found = entry.get(field)
        return ",".join(map(str, found)) if isinstance(found, list) else found

    return Column(title or field, value, whole=whole, beginning=beginning, folds=folds, spare=spare)


def time_column(field: str, title: str, *, spare: int = 1) -> Column:
    return Column(
        title, lambda entry: entry.get(field), lambda entry: age(entry.get(field)), spare=spare
    )


class Output:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.via: str | None = None

    # for programs

    def document(self, data: Any, **meta: Any) -> None:
        named = {name: value for name, value in meta.items() if value is not None}
        document = {"schema_version": SCHEMA_VERSION, "data": data, "meta": named}
        if self.via is not None:
            named["via"] = self.via
        # ASCII, so that the text cannot control a terminal that shows it.
        print(json.dumps(document, indent=2 if sys.stdout.isatty() else None))

    def stream(self, data: Json, words: str) -> None:
        """One entry of an endless stream, flushed at once."""
        if self.as_json:
            print(json.dumps({"schema_version": SCHEMA_VERSION, "data": data}), flush=True)
        else:
            print(words, flush=True)

    # for both

    def line(self, data: Json, words: str) -> None:
        """One thing, in one line of words."""
        if self.as_json:
            self.document(data)
        else:
            print(one_line(words))

    def table(
        self, rows: Sequence[Json], columns: Sequence[Column], none: str = "", **meta: Any
    ) -> None:
        """`none` is said when there are no rows."""
        if self.as_json:
            self.document(list(rows), count=len(rows), **meta)
        elif sys.stdout.isatty():
            from rota.cli.tables import print_table

            if missing := print_table(rows, columns):
                self.say(f"no room for {', '.join(missing)}; a wider terminal or --json has all")
        else:
            for row in rows:
                print("\t".join(one_line(_filled(one.value(row))) for one in columns))
        if none and not rows:
            self.say(none)

    def page(self, found: Sequence[Json], limit: int, columns: Sequence[Column], none: str) -> None:
        """`found` has one row beyond the limit if there is more."""
        more = len(found) > limit
        self.table(found[:limit], columns, none, more=more)
        if more:
            self.say(f"there are more; see them with --limit {limit * 10}")

    def facts(self, data: Json, facts: Iterable[tuple[str, object]], **meta: Any) -> None:
        """One thing, as lines of name and value, without empty values."""
        if self.as_json:
            self.document(data, **meta)
            return
        named = [(name, value) for name, value in facts if value not in (None, "", [], ())]
        wide = max((len(name) for name, _ in named), default=0)
        for name, value in named:
            first, *rest = lines(value).split("\n")
            print(f"{name.ljust(wide)}  {first}".rstrip())
            for line in rest:
                print(f"{'':{wide}}  {line}".rstrip())

    def say(self, message: str) -> None:
        """A remark for people, on standard error, so that programs do not read it."""
        if not self.as_json:
            print(lines(message), file=sys.stderr)

    def waiting(self, what: str) -> None:
        """Only for a person at a terminal, who would wonder why nothing happens."""
        if self.as_json or not sys.stderr.isatty():
            return
        from rich.console import Console

        told = f"waiting for {what} … (Ctrl-C ends it)"
        Console(stderr=True, highlight=False).print(told, style="dim")

    def negative(self, data: Any, reason: str, message: str) -> None:
        """The answer is no: exits with code 1."""
        if self.as_json:
            self.document(data, reason=reason)
        self.say(message)
        raise click.exceptions.Exit(NEGATIVE)


def _filled(value: object) -> object:
    return "" if value is None else value
