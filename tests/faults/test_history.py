"""The judge itself: a sound history is acquitted, and each doctored twin of it is found out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rota.app import open_queue
from rota.model.claims import ClaimRequest
from rota.model.events import Event, EventType
from rota.model.status import Status
from rota.model.work import NewItem
from rota.testing.audit import Record
from tests.faults.history import Answers, Ledger, Verdict, judge, read

History = tuple[Ledger, Answers]


@pytest.fixture
async def sound(tmp_path: Path) -> History:
    """Three items completed one after the other by one agent in one slot, on a real database."""
    url, answers = f"sqlite:///{tmp_path}/rota.db", Answers()
    async with open_queue(url) as queue:
        for key in ("first", "second", "third"):
            item = await queue.submit(NewItem("chore", key))
            answers.submitted.append((key, item.id))
            (one,) = (await queue.claim(ClaimRequest("ada"))).items
            answers.seen.append(("ada", item.id, one.item.version, "in_progress"))
            done = await queue.complete(item.id, token=one.claim.token)
            answers.completed.append((item.id, one.claim.epoch))
            answers.seen.append(("ada", item.id, done.version, "completed"))
    return await read(url), answers


async def test_a_sound_history_is_acquitted(sound: History) -> None:
    assert judge(*sound).faults == []
    assert str(judge(*sound)).startswith("3 items, 12 events: 0 lost, 0 doubled")


def with_record(ledger: Ledger, number: int, record: Record | None) -> Ledger:
    records = list(ledger.records)
    records[number : number + 1] = [] if record is None else [record]
    return replace(ledger, records=records)


def a_lost_acknowledgement(ledger: Ledger, answers: Answers) -> Ledger:
    return with_record(ledger, 1, None)


def a_lost_completion(ledger: Ledger, answers: Answers) -> Ledger:
    """The server said `completed`, crashed, and had not stored it."""
    record = ledger.records[2]
    item = replace(record.item, status=Status.IN_PROGRESS, completed_at=None, outcome=None, slot=0)
    return with_record(ledger, 2, replace(record, item=item, events=record.events[:-1]))


def an_item_stored_twice(ledger: Ledger, answers: Answers) -> Ledger:
    """The same key, twice in the table; only one of them was told."""
    twin = replace(ledger.records[0], item=replace(ledger.records[0].item, id="twin"))
    return replace(ledger, records=[*ledger.records, twin])


def a_key_answered_with_two_items(ledger: Ledger, answers: Answers) -> Ledger:
    answers.submitted.append(("first", answers.submitted[1][1]))
    return ledger


def a_doubled_completion(ledger: Ledger, answers: Answers) -> Ledger:
    record = ledger.records[0]
    again = replace(record.events[-1], seq=99)
    return with_record(ledger, 0, replace(record, events=[*record.events, again]))


def two_holders_told_that_they_completed_it(ledger: Ledger, answers: Answers) -> Ledger:
    answers.completed.append((ledger.records[0].item.id, 2))
    return ledger


def a_status_that_went_back(ledger: Ledger, answers: Answers) -> Ledger:
    """Completed, then queued again without anybody's retry."""
    record = ledger.records[1]
    back = replace(record.events[0], seq=98, from_status=Status.COMPLETED)
    item = replace(record.item, status=Status.QUEUED, completed_at=None, outcome=None)
    return with_record(ledger, 1, replace(record, item=item, events=[*record.events, back]))


def an_older_version_seen_later(ledger: Ledger, answers: Answers) -> Ledger:
    answers.seen.append(("ada", ledger.records[0].item.id, 1, "queued"))
    return ledger


def a_version_that_the_restart_undid(ledger: Ledger, answers: Answers) -> Ledger:
    record = ledger.records[0]
    return with_record(ledger, 0, replace(record, item=replace(record.item, version=2)))


def a_status_that_was_never_logged(ledger: Ledger, answers: Answers) -> Ledger:
    answers.seen.append(("bob", ledger.records[0].item.id, 2, "blocked"))
    return ledger


def moved(record: Record, kind: EventType, seq: int) -> Record:
    def at(event: Event) -> Event:
        return replace(event, seq=seq) if event.type == kind else event

    return replace(record, events=[at(event) for event in record.events])


def two_items_in_one_slot(ledger: Ledger, answers: Answers) -> Ledger:
    """The first ends only after the second was started."""
    return with_record(ledger, 0, moved(ledger.records[0], EventType.COMPLETED, 97))


def two_owners_of_one_item(ledger: Ledger, answers: Answers) -> Ledger:
    record = ledger.records[0]
    started = next(event for event in record.events if event.type == EventType.STARTED)
    taken_again = replace(started, seq=started.seq, agent="bob", epoch=2)
    events = sorted([*record.events, taken_again], key=lambda event: event.seq)
    slots = ledger.slots | {(record.item.id, 2): ("bob", 0)}
    return Ledger(with_record(ledger, 0, replace(record, events=events)).records, slots)


def a_row_that_the_log_does_not_tell_of(ledger: Ledger, answers: Answers) -> Ledger:
    record = ledger.records[2]
    return with_record(ledger, 2, replace(record, events=record.events[:2]))


TWINS: list[tuple[Callable[[Ledger, Answers], Ledger], str]] = [
    (a_lost_acknowledgement, "lost"),
    (a_lost_completion, "lost"),
    (an_item_stored_twice, "doubled"),
    (a_key_answered_with_two_items, "doubled"),
    (a_doubled_completion, "doubled"),
    (two_holders_told_that_they_completed_it, "doubled"),
    (a_status_that_went_back, "regressed"),
    (an_older_version_seen_later, "regressed"),
    (a_version_that_the_restart_undid, "regressed"),
    (a_status_that_was_never_logged, "regressed"),
    (two_items_in_one_slot, "shared"),
    (two_owners_of_one_item, "shared"),
    (a_row_that_the_log_does_not_tell_of, "disagreeing"),
]


@pytest.mark.parametrize(("doctor", "kind"), TWINS, ids=[twin.__name__ for twin, _ in TWINS])
async def test_the_judge_finds(
    sound: History, doctor: Callable[[Ledger, Answers], Ledger], kind: str
) -> None:
    ledger, answers = sound
    verdict: Verdict = judge(doctor(ledger, answers), answers)
    assert getattr(verdict, kind), verdict
