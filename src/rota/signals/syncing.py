"""Signals of the configuration, kept in step with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.access import CONFIGURATION
from rota.model.clock import IdFactory
from rota.model.signals import NewSignal, Signal, SignalStatus
from rota.queue.declarations import Declarations
from rota.signals.making import cancel, insert, signal_of
from rota.storage.declaration_port import DeclarationKind
from rota.storage.port import Transaction
from rota.storage.signalling import spelled


@dataclass(frozen=True, slots=True)
class Synced:
    """What a person should hear of, by the names of signals."""

    missed: tuple[str, ...] = ()  # their time had passed before anybody knew them: not made
    contested: tuple[str, ...] = ()  # another server has them otherwise
    left: tuple[str, ...] = ()  # active, and in no server's file


def sync(
    tx: Transaction, wanted: Sequence[NewSignal], home: str, now: str, ids: IdFactory
) -> Synced:
    """Only what has changed begins anew. What has fired as often as it may, or was cancelled by a
    person, stays so."""
    files = Declarations(tx, DeclarationKind.SIGNAL, home, now)
    missed, contested = [], []
    for new in wanted:
        name = new.name or ""
        old = tx.declared_signal(name)
        if old is not None and _stands(old, new, files):
            continue
        if old is not None and files.is_shared(name):
            contested.append(name)
        if not _begin_anew(tx, old, new, now, ids):
            missed.append(name)
    # One that was not made is not known either: whatever its name stood for before may come back.
    ours = {new.name or "" for new in wanted} - {*missed}
    files.declare(ours)
    _take_away(tx, files, now)
    active = [one.name or "" for one in tx.named_signals()]
    left = [name for name in active if name not in ours and not files.is_shared(name)]
    return Synced(tuple(missed), tuple(contested), tuple(left))


def let_go(tx: Transaction, home: str, now: str) -> None:
    _take_away(tx, Declarations(tx, DeclarationKind.SIGNAL, home, now), now)


def has_passed(new: NewSignal, now: str) -> bool:
    return new.condition.at is not None and new.condition.at <= now


def _begin_anew(
    tx: Transaction, old: Signal | None, new: NewSignal, now: str, ids: IdFactory
) -> bool:
    """False: its time has passed."""
    if old is not None:
        cancel(tx, old, CONFIGURATION, now)
    if has_passed(new, now):
        return False
    insert(tx, signal_of(new, ids.new(), CONFIGURATION, now), now)
    return True


def _stands(old: Signal, new: NewSignal, files: Declarations) -> bool:
    """A cancelled one that no file has had since was let go by a file: it comes back with it. Else
    a person has cancelled it."""
    if old.status is SignalStatus.CANCELLED and not files.is_known(new.name or ""):
        return False
    return _is_same(old, new)


def _take_away(tx: Transaction, files: Declarations, now: str) -> None:
    for name in files.abandoned():
        if (old := tx.declared_signal(name)) is not None:
            cancel(tx, old, CONFIGURATION, now)
        files.forget(name)


def _is_same(old: Signal, new: NewSignal) -> bool:
    """As it is stored: an empty payload, for one, is none there."""
    return (
        spelled(old.condition) == spelled(new.condition)
        and spelled(old.action) == spelled(new.action)
        and (old.max_fires, old.max_depth) == (new.max_fires, new.max_depth)
    )
