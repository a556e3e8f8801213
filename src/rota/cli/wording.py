"""Rewords a server's messages for the command line: options for fields, commands for verbs."""

import re

import click

from rota.model.errors import ClaimedByAnother, InvalidInput, RotaError, TransitionRefused
from rota.model.status import RULES, Status, Verb

_FIELD = re.compile(r"(?P<field>[A-Za-z_-]+)(?:\[\d+\])?: ")
_NEED = re.compile(r"\bneeds (?P<field>[a-z_]+): ")
_BEYOND = re.compile(r"([0-9.e+-]+) is out of range; use ([0-9.]+) to ([0-9.]+)")
_CLAIMED = re.compile(r"give the claim's token, or force it.*")
_WANTED = re.compile(r"; (?P<wanted>\w+) is not possible from there")

# Fields whose option or argument has another name in some commands.
_CALLED = {
    "assigned_agent": ("agent",),
    "agent": ("name",),
    "type": ("kind", "types"),
    "after": ("since",),
    "project": ("project_id",),
    "Idempotency-Key": ("key",),
    "idempotency_key": ("key",),
}
_COMMANDS = {Verb.COMPLETE: "done", Verb.HAND_OVER: "hand-over"}


def reworded(error: RotaError, command: click.Command) -> RotaError:
    """The same error with another message."""
    if isinstance(error, TransitionRefused):
        error.message = _by_commands(error)
    elif isinstance(error, ClaimedByAnother):
        error.message = _CLAIMED.sub(
            "show its token (--token), or take it away (--force)", error.message
        )
    elif isinstance(error, InvalidInput) and "mistakes" not in error.details:
        error.message = _by_options(error.message, command)
    return error


def _by_options(message: str, command: click.Command) -> str:
    found = _FIELD.match(message) or _NEED.search(message)
    if found is None:
        return message
    shown = _shown(found["field"], command)
    if shown is None:
        return message
    rest = message[found.end() :]
    if found["field"].endswith("_seconds") and (beyond := _BEYOND.fullmatch(rest)):
        said, least, most = (_span(float(number)) for number in beyond.groups())
        rest = f"{said} is out of range; use {least} to {most}"
    return f"{message[: found.start('field')]}{shown}: {rest}"


def _span(seconds: float) -> str:
    """A span as a person would write it: 691200 is 8d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.15g}s"


def _shown(field: str, command: click.Command) -> str | None:
    """The name that the command's own help uses."""
    by_name = {one.name: one for one in command.params}
    for name in (field, *_CALLED.get(field, ())):
        if (parameter := by_name.get(name)) is not None:
            is_option = isinstance(parameter, click.Option)
            return parameter.opts[0] if is_option else parameter.human_readable_name
    return None


def _by_commands(error: RotaError) -> str:
    wanted, verbs = _WANTED.search(error.message), error.details.get("verbs")
    status = error.details.get("item_status") or error.details.get("status")
    if wanted is None or verbs is None:
        return error.message
    ways = [(_command(verb), RULES[Verb(verb)].target) for verb in verbs if verb in _VERBS]
    if status in (Status.QUEUED, Status.DISPATCHED):
        ways.insert(0, ("claim", Status.IN_PROGRESS))
    told = ", ".join(f"rota {name} → {target}" for name, target in ways)
    begin = f"{error.message[: wanted.start()]}; rota {_command(wanted['wanted'])}"
    possible = f" (possible: {told})" if told else " (nothing is: this status is final)"
    return f"{begin} is not possible from there{possible}"


_VERBS = frozenset(map(str, Verb))


def _command(verb: str) -> str:
    return _COMMANDS.get(Verb(verb), verb) if verb in _VERBS else verb
