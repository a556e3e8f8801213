"""Which source a command means: a configured one, or TYPE:OWNER/REPO."""

from typing import TYPE_CHECKING

from rota.cli.desks import refuse_url
from rota.model.errors import InvalidInput
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.sources import AnySource


def configured(session: "Session") -> "dict[str, AnySource]":
    """All sources that the configuration names, in `sources` or for an agent. If the agents cannot
    be read, the listed sources are still returned."""
    from rota.app.sources import named_sources
    from rota.config.loading import Loaded, load_fleet

    refuse_url(session)
    listed = _listed(session)  # first, so that mistakes in these are always reported
    file = session.settings.config
    try:
        loaded = load_fleet(file)
    except InvalidInput:
        if not listed:
            raise
        session.output.say(
            f"the agents of {file} cannot be read, and their sources are left out; see"
            " `rota config check`"
        )
        loaded = Loaded(sources=listed)
    return named_sources(loaded, file.absolute().parent)


def _listed(session: "Session") -> "tuple[AnySource, ...]":
    from rota.app import fleet_config

    return fleet_config(session.settings).sources


def choose(session: "Session", name: str) -> "AnySource":
    from rota.config.fleet import source_config, source_name
    from rota.sources.registry import get_work_source, is_work_source_registered

    refuse_url(session)
    for source in _listed(session):  # these need nothing that agents need
        if source_name(source) == name:
            return source
    known = _known(session)
    if name in known:
        return known[name]
    kind, colon, place = name.partition(":")
    if not colon and not is_work_source_registered(kind):
        raise InvalidInput(
            f"there is no source called {name[:100]!r}; configured are"
            f" {', '.join(known) or 'none'}, and TYPE:OWNER/REPO names any other"
        )
    if not is_work_source_registered(kind):
        get_work_source({"type": kind})  # raises, and says which types there are
    if not colon:
        return source_config({"type": kind})
    return _of_type(session, kind, place)


def _known(session: "Session") -> "dict[str, AnySource]":
    """A broken configuration must not prevent a source that needs none."""
    try:
        return configured(session)
    except InvalidInput:
        return {}


def _of_type(session: "Session", kind: str, place: str) -> "AnySource":
    from rota.app import repositories
    from rota.sources.lookup import find_repository

    same = [one for one in repositories(session.settings) if one.type == kind]
    if kind == "github":
        return find_repository(place, same, environ)
    for one in same:
        if one.repo.lower() == place.lower():
            return one
    raise InvalidInput(
        f"{kind}:{place[:100]} is not configured; add it to 'sources' in"
        f" {session.settings.config}, for only repositories on GitHub can be found by their name"
        " alone"
    )
