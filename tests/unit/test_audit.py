"""The audit finds what it is there to find: a sound ledger, doctored in every way it checks."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.app import open_ledger, open_store
from rota.model.claims import ClaimRequest
from rota.model.status import Status, Verb
from rota.testing.audit import Record, doubled, faults, lost, read_ledger
from rota.testing.standing import bring_to, order

DONE, CLAIMED, BACK, FAILED = range(4)
Doctor = Callable[[Record], Record]


@pytest.fixture
async def sound(tmp_path: Path) -> AsyncIterator[list[Record]]:
    database = str(tmp_path / "rota.db")
    async with open_ledger(database) as ledger:
        await bring_to(ledger.queue, Status.COMPLETED, "ada")
        await bring_to(ledger.queue, Status.QUEUED)
        await ledger.queue.claim(ClaimRequest("bob"))
        back = await bring_to(ledger.queue, Status.IN_PROGRESS, "cem")
        await ledger.queue.apply(order(Verb.RELEASE, back.id))
        await bring_to(ledger.queue, Status.FAILED, "dan")
    async with open_store(database) as store:
        yield await store.read(read_ledger)


async def test_a_sound_ledger_is_acquitted(sound: list[Record]) -> None:
    assert [record.item.status for record in sound] == [
        Status.COMPLETED,
        Status.IN_PROGRESS,
        Status.QUEUED,
        Status.FAILED,
    ]
    assert faults(sound) == []


def row(**values: Any) -> Doctor:
    return lambda record: replace(record, item=replace(record.item, **values))


def without_event(kind: str) -> Doctor:
    return lambda record: replace(
        record, events=[event for event in record.events if event.type != kind]
    )


def with_event_twice(kind: str) -> Doctor:
    return lambda record: replace(
        record,
        events=[e for event in record.events for e in [event] * (2 if event.type == kind else 1)],
    )


def log(**values: Any) -> Doctor:
    return lambda record: replace(record, dispatches=[replace(record.dispatches[0], **values)])


def claim(**values: Any) -> Doctor:
    def doctor(record: Record) -> Record:
        assert record.claim is not None
        return replace(record, claim=record.claim._replace(**values))

    return doctor


DOCTORS: dict[str, tuple[int, Doctor, str]] = {
    "an end without a time": (DONE, row(completed_at=None), "completed_at"),
    "a time without an end": (BACK, row(completed_at="now"), "completed_at"),
    "an outcome that does not fit": (DONE, row(outcome="failed"), "outcome"),
    "work in no slot": (CLAIMED, row(slot=None), "slot"),
    "a slot without work": (BACK, row(slot=0), "slot"),
    "a status nobody told of": (BACK, row(status=Status.BLOCKED), "the events end in"),
    "a move nobody told of": (DONE, without_event("work.started"), "leads from"),
    "a completion nobody told of": (DONE, without_event("work.completed"), "the events end in"),
    "a completion told twice": (DONE, with_event_twice("work.completed"), "accepted completions"),
    "a start told twice": (CLAIMED, with_event_twice("work.started"), "epochs"),
    "an epoch that was set back": (DONE, row(epoch=0), "epoch"),
    "a dispatch that was not closed": (DONE, log(outcome=None, completed_at=None), "dispatch"),
    "a dispatch closed as another": (BACK, log(outcome="success"), "dispatch log says"),
    "a dispatch that is not logged": (
        FAILED,
        lambda record: replace(record, dispatches=[]),
        "dispatch log says",
    ),
    "a claim that is gone": (CLAIMED, lambda record: replace(record, claim=None), "tokens"),
    "a claim with another token": (CLAIMED, claim(token="other"), "tokens"),
    "a claim of another epoch": (CLAIMED, claim(epoch=7), "not the row's"),
    "a claim of another agent": (CLAIMED, claim(agent="eve"), "not the row's"),
}


@pytest.mark.parametrize(("number", "doctor", "words"), DOCTORS.values(), ids=DOCTORS.keys())
async def test_the_audit_finds(
    sound: list[Record], number: int, doctor: Doctor, words: str
) -> None:
    sound[number] = doctor(sound[number])
    assert any(words in fault for fault in faults(sound)), faults(sound)


async def test_the_audit_finds_two_items_in_one_slot(sound: list[Record]) -> None:
    twin = replace(sound[CLAIMED], item=replace(sound[CLAIMED].item, id="twin"))
    assert any("works on 2 items in slot 0" in fault for fault in faults([*sound, twin]))


async def test_what_was_told_and_is_not_there_is_lost(sound: list[Record]) -> None:
    done, claimed = sound[DONE].item.id, sound[CLAIMED].item.id
    assert lost(sound, [done, claimed], [done]) == []
    assert lost(sound, ["ghost"], []) == ["ghost"]
    assert lost(sound, [], [claimed, "ghost"]) == [claimed, "ghost"]
    assert doubled([done, claimed]) == []
    assert doubled([done, claimed, done]) == [done]
