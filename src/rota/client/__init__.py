"""The client of the API, for asyncio and for threads.

    from rota.client import WorkQueueClient

    async with WorkQueueClient() as client:              # ROTA_URL and ROTA_TOKEN
        await client.work_add("bug_fix", "Mend the gate", {"gate": 3})
        async with client.work(agent="smith") as work:
            async for item in work:
                await item.complete(notes="mended")

`SyncWorkQueueClient` has the same methods without `await`. Both are made of one text: `_sync`
is generated from `_async`. Errors are those of `rota.model.errors`, with `ConnectionFailed` and
`ServerFailed` beside them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.client._async.claimed import ClaimedItem as ClaimedItem
    from rota.client._async.client import WorkQueueClient as WorkQueueClient
    from rota.client._async.follow_ups import ClaimedFollowUp as ClaimedFollowUp
    from rota.client._async.follow_ups import FollowUps as FollowUps
    from rota.client._async.loop import Work as Work
    from rota.client._sync.client import SyncWorkQueueClient as SyncWorkQueueClient
    from rota.client.errors import ConnectionFailed as ConnectionFailed
    from rota.client.errors import ServerFailed as ServerFailed
    from rota.client.errors import ServerUnavailable as ServerUnavailable
    from rota.client.retries import Retries as Retries
    from rota.model.errors import BadCursor as BadCursor
    from rota.model.errors import ClaimedByAnother as ClaimedByAnother
    from rota.model.errors import ClaimLost as ClaimLost
    from rota.model.errors import Forbidden as Forbidden
    from rota.model.errors import InReviewLimit as InReviewLimit
    from rota.model.errors import InvalidInput as InvalidInput
    from rota.model.errors import KeyReused as KeyReused
    from rota.model.errors import MissingRequirement as MissingRequirement
    from rota.model.errors import NoFreeSlot as NoFreeSlot
    from rota.model.errors import NotFound as NotFound
    from rota.model.errors import Refused as Refused
    from rota.model.errors import RotaError as RotaError
    from rota.model.errors import StorageUnavailable as StorageUnavailable
    from rota.model.errors import TransitionRefused as TransitionRefused
    from rota.model.errors import Unauthenticated as Unauthenticated
    from rota.model.errors import VersionMismatch as VersionMismatch

# Imported on first use: the command line needs only one side, and asyncio is slow to import.
_HOMES = {
    "ClaimedFollowUp": "_async.follow_ups:ClaimedFollowUp",
    "ClaimedItem": "_async.claimed:ClaimedItem",
    "FollowUps": "_async.follow_ups:FollowUps",
    "WorkQueueClient": "_async.client:WorkQueueClient",
    "Work": "_async.loop:Work",
    "SyncWorkQueueClient": "_sync.client:SyncWorkQueueClient",
    "ConnectionFailed": "errors:ConnectionFailed",
    "ServerFailed": "errors:ServerFailed",
    "ServerUnavailable": "errors:ServerUnavailable",
    "Retries": "retries:Retries",
}
# The refusals that a caller of the API may want to catch.
_REFUSALS = frozenset(
    {
        "BadCursor",
        "ClaimLost",
        "ClaimedByAnother",
        "Forbidden",
        "InReviewLimit",
        "InvalidInput",
        "KeyReused",
        "MissingRequirement",
        "NoFreeSlot",
        "NotFound",
        "Refused",
        "RotaError",
        "StorageUnavailable",
        "TransitionRefused",
        "Unauthenticated",
        "VersionMismatch",
    }
)
__all__ = sorted({*_HOMES, *_REFUSALS})  # noqa: PLE0605 - the one list of names is above


def __getattr__(name: str) -> Any:
    if name in _REFUSALS:
        return getattr(import_module("rota.model.errors"), name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute)
