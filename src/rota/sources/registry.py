"""The types of work source, and how each is made.

A type comes from a call of `register_work_source`, or from an entry point of an installed package.
The built-in types are entry points too, so there is one way for all.

    [project.entry-points."rota.sources"]
    linear = "my_package:create"      # create(config, context) or create(config) -> WorkSource
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.model.clock import Clock, SystemClock
from rota.model.errors import (
    DuplicateWorkSourceError,
    InvalidInput,
    UnknownWorkSourceError,
    WorkSourceError,
)
from rota.model.work import check_name
from rota.sources.port import WorkSource
from rota.surroundings import environ

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rota.queue.ledger import Ledger

GROUP = "rota.sources"
OURS = "rota"  # our own distribution: no other package can replace its types by being installed


def _paused_repos() -> Path:
    from rota.claims.pauses import paused_repos_file  # noqa: PLC0415 - most contexts are told

    return paused_repos_file()


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What every adapter gets beside its configuration."""

    agent: str = "rota"  # the name under which claims are made
    ledger: "Ledger | None" = None
    # Not in the repr, because it holds tokens.
    environ: Mapping[str, str] = field(default_factory=lambda: environ, repr=False)
    clock: Clock = field(default_factory=SystemClock)
    directory: Path = field(default_factory=Path)  # the base of relative paths
    paused_repos: Path = field(default_factory=_paused_repos)
    # Where heartbeats keep claims alive: how long a claim lasts without its first heartbeat,
    # however long its lease is. A process may die between a claim and the start of the run.
    first_lease_seconds: float | None = None


WorkSourceFactory = Callable[[Mapping[str, Any], SourceContext], WorkSource]
AnyFactory = WorkSourceFactory | Callable[[Mapping[str, Any]], WorkSource]
Discover = Callable[[], "Iterable[EntryPoint]"]


def installed() -> "Iterable[EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and often not needed

    return entry_points(group=GROUP)


class WorkSourceRegistry:
    """Types by name. Types registered by hand win over entry points, so that a test can replace a
    built-in one."""

    def __init__(self, discover: Discover = installed) -> None:
        self._discover = discover
        self._factories: dict[str, WorkSourceFactory] = {}
        self._loaded: dict[str, WorkSourceFactory] = {}  # from entry points
        self._found: dict[str, list[EntryPoint]] | None = None

    def register(self, source_type: str, factory: AnyFactory) -> None:
        check_name(source_type, "type")
        if source_type in self._factories:
            raise DuplicateWorkSourceError(
                f"work source {source_type!r} is registered already; choose another name, or call"
                f" unregister_work_source({source_type!r}) first",
                type=source_type,
            )
        self._factories[source_type] = _with_context(factory)

    def create(self, config: Mapping[str, Any], context: SourceContext | None = None) -> WorkSource:
        config = _with_whole_repo(config)
        return self._factory(_type_of(config))(config, context or SourceContext())

    def is_registered(self, source_type: str) -> bool:
        return source_type in self._factories or source_type in self._points()

    def types(self) -> list[str]:
        return sorted({*self._factories, *self._points()})

    def unregister(self, source_type: str) -> bool:
        """Whether the type was known. An entry point of that name is forgotten too."""
        points = self._points()
        known = source_type in self._factories or source_type in points
        for kept in (self._factories, self._loaded, points):
            kept.pop(source_type, None)
        return known

    def clear(self) -> None:
        """Forget everything, until it is registered or `rediscover` is called."""
        self._factories.clear()
        self._loaded.clear()
        self._found = {}

    def rediscover(self) -> None:
        """Search entry points again at the next lookup."""
        self._loaded.clear()
        self._found = None

    def _points(self) -> "dict[str, list[EntryPoint]]":
        if self._found is None:
            self._found = {}
            for point in self._discover():
                self._found.setdefault(point.name, []).append(point)
        return self._found

    def _factory(self, source_type: str) -> WorkSourceFactory:
        known = self._factories.get(source_type) or self._loaded.get(source_type)
        if known is None:
            # An entry point that cannot be loaded is tried again at the next call.
            known = self._loaded[source_type] = _load(self._point(source_type))
        return known

    def _point(self, source_type: str) -> "EntryPoint":
        points = self._points().get(source_type, [])
        ours = [point for point in points if _package(point) == OURS]
        chosen = ours or points
        if not chosen:
            raise self._unknown(source_type)
        if len({point.value for point in chosen}) > 1:
            packages = " and ".join(sorted(_package(point) for point in chosen))
            raise DuplicateWorkSourceError(
                f"work source {source_type!r} is offered by {packages}; uninstall one, or register"
                " the one you mean with register_work_source",
                type=source_type,
            )
        return chosen[0]

    def _unknown(self, source_type: str) -> UnknownWorkSourceError:
        known = self.types()
        near = get_close_matches(source_type, known, n=1)
        return UnknownWorkSourceError(
            f"there is no work source of type {source_type[:80]!r}"
            + (f"; did you mean {near[0]!r}?" if near else ";")
            + f" Registered: {', '.join(known) or 'none'}. Install a package that offers it (entry"
            f" point group {GROUP!r}), or call register_work_source",
            type=source_type[:80],
            registered=known,
        )


def _with_context(factory: AnyFactory) -> WorkSourceFactory:
    """An adapter that needs only its configuration may be registered by its class alone."""
    from inspect import signature  # noqa: PLC0415 - slow, and only needed where types are added

    try:
        signature(factory).bind(None, None)
    except TypeError:
        alone: Any = factory
        return lambda config, _: alone(config)
    except ValueError:  # a callable of another language has no signature
        pass
    made: Any = factory
    return made  # type: ignore[no-any-return]


def _type_of(config: Mapping[str, Any]) -> str:
    source_type = config.get("type")
    if not isinstance(source_type, str) or not source_type:
        raise InvalidInput(
            "work_source needs a type, for example `type: github`", field="work_source.type"
        )
    return source_type


def _with_whole_repo(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """herdctl's programs give `owner` and `repo` separately; here `repo` is owner/name."""
    owner, repo = config.get("owner"), config.get("repo")
    if not isinstance(owner, str) or not isinstance(repo, str):
        return config
    rest = {key: value for key, value in config.items() if key != "owner"}
    return rest if "/" in repo else rest | {"repo": f"{owner}/{repo}"}


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _load(point: "EntryPoint") -> WorkSourceFactory:
    where = f"entry point {point.name!r} ({point.value}) of {_package(point)}"
    try:
        factory = point.load()
    except Exception as error:  # a foreign module may raise anything
        raise WorkSourceError(
            f"{where} cannot be loaded: {type(error).__name__}: {error}. Mend or uninstall that"
            " package; other work sources are not affected",
            type=point.name,
        ) from error
    if not callable(factory):
        raise WorkSourceError(
            f"{where} is no factory; it must be a function of (config, context) or (config)",
            type=point.name,
        )
    return _with_context(factory)


default_registry = WorkSourceRegistry()


def register_work_source(source_type: str, factory: AnyFactory) -> None:
    default_registry.register(source_type, factory)


def get_work_source(config: Mapping[str, Any], context: SourceContext | None = None) -> WorkSource:
    """A new adapter for this configuration, chosen by its `type`."""
    return default_registry.create(config, context)


def is_work_source_registered(source_type: str) -> bool:
    return default_registry.is_registered(source_type)


def get_registered_types() -> list[str]:
    return default_registry.types()


def unregister_work_source(source_type: str) -> bool:
    return default_registry.unregister(source_type)


def clear_work_source_registry() -> None:
    default_registry.clear()
