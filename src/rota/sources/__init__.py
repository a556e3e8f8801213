"""Sources: how items are fetched from them, claimed, reported and given back.

    from rota.sources import SourceContext, WorkSourceManager, register_work_source

    register_work_source("linear", lambda config, context: LinearWorkSource(config["team"]))
    async with WorkSourceManager(SourceContext(ledger=ledger)) as sources:
        item, claimed, _ = await sources.get_next_work_item(agent)

`port` is the contract of an adapter; `rota.testing.source_contract` tests an adapter against it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.model.errors import DuplicateWorkSourceError as DuplicateWorkSourceError
    from rota.model.errors import UnknownWorkSourceError as UnknownWorkSourceError
    from rota.model.errors import WorkSourceError as WorkSourceError
    from rota.model.work import Priority as Priority
    from rota.sources.manager import NextWorkItem as NextWorkItem
    from rota.sources.manager import WorkSourceManager as WorkSourceManager
    from rota.sources.port import ClaimFailureReason as ClaimFailureReason
    from rota.sources.port import ClaimResult as ClaimResult
    from rota.sources.port import FetchOptions as FetchOptions
    from rota.sources.port import FetchResult as FetchResult
    from rota.sources.port import ReleaseOptions as ReleaseOptions
    from rota.sources.port import ReleaseResult as ReleaseResult
    from rota.sources.port import WorkItem as WorkItem
    from rota.sources.port import WorkOutcome as WorkOutcome
    from rota.sources.port import WorkResult as WorkResult
    from rota.sources.port import WorkSource as WorkSource
    from rota.sources.registry import SourceContext as SourceContext
    from rota.sources.registry import WorkSourceFactory as WorkSourceFactory
    from rota.sources.registry import WorkSourceRegistry as WorkSourceRegistry
    from rota.sources.registry import clear_work_source_registry as clear_work_source_registry
    from rota.sources.registry import get_registered_types as get_registered_types
    from rota.sources.registry import get_work_source as get_work_source
    from rota.sources.registry import is_work_source_registered as is_work_source_registered
    from rota.sources.registry import register_work_source as register_work_source
    from rota.sources.registry import unregister_work_source as unregister_work_source

# Resolved on first access, so that importing a port does not load asyncio.
_HOMES = {
    "rota.model.errors": (
        "DuplicateWorkSourceError",
        "UnknownWorkSourceError",
        "WorkSourceError",
    ),
    "rota.model.work": ("Priority",),
    "rota.sources.manager": ("NextWorkItem", "WorkSourceManager"),
    "rota.sources.port": (
        "ClaimFailureReason",
        "ClaimResult",
        "FetchOptions",
        "FetchResult",
        "ReleaseOptions",
        "ReleaseResult",
        "WorkItem",
        "WorkOutcome",
        "WorkResult",
        "WorkSource",
    ),
    "rota.sources.registry": (
        "SourceContext",
        "WorkSourceFactory",
        "WorkSourceRegistry",
        "clear_work_source_registry",
        "get_registered_types",
        "get_work_source",
        "is_work_source_registered",
        "register_work_source",
        "unregister_work_source",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - the one list of names is above


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
