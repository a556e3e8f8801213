"""Rules for notifications: `notify` in `rota.yaml`."""

import re
from collections.abc import Iterator
from datetime import time
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from rota.config.channels import AnyChannel, Texts, listed
from rota.config.document import Location
from rota.config.mistakes import Findings, suggestion
from rota.config.scalars import Name, Span, Zone
from rota.config.sources import Section
from rota.config.tree import PlacedMap, find
from rota.model.notices import Happening

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def _clock(value: Any) -> Any:
    if isinstance(value, time):
        return value
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError('write a time of the day in quotes: "22:00"')
    return time(int(found[1]), int(found[2]))


def _happening(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in set(Happening):
        raise ValueError(f"{value[:80]!r} is not known{suggestion(value, Happening)}")
    return Happening(value)


ClockTime = Annotated[
    time,
    BeforeValidator(_clock),
    PlainSerializer(lambda value: f"{value:%H:%M}"),
    WithJsonSchema({"type": "string", "pattern": f"^({_CLOCK.pattern})$"}),
]
HappeningName = Annotated[Happening, BeforeValidator(_happening)]
Names = Annotated[tuple[Name, ...], Field(strict=False), listed(Name)]
Happenings = Annotated[tuple[HappeningName, ...], Field(strict=False), listed(HappeningName)]


class NotifyRule(Section):
    """Which happenings go to which channels. A filter that is left out lets everything pass."""

    on: Annotated[
        tuple[HappeningName, ...], Field(strict=False, min_length=1), listed(HappeningName)
    ] = Field(description="One or several happenings that are told: `[blocked, failed]`.")
    to: Annotated[tuple[Name, ...], Field(strict=False, min_length=1), listed(Name)] = Field(
        description="One or several channels, by name. A channel is told of an event once: the"
        " first rule in the file that leads there counts."
    )
    project: Texts = Field(
        (), description="Only items of these projects, by name or id. Default: all."
    )
    type: Texts = Field((), description="Only items of these types. Default: all.")
    label: Texts = Field((), description="Only items with one of these labels. Default: all.")
    agent: Names = Field(
        (), description="Only what these agents did or were kept from doing. Default: all."
    )
    digest: Span | None = Field(
        None,
        description="Collect for this long, for example `15m`, then tell everything in one message."
        " Default: each is told at once.",
    )


class QuietHours(Section):
    """When only exceptions are told at once. The rest is told together afterwards."""

    model_config = ConfigDict(serialize_by_alias=True)

    begin: ClockTime = Field(
        alias="from", description='When the quiet hours begin, in quotes: `"22:00"`.'
    )
    end: ClockTime = Field(
        alias="to",
        description='When they end, on the same day or the next, in quotes: `"07:00"`.',
    )
    timezone: Zone = Field(
        "UTC", description="The time zone of both times, for example `Europe/Berlin`."
    )
    exceptions: Happenings = Field(
        (), alias="except", description="Happenings that are told at once all the same."
    )

    @model_validator(mode="after")
    def _is_a_part_of_the_day(self) -> Self:
        if self.begin == self.end:
            raise ValueError("from and to are the same; that would be no time, or always")
        return self


class NotifyConfig(Section):
    """Notifications for people: what is told, and where."""

    channels: dict[Name, AnyChannel] = Field(
        default_factory=dict,
        description="Where messages go, by name: a chat, a mailbox, a program.",
    )
    rules: dict[Name, NotifyRule] = Field(
        default_factory=dict, description="Which happenings go to which channels, by name."
    )
    quiet_hours: QuietHours | None = Field(
        None,
        description="When only exceptions are told at once; the rest is told together afterwards."
        " Default: never.",
    )
    allow_hosts: Texts = Field(
        (),
        description="Names and networks that channels may reach though they are not on the public"
        " internet: `[localhost, 10.0.0.0/8]`. Those of `ROTA_HOOK_HOSTS` are allowed too.",
    )


def check_channels(tree: PlacedMap, findings: Findings) -> None:
    """Rules, and signals that notify, must name channels that exist. Checked on the raw tree, so
    that it is reported together with all other mistakes."""
    channels = _below(tree, "notify", "channels")
    for loc, name in (*_of_rules(tree), *_of_signals(tree)):
        if isinstance(name, str) and name not in channels:
            place, _ = find(tree, loc)
            known = suggestion(name, map(str, channels)) if channels else ""
            findings.mistake(place, f"there is no channel {name[:80]!r}{known}")


def _of_rules(tree: PlacedMap) -> Iterator[tuple[Location, Any]]:
    for name, rule in _below(tree, "notify", "rules").items():
        said = rule.get("to") if isinstance(rule, dict) else None
        loc = ("notify", "rules", name, "to")
        if isinstance(said, list):
            yield from (((*loc, number), one) for number, one in enumerate(said))
        else:
            yield loc, said


def _of_signals(tree: PlacedMap) -> Iterator[tuple[Location, Any]]:
    for name in _below(tree, "signals"):
        then = _below(tree, "signals", name, "then")
        yield ("signals", name, "then", "channel"), then.get("channel")


def _below(tree: Any, *names: str) -> dict[Any, Any]:
    here = tree
    for name in names:
        here = here.get(name) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else {}
