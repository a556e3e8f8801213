"""Rewords a server's message about a signal's JSON by the options that it was made from."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from rota.cli.signal_specs import HOW_OFTEN, KINDS, THEN, WHICH
from rota.model.errors import InvalidInput

_PLACE = re.compile(r"(?:(?P<part>trigger|action)\.)?(?P<field>\w+): (?P<why>.*)", re.DOTALL)
_NEEDED = re.compile(r"(?P<kind>\w+) needs it(?P<rest>.*)", re.DOTALL)
_KNOWN = re.compile(r"unknown key(?:; known are (?P<known>.*)|;.*)?", re.DOTALL)
_FILTERS = ("project", "of_type", "of_label", "of_agent")
# Sentences about several fields, by the server's own text.
_SENTENCES = {
    "name either items or a project_id": "name either {item} or {project}",
    "a signal of one item has no filter": "{item}: one item needs no {filters}; leave them out",
    "at goes with nothing else": "{at}: goes with none of {in_}, {filters}",
    "say in which status: in: [in_review]": "say in which status: {in_} in_review",
    "goes with at": "goes with {at}",
}


@contextmanager
def told_by_options(options: Mapping[str, Any], *, as_json: bool) -> Iterator[None]:
    """Not for programs, or a user who wrote JSON: they know the names of the JSON."""
    try:
        yield
    except InvalidInput as error:
        if not as_json and options["spec"] is None:
            command = click.get_current_context().command
            shown = {str(one.name): one.opts[0] for one in command.params}
            error.message = _Wording(options, shown).of(error.message)
        raise


class _Wording:
    def __init__(self, options: Mapping[str, Any], shown: Mapping[str, str]) -> None:
        self._shown = shown
        self._then = options["then"]
        kind = next(name for name in KINDS if options[name])
        self._when = shown[kind]
        self._fields = {
            None: {"work_item_id": "item", **_turned(HOW_OFTEN)},
            "trigger": {
                **_turned(WHICH), KINDS[kind][1]: kind, "project_id": "project", "items": "item",
            },
            "action": _turned(THEN),
        }  # fmt: skip

    def of(self, message: str) -> str:
        found = _PLACE.fullmatch(message)
        if found is None:
            return message
        part, field, why = found["part"], found["field"], found["why"]
        if part is None and field in ("trigger", "action"):
            return self._sentence(why)
        option = self._option(part, field)
        return message if option is None else f"{option}: {self._why(part, why)}"

    def _option(self, part: str | None, field: str) -> str | None:
        name = self._fields[part].get(field)
        return None if name is None else self._shown[name]

    def _why(self, part: str | None, why: str) -> str:
        if needed := _NEEDED.fullmatch(why):
            return f"--then {needed['kind']} needs it{self._channel(needed['rest'])}"
        if unknown := _KNOWN.fullmatch(why):
            beside = f"--then {self._then}" if part == "action" else self._when
            fields = (unknown["known"] or "").split(", ")
            known = [one for field in fields if (one := self._option(part, field)) is not None]
            known = [one for one in known if one != self._when]
            rest = f"; {', '.join(known)} do" if len(known) > 1 else ""
            return f"it does not go with {beside}{rest}"
        return self._sentence(why)

    def _channel(self, rest: str) -> str:
        return rest.replace("a channel", self._shown["channel"])

    def _sentence(self, why: str) -> str:
        filters = ", ".join(self._shown[one] for one in _FILTERS)
        return _SENTENCES.get(why, why.replace("{", "{{").replace("}", "}}")).format(
            **self._shown, filters=filters
        )


def _turned(names: Mapping[str, str]) -> dict[str, str]:
    return {wire: option for option, wire in names.items()}
