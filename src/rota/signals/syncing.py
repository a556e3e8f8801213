"""Keeps the signals of the ledger in step with the configuration."""

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
    """Names of signals that a person should hear of."""

    missed: tuple[str, ...] = ()  # not made: their time had passed before any server knew them
    contested: tuple[str, ...] = ()  # another server's file defines them differently
    left: tuple[str, ...] = ()  # active, but in no server's file


def sync(
    tx: Transaction, wanted: Sequence[NewSignal], home: str, now: str, ids: IdFactory
) -> Synced:
    """Only a signal that has changed starts over. One that has fired as often as it may, or that a
    person cancelled, stays ended."""
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
    # A missed signal is not declared, so an earlier signal of the same name may come back.
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
    """False when its time has passed."""
    if old is not None:
        cancel(tx, old, CONFIGURATION, now)
    if has_passed(new, now):
        return False
    insert(tx, signal_of(new, ids.new(), CONFIGURATION, now), now)
    return True


def _stands(old: Signal, new: NewSignal, files: Declarations) -> bool:
    """Whether the stored signal stays as it is. A cancelled signal without a declaration was let go
    by a file, so it starts over when a file has it again. One with a declaration was cancelled by a
    person, and stays cancelled."""
    if old.status is SignalStatus.CANCELLED and not files.is_known(new.name or ""):
        return False
    return _is_same(old, new)


def _take_away(tx: Transaction, files: Declarations, now: str) -> None:
    for name in files.abandoned():
        if (old := tx.declared_signal(name)) is not None:
            cancel(tx, old, CONFIGURATION, now)
        files.forget(name)


def _is_same(old: Signal, new: NewSignal) -> bool:
    """Compares the stored form, where an empty payload, for example, is none."""
    return (
        spelled(old.condition) == spelled(new.condition)
        and spelled(old.action) == spelled(new.action)
        and (old.max_fires, old.max_depth) == (new.max_fires, new.max_depth)
    )
