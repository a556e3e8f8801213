"""Stores new items: many calls in one transaction, each stored completely or not at all."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rota.model.clock import IdFactory
from rota.model.errors import InvalidInput, KeyReused, RotaError
from rota.model.work import NewItem, WorkItem
from rota.queue import claiming, intake
from rota.storage.port import RunAgain, Topic, Transaction

Fresh = tuple[str, NewItem]  # an item with its id


class Submission(NamedTuple):
    """One call: its items, and the key that makes it safe to repeat."""

    items: Sequence[NewItem]
    actor: str | None
    key: str | None = None
    request_hash: str = ""
    alone: bool = False  # no batch: an error need not say which entry it is about


class Submitted(NamedTuple):
    """`repeated` when the Idempotency-Key had been used for the same request before."""

    items: list[WorkItem]
    repeated: bool = False


def submit(
    tx: Transaction, calls: Sequence[Submission], ids: IdFactory, now: str
) -> list[Submitted | Exception]:
    """Answers every call. A call is refused before anything is written."""
    answers: dict[int, Submitted | Exception] = {}
    accepted: dict[str | int, int] = {}
    for number, call in enumerate(calls):
        early = _without_writing(tx, call)
        if early is not None:
            answers[number] = early
        else:
            accepted.setdefault(call.key or number, number)
    if accepted:
        answers |= _store(tx, {number: calls[number] for number in accepted.values()}, ids, now)
    for number, call in enumerate(calls):
        if number not in answers:  # the same key twice in one gathering
            answers[number] = _without_writing(tx, call) or AssertionError("its key was just kept")
    return [answers[number] for number in range(len(calls))]


def _without_writing(tx: Transaction, call: Submission) -> Submitted | RotaError | None:
    """The answer to a call that needs nothing stored: a repeat, or a refusal."""
    if call.key is not None and (kept := tx.find_key(call.key)):
        if kept[0] != call.request_hash:
            return KeyReused(
                f"the Idempotency-Key {call.key[:80]!r} was used for another request; use a new"
                " key for new work"
            )
        return Submitted(tx.get_items(kept[1]), repeated=True)
    for index, item in enumerate(call.items):
        if (missing := _missing(tx, item)) is not None:
            return missing if call.alone else intake.in_batch(missing, index)
    return None


def _missing(tx: Transaction, item: NewItem) -> InvalidInput | None:
    """The refusal of an item that names something that does not exist."""
    if item.project_id is not None and tx.get_project(item.project_id) is None:
        return InvalidInput(
            f"project_id: there is no project {item.project_id[:100]!r}", field="project_id"
        )
    return next((_no_blocker(one) for one in item.blocked_by if tx.get_item(one) is None), None)


def _store(
    tx: Transaction, calls: dict[int, Submission], ids: IdFactory, now: str
) -> dict[int, Submitted]:
    fresh = _with_ids(calls, ids)
    for actor, items in _by_actor(calls, fresh).items():
        tx.insert_items(items, actor, now)
        for item_id, item in items:
            if item.blocked_by:
                add_blockers(tx, item_id, item.blocked_by)
    for number, call in calls.items():
        if call.key is not None and not tx.keep_key(
            call.key, call.request_hash, [item_id for item_id, _ in fresh[number]], now
        ):
            raise RunAgain  # another process has just used the key
    tx.wake(Topic.READY)
    return {
        number: Submitted(claiming.new_items(tx, fresh[number], call.actor, now))
        for number, call in calls.items()
    }


def _with_ids(calls: Mapping[int, Submission], ids: IdFactory) -> dict[int, list[Fresh]]:
    """In the order of the calls, so that earlier calls get older ids."""
    made = iter(ids.several(sum(len(call.items) for call in calls.values())))
    return {number: [(next(made), one) for one in call.items] for number, call in calls.items()}


def _by_actor(
    calls: Mapping[int, Submission], fresh: Mapping[int, list[Fresh]]
) -> dict[str | None, list[Fresh]]:
    groups: dict[str | None, list[Fresh]] = {}
    for number, call in calls.items():
        groups.setdefault(call.actor, []).extend(fresh[number])
    return groups


def add_blockers(tx: Transaction, item_id: str, blocked_by: Sequence[str]) -> None:
    missing = tx.add_blockers(item_id, blocked_by)
    if missing:
        raise _no_blocker(missing[0])


def _no_blocker(blocker: str) -> InvalidInput:
    return InvalidInput(f"blocked_by: there is no work item {blocker[:100]!r}", field="blocked_by")
