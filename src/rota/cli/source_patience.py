"""Trackers that were seen to be slow: what is said of them, and how their claims become quick
again."""

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rota.cli.desks import refuse_url, run
from rota.cli.destination import missing_file
from rota.cli.findings import WARN, Finding
from rota.cli.source_choice import choose
from rota.config import Settings
from rota.model.errors import InvalidInput

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.sources import AnySource, Forge
    from rota.model.sources import SourceState


def known_states(settings: Settings) -> "dict[str, SourceState]":
    """By their names in the ledger. Opens the database, if there is one."""
    if missing_file(settings.database) is not None:
        return {}
    return {state.source: state for state in run(_states(settings.database))}


async def _states(database: str) -> "list[SourceState]":
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        return await ledger.outside.states()


def way_back(name: str, source: "Forge", found: "SourceState | None") -> str | None:
    """For a tracker whose claims wait longer than configured."""
    waits, usual = (found and found.settle_seconds) or 0.0, source.times.settle
    if waits <= usual:
        return None
    return f"rota source reset-settle {shlex.quote(name)} goes back from {waits:g} s to {usual:g} s"


def slow_sources(
    sources: "Mapping[str, AnySource]", states: "Mapping[str, SourceState]"
) -> Iterator[Finding]:
    from rota.config.sources import Forge
    from rota.sources.lookup import ledger_name

    for name, source in sources.items():
        if not isinstance(source, Forge):
            continue
        found = states.get(ledger_name(source))
        if found is not None and (back := way_back(name, source, found)):
            said = found.warning or f"claims wait {found.settle_seconds:g} s"
            yield Finding(f"source {name}", WARN, said, back)


def slow_in_fleet(settings: Settings) -> Iterator[Finding]:
    from rota.app.sources import named_sources, read_fleet

    try:
        loaded = read_fleet(settings)
    except InvalidInput:
        return  # the check of the configuration reports what is wrong
    sources = named_sources(loaded, settings.config.absolute().parent)
    yield from slow_sources(sources, known_states(settings))


def reset(session: "Session", name: str) -> None:
    from rota.config.sources import Forge
    from rota.sources.lookup import ledger_name

    refuse_url(session)
    source = choose(session, name)
    if not isinstance(source, Forge):
        raise InvalidInput(f"{name[:100]} has no settle time: only claims on trackers wait")
    called = ledger_name(source)
    found = known_states(session.settings).get(called)
    before = found.settle_seconds if found is not None else None
    if before is not None:
        run(_reset(session.settings.database, called))
    usual = source.times.settle
    was = ", as configured" if before is None else f" again; it was {before:g} s"
    data = {"source": called, "settle_seconds": usual, "before": before}
    session.output.line(data, f"claims on {name} wait {usual:g} s{was}")


async def _reset(database: str, source: str) -> None:
    from rota.app import open_ledger

    async with open_ledger(database) as ledger:
        await ledger.outside.note_state(source, warning=None, settle_seconds=None)
