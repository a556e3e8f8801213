"""The state of each source."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rota.cli.ending import NEGATIVE
from rota.cli.findings import FAIL, show
from rota.cli.source_choice import choose, configured
from rota.cli.source_patience import known_states, slow_sources, way_back
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.sources import AnySource
    from rota.model.sources import SourceState


def states(session: "Session") -> list[dict[str, Any]]:
    sources = configured(session)
    known = known_states(session.settings) if sources else {}
    return [_row(name, source, known) for name, source in sources.items()]


def _row(name: str, source: "AnySource", known: "Mapping[str, SourceState]") -> dict[str, Any]:
    from rota.config.sources import Forge, MarkdownSource
    from rota.sources.lookup import ledger_name

    row: dict[str, Any] = {"name": name, "type": source.type}
    if isinstance(source, Forge):
        found = known.get(ledger_name(source))
        row |= {"place": source.repo, "claim_mode": source.claim_mode}
        return row | _state(found, "not polled yet", way_back(name, source, found))
    place = source.path if isinstance(source, MarkdownSource) else None
    return row | {"place": place, "claim_mode": None} | _state(None, "")


def _state(found: "SourceState | None", unknown: str, back: str | None = None) -> dict[str, Any]:
    fields = ("polled_at", "poll_error", "swept_at", "warning", "settle_seconds", "requests")
    limits = ("rate_remaining", "rate_limit", "rate_reset_at")
    told = {name: getattr(found, name, None) for name in (*fields, *limits)}
    if told["poll_error"]:
        word = "error"
    elif found is None:
        word = unknown
    else:
        word = "warning" if told["warning"] else "ok"
    note = "; ".join(filter(None, (told["warning"], back)))
    return {"state": word, **told, "note": told["poll_error"] or note or None}


def none_there(session: "Session") -> str:
    file = session.settings.config
    why = f"{file} names none beside the queue" if file.exists() else f"there is no {file}"
    return f"no sources: {why}"


def check(session: "Session", name: str | None) -> None:
    from rota.cli.source_checks import examine_source
    from rota.config.sources import Forge

    sources = configured(session) if name is None else {name: choose(session, name)}
    if not sources:
        raise click.UsageError(f"{none_there(session)}; name one: TYPE:OWNER/REPO")
    findings = []
    for called, source in sources.items():
        if isinstance(source, Forge):
            session.output.waiting(f"an answer about {called}")
        findings += examine_source(called, source, session.settings)
    with suppress(RotaError):  # a database that cannot be opened is the doctor's concern
        findings += slow_sources(sources, known_states(session.settings))
    if session.as_json:
        session.output.document([one.told() for one in findings])
    else:
        show(findings)
    if any(one.status == FAIL for one in findings):
        raise click.exceptions.Exit(NEGATIVE)
