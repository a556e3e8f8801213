"""Reading: lists, pages, history, explanations, counts."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rota.model.claims import ClaimRequest
from rota.model.errors import BadCursor, InvalidInput, NotFound, VersionMismatch
from rota.model.runs import RunFilter, RunStatus
from rota.model.signals import FollowUpStatus
from rota.model.status import Status, Verb
from rota.model.work import NewItem
from rota.queue import Ledger, WorkQueue
from rota.queue.views import Query, Views
from rota.signals import Signals
from rota.storage.port import Store
from rota.testing.clock import ManualClock
from rota.testing.standing import bring_to, order


async def listed(views: Views, **values: Any) -> list[str]:
    page = await views.items(Query(**values))
    return [item.id for item in page.items]


async def paged(views: Views, size: int, **values: Any) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await views.items(Query(limit=size, cursor=cursor, **values))
        assert len(page.items) <= size
        found += [item.id for item in page.items]
        if page.cursor is None:
            return found
        assert len(page.items) == size
        cursor = page.cursor


# lists


async def test_a_list_goes_by_priority_then_age(queue: WorkQueue, views: Views) -> None:
    low = await bring_to(queue, Status.COMPLETED, "a", priority=5)
    first = await bring_to(queue, Status.QUEUED)
    second = await bring_to(queue, Status.IN_PROGRESS, "b")
    high = await bring_to(queue, Status.FAILED, "c", priority=1)
    assert await listed(views) == [high.id, first.id, second.id, low.id]
    assert await listed(views, statuses=("completed", "in_progress")) == [second.id, low.id]


LATELY = ManualClock().text(-60)
QUICK = {
    "everything": Query(),
    "by status": Query(("queued", "completed")),
    "by project": Query(("completed",), project_id="p"),
    "what an agent has to do": Query(("dispatched", "in_progress"), agent="ada"),
    "what is new": Query(since=LATELY),
    "by the beginning of ids": Query(id_prefix="019d"),
}
SLOW = {
    "many": Query(limit=101),
    "by type": Query(type="bug"),
    "by label": Query(("completed",), label="red"),
    "by text": Query(q="gate"),
    "by agent": Query(agent="ada"),
    "what an agent has done": Query(("completed",), agent="ada"),
    "by agent and project": Query(("queued",), agent="ada", project_id="p"),
    "by status and age": Query(("blocked",), since=LATELY),
    "what has ended lately": Query(("completed",), since=LATELY),
    "by project and age": Query(project_id="p", since=LATELY),
    "by status and the beginning of ids": Query(("failed",), id_prefix="019d"),
    "what has changed lately": Query(updated_since=LATELY),
    "what is ready": Query(ready=True),
}


@pytest.mark.parametrize("query", QUICK.values(), ids=QUICK)
async def test_a_list_that_stands_together_in_an_index_is_read_at_once(
    views: Views, beside: list[bool], query: Query
) -> None:
    await views.items(query)
    assert beside == [False]


@pytest.mark.parametrize("query", SLOW.values(), ids=SLOW)
async def test_a_list_that_may_pass_over_much_finished_work_keeps_nobody_waiting(
    views: Views, beside: list[bool], query: Query
) -> None:
    await views.items(query)
    assert beside == [True]


async def test_events_that_are_looked_for_by_type_keep_nobody_waiting(
    views: Views, beside: list[bool]
) -> None:
    """The log is read from there to its end where none is of that type."""
    await views.events(types=("project.created",), limit=1)
    await views.events(work_item_id="x")
    await views.events(5)
    assert beside == [True, False, False]


async def test_what_is_looked_for_among_all_that_ever_ran_or_followed_keeps_nobody_waiting(
    ledger: Ledger, store: Store, beside: list[bool]
) -> None:
    signals = Signals(store)
    await ledger.runs.find(RunFilter(statuses=(RunStatus.LOST,)))
    await ledger.admission.standing("ada")
    await signals.find(work_item_id="x")
    await signals.follow_ups(FollowUpStatus.OPEN)
    assert beside == [True] * 4


async def test_a_list_is_narrowed_by_what_is_asked(queue: WorkQueue, views: Views) -> None:
    project = await queue.create_project("p")
    bug = await bring_to(queue, Status.QUEUED, type="bug", labels=("red",), project_id=project.id)
    await queue.set_agent("ada", max_concurrent=2)
    docs = await bring_to(queue, Status.IN_PROGRESS, "ada", type="docs", body="About Bugs")
    done = await bring_to(queue, Status.COMPLETED, "ada", labels=("red",))
    cases: list[tuple[dict[str, Any], Sequence[str]]] = [
        ({}, [bug.id, docs.id, done.id]),
        ({"statuses": ("queued",)}, [bug.id]),
        ({"statuses": ("queued", "queued")}, [bug.id]),
        ({"agent": "ada"}, [docs.id, done.id]),
        ({"agent": "ada", "statuses": ("completed",)}, [done.id]),
        ({"project_id": project.id}, [bug.id]),
        ({"project_id": "ghost"}, []),
        ({"type": "docs"}, [docs.id]),
        ({"label": "red"}, [bug.id, done.id]),
        ({"label": "red", "type": "bug"}, [bug.id]),
        ({"q": "bugs"}, [docs.id]),
        ({"q": "HELLO"}, [bug.id, docs.id, done.id]),
        ({"q": "%"}, []),
    ]
    for asked, expected in cases:
        assert await listed(views, **asked) == list(expected), asked


async def test_since_means_created_after(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    await bring_to(queue, Status.QUEUED, priority=1)
    moment = clock.text()
    assert await listed(views, since=moment) == []
    clock.advance(1)
    young = await bring_to(queue, Status.QUEUED)
    younger = await bring_to(queue, Status.QUEUED, priority=1)
    assert await listed(views, since=moment) == [young.id, younger.id]  # by age, not priority
    assert await listed(views, since=moment, statuses=("queued", "completed")) == [
        young.id,
        younger.id,
    ]
    assert await listed(views, since=clock.text()) == []


async def test_since_means_completed_after_where_only_ends_are_asked_for(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    early = await bring_to(queue, Status.COMPLETED, "a")
    running = await bring_to(queue, Status.IN_PROGRESS, "b")
    clock.advance(60)
    moment = clock.text()
    clock.advance(60)
    await queue.apply(order(Verb.COMPLETE, running.id))
    cancelled = await bring_to(queue, Status.CANCELLED)
    assert await listed(views, since=moment, statuses=("completed",)) == [running.id]
    assert await listed(views, since=moment, statuses=("completed", "cancelled", "failed")) == [
        running.id,
        cancelled.id,
    ]
    # Asked for together with a status that has no end, it means created after again.
    assert await listed(views, since=moment, statuses=("completed", "queued")) == []
    assert early.id not in await listed(views, since=moment)


async def test_updated_since(queue: WorkQueue, views: Views, clock: ManualClock) -> None:
    old = await bring_to(queue, Status.QUEUED)
    await bring_to(queue, Status.QUEUED)
    moment = clock.text()
    clock.advance(1)
    await queue.note(old.id, "news")
    assert await listed(views, updated_since=moment) == [old.id]


async def test_an_id_is_found_by_its_beginning(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    first = await bring_to(queue, Status.COMPLETED)
    clock.advance(3600)
    second, third = [await bring_to(queue, Status.QUEUED) for _ in range(2)]
    begins = second.id[:13]  # of one moment
    assert begins != first.id[: len(begins)]
    assert await listed(views, id_prefix=first.id[: len(begins)]) == [first.id]
    assert await listed(views, id_prefix=begins) == [second.id, third.id]
    assert await listed(views, id_prefix=begins, statuses=("completed",)) == []
    assert await listed(views, id_prefix=second.id) == [second.id]
    page = await views.items(Query(id_prefix=begins, limit=1))
    behind = await views.items(Query(id_prefix=begins, limit=1, cursor=page.cursor))
    assert [item.id for item in page.items + behind.items] == [second.id, third.id]


async def test_what_is_ready_is_what_a_claim_takes_in_its_order(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    low = await queue.submit(NewItem("noop", "low", priority=4))
    high = await queue.submit(NewItem("noop", "high", priority=1))
    mine = await bring_to(queue, Status.DISPATCHED, "ada")
    await queue.submit(NewItem("noop", "waits", blocked_by=(low.id,)))
    held = await queue.submit(NewItem("noop", "held"))
    await queue.hold(held.id, "not now")
    await queue.submit(NewItem("noop", "theirs", source="github:o/r", source_ref="1"))
    due = await queue.submit(NewItem("noop", "later", priority=5, available_at=clock.text(60)))
    await bring_to(queue, Status.COMPLETED, "bob")
    await bring_to(queue, Status.IN_PROGRESS, "cleo")
    assert await listed(views, ready=True) == [high.id, mine.id, low.id]
    assert await listed(views, ready=True, statuses=("queued", "failed")) == [high.id, low.id]
    assert await listed(views, ready=True, agent="ada") == [mine.id]
    clock.advance(60)
    assert await listed(views, ready=True) == [high.id, mine.id, low.id, due.id]
    taken = await queue.claim(ClaimRequest("dora"))
    assert [one.item.id for one in taken.items] == [high.id]
    assert await listed(views, ready=True) == [mine.id, low.id, due.id]


async def test_what_has_ended_is_not_ready(queue: WorkQueue, views: Views) -> None:
    await bring_to(queue, Status.COMPLETED)
    await bring_to(queue, Status.QUEUED)
    assert await listed(views, ready=True, statuses=("completed", "failed")) == []


async def test_since_reads_every_way_to_write_a_time(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    for text in ("2026-05-01T11:59:59Z", "2026-05-01T13:59:59+02:00", "2026-05-01", "0001-01-01"):
        assert await listed(views, since=text) == [item.id]
    for text in ("2026-05-01T12:00:00Z", "9999-12-31T23:59:59Z"):
        assert await listed(views, since=text) == []


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("status", {"statuses": ("done",)}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": 1_001}),
        ("since", {"since": "yesterday"}),
        ("updated_since", {"updated_since": "2026-13-01"}),
        ("id_prefix", {"id_prefix": "0190%"}),
        ("id_prefix", {"id_prefix": ""}),
        ("q", {"q": ""}),
        ("q", {"q": "a\x00b"}),
        ("agent", {"agent": "\ud800"}),
        ("label", {"label": "x" * 501}),
    ],
)
async def test_a_question_that_cannot_be_right(
    views: Views, field: str, values: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await views.items(Query(**values))
    assert refused.value.details["field"] == field


# pages


@pytest.mark.parametrize("by_age", [False, True], ids=["by priority", "by age"])
async def test_pages_show_everything_once_while_others_submit(
    queue: WorkQueue, views: Views, by_age: bool
) -> None:
    batch = [NewItem("chore", str(n), priority=1 + n % 5) for n in range(1_000)]
    there = {item.id for item in (await queue.submit_many(batch)).items}
    since = {"since": "2026-01-01"} if by_age else {}
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await views.items(Query(limit=50, cursor=cursor, **since))
        found += [item.id for item in page.items]
        if page.cursor is None:
            break
        cursor = page.cursor
        await queue.submit_many([NewItem("chore", "new", priority=p) for p in range(1, 6)])
    assert len(found) == len(set(found))
    assert there <= set(found)


async def test_pages_may_be_narrowed(queue: WorkQueue, views: Views) -> None:
    batch = [
        NewItem("abc"[n % 3], str(n), priority=1 + n % 2, labels=("x",) if n % 2 else ())
        for n in range(40)
    ]
    await queue.submit_many(batch)
    for asked in ({}, {"type": "a"}, {"label": "x"}, {"type": "b", "label": "x"}):
        assert await paged(views, 3, **asked) == await listed(views, limit=100, **asked), asked


async def test_the_last_page_has_no_cursor(queue: WorkQueue, views: Views) -> None:
    await queue.submit_many([NewItem("chore", "x")] * 10)
    assert (await views.items(Query(limit=10))).cursor is None
    page = await views.items(Query(limit=9))
    assert page.cursor is not None
    assert len((await views.items(Query(limit=9, cursor=page.cursor))).items) == 1


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


BAD_CURSORS = [
    "",
    "x",
    "é",
    "\ud800",
    "%%%",
    "====",
    packed([]),
    packed({}),
    packed("w"),
    packed(None),
    packed(["w"]),
    packed(["a", 3, "id"]),
    packed(["p", "id"]),
    packed(["w", 3]),
    packed(["w", 3, "id", "more"]),
    packed(["w", "3", "id"]),
    packed(["w", 3.5, "id"]),
    packed(["w", 10**40, "id"]),
    packed(["w", -1, "id"]),
    packed(["w", None, "id"]),
    packed(["w", 3, None]),
    packed(["w", 3, ["id"]]),
    packed(["w", 3, "a\x00b"]),
    packed(["w", 3, "ключ"]),
    base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    base64.urlsafe_b64encode(b"\xff\xfe").decode(),
]


@pytest.mark.parametrize("cursor", BAD_CURSORS, ids=range(len(BAD_CURSORS)))
async def test_a_cursor_that_we_did_not_make_is_refused(views: Views, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await views.items(Query(cursor=cursor))
    with pytest.raises(BadCursor):
        await views.projects(cursor=cursor if cursor != packed(["p", "id"]) else "x")


async def test_a_cursor_of_a_list_in_another_order_is_refused(
    queue: WorkQueue, views: Views
) -> None:
    await queue.submit_many([NewItem("chore", "x")] * 3)
    cursor = (await views.items(Query(limit=1))).cursor
    with pytest.raises(BadCursor):
        await views.items(Query(limit=1, cursor=cursor, since="2026-01-01"))


async def test_projects_come_in_pages(queue: WorkQueue, views: Views) -> None:
    made = [await queue.create_project(str(n)) for n in range(7)]
    found, cursor = [], None
    while True:
        page = await views.projects(3, cursor)
        found += page.projects
        cursor = page.cursor
        if cursor is None:
            break
    assert found == made


# one item, events, counts


async def test_a_detail_tells_the_whole_story(queue: WorkQueue, views: Views) -> None:
    blocker = await bring_to(queue, Status.COMPLETED, "bob")
    item = await queue.submit(NewItem("chore", "x", blocked_by=(blocker.id,)))
    (got,) = (await queue.claim(ClaimRequest("ada"))).items
    detail = await views.detail(item.id)
    assert (detail.item, detail.claim) == (got.item, got.claim)
    assert [event.type for event in detail.events] == [
        "work.submitted",
        "work.dispatched",
        "work.started",
    ]
    assert [(one.agent, one.outcome) for one in detail.dispatch_log] == [("ada", None)]
    assert [link.blocker_id for link in detail.blocked_by] == [blocker.id]
    assert [link.item_id for link in (await views.detail(blocker.id)).blocks] == [item.id]


async def test_events_are_read_in_order_and_filtered(queue: WorkQueue, views: Views) -> None:
    first = await bring_to(queue, Status.COMPLETED)
    second = await bring_to(queue, Status.CANCELLED)
    everything = await views.events(limit=1_000)
    assert [event.seq for event in everything] == sorted(event.seq for event in everything)
    assert {event.work_item_id for event in everything} == {first.id, second.id}
    mine = await views.events(work_item_id=first.id)
    assert [event.to_status for event in mine] == [
        "queued",
        "dispatched",
        "in_progress",
        "completed",
    ]
    ends = await views.events(types=("work.completed", "work.cancelled"))
    assert [event.work_item_id for event in ends] == [first.id, second.id]
    assert await views.events(after=everything[-1].seq) == []
    assert await views.events(after=everything[2].seq, limit=2) == everything[3:5]
    assert await views.last_event() == everything[-1].seq
    assert await views.events(after=-5, limit=1) == everything[:1]


async def test_an_event_of_no_type_or_no_number(queue: WorkQueue, views: Views) -> None:
    item = await bring_to(queue, Status.QUEUED)
    with pytest.raises(InvalidInput) as refused:
        await views.events(types=("work.done",))
    assert refused.value.details["field"] == "type"
    for after in (2**63 - 1, 2**63, 10**30):
        try:
            assert await views.events(after=after) == []
        except InvalidInput:
            assert after >= 2**63
    for version in (2**63, 10**30, -(10**30)):
        with pytest.raises((InvalidInput, VersionMismatch)):
            await queue.apply(order(Verb.CANCEL, item.id, version=version))


async def test_counts_and_loads(ledger: Ledger) -> None:
    for status in Status:
        await bring_to(ledger.queue, status, f"a-{status.replace('_', '-')}")
    assert await ledger.views.counts() == dict.fromkeys(Status, 1)
    loads = {load.agent.name: load for load in await ledger.views.agents()}
    assert (loads["a-in-progress"].in_progress, loads["a-dispatched"].dispatched) == (1, 1)
    assert set(loads) == {"a-in-progress", "a-dispatched"}


async def test_a_column_of_what_has_ended_goes_backwards_page_by_page(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    await queue.set_agent("ada", max_concurrent=9)
    before = await bring_to(queue, Status.COMPLETED, type="bug")
    clock.advance(10)
    since = clock.text(-1)
    ended = []
    for number in range(5):
        clock.advance(number % 2)  # some end in the same moment
        ended.append(await bring_to(queue, Status.COMPLETED, type="bug", labels=(f"l{number}",)))
    await bring_to(queue, Status.FAILED)
    wanted = Query(type="bug", since=since, limit=2)
    found, cursor = [], None
    for size in (2, 2, 1):
        page = await views.column(Status.COMPLETED, replace(wanted, cursor=cursor))
        assert len(page.items) == size
        found += [item.id for item in page.items]
        cursor = page.cursor
    assert cursor is None
    assert found == [item.id for item in reversed(ended)]
    everything = await views.column(Status.COMPLETED, Query())
    assert [item.id for item in everything.items] == [*found, before.id]
    one = await views.column(Status.COMPLETED, Query(label="l3"))
    assert [item.id for item in one.items] == [ended[3].id]
    with pytest.raises(BadCursor):
        await views.column(Status.COMPLETED, Query(cursor="nonsense"))


async def test_a_tally_counts_up_to_its_limit_and_obeys_the_filters(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    await queue.set_agent("ada", max_concurrent=9)
    for number in range(4):
        await queue.submit(NewItem("bug" if number else "chore", "x", labels=("red",)))
    await bring_to(queue, Status.COMPLETED)
    clock.advance(60)
    await bring_to(queue, Status.COMPLETED)
    asked = (Status.QUEUED, Status.COMPLETED, Status.BLOCKED)
    assert await views.tally(Query(statuses=asked), 100) == dict(zip(asked, (4, 2, 0), strict=True))
    assert await views.tally(Query(statuses=asked), 2) == dict(zip(asked, (2, 2, 0), strict=True))
    narrow = Query(statuses=(Status.QUEUED,), type="bug", label="red", q="X")
    assert await views.tally(narrow, 100) == {Status.QUEUED: 3}
    today = Query(statuses=(Status.COMPLETED,), since=clock.text(-1))
    assert await views.tally(today, 100) == {Status.COMPLETED: 1}


async def test_a_living_database_says_so(views: Views) -> None:
    await views.alive()


# explanations


async def codes(views: Views, item_id: str) -> list[str]:
    explained = await views.explain(item_id)
    assert explained.summary == explained.reasons[0].message
    return [reason.code for reason in explained.reasons]


async def claimable(views: Views, item_id: str) -> bool:
    return (await views.explain(item_id)).claimable


STANDS = {
    Status.QUEUED: "nobody_asked",
    Status.DISPATCHED: "waits_for_agent",
    Status.IN_PROGRESS: "no_sign_of_life",  # nobody has claimed it, and nobody runs
    Status.BLOCKED: "blocked",
    Status.IN_REVIEW: "in_review",
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


@pytest.mark.parametrize("status", Status)
async def test_every_status_explains_itself(queue: WorkQueue, views: Views, status: Status) -> None:
    item = await bring_to(queue, status)
    assert await codes(views, item.id) == [STANDS[status]]
    assert await claimable(views, item.id) == (status in (Status.QUEUED, Status.DISPATCHED))
    explained = await views.explain(item.id)
    final = status in (Status.COMPLETED, Status.CANCELLED)
    assert (explained.reasons[0].fix is None) == final


async def test_what_kept_an_item_back_does_not_matter_once_it_cannot_begin_any_more(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    blocker = await bring_to(queue, Status.QUEUED)
    item = await bring_to(
        queue, Status.QUEUED, blocked_by=(blocker.id,), available_at=clock.text(60)
    )
    await queue.hold(item.id, "wait for Monday")
    await queue.apply(order(Verb.CANCEL, item.id))
    assert await codes(views, item.id) == ["cancelled"]


async def test_an_explanation_names_what_stands_before(queue: WorkQueue, views: Views) -> None:
    for _ in range(3):
        await bring_to(queue, Status.QUEUED, priority=1)
    item = await bring_to(queue, Status.QUEUED)
    assert await codes(views, item.id) == ["behind_others"]
    assert "3 items" in (await views.explain(item.id)).summary


async def test_an_explanation_stops_counting_at_a_thousand(queue: WorkQueue, views: Views) -> None:
    await queue.submit_many([NewItem("chore", "x", priority=1)] * 1_000)
    item = await bring_to(queue, Status.QUEUED)
    assert "1000 items or more" in (await views.explain(item.id)).summary


async def test_an_explanation_names_every_obstacle(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    blocker = await bring_to(queue, Status.QUEUED)
    item = await bring_to(
        queue,
        Status.QUEUED,
        assigned_agent="ada",
        blocked_by=(blocker.id,),
        available_at=clock.text(60),
    )
    await queue.hold(item.id, "wait for Monday")
    await queue.set_agent("ada", paused=True)
    busy = await bring_to(queue, Status.IN_PROGRESS, "ada")
    assert await codes(views, item.id) == [
        "held",
        "blocked_by",
        "not_due",
        "agent_paused",
        "no_free_slot",
        "named",
    ]
    assert await claimable(views, item.id) is False
    await queue.unhold(item.id)
    await queue.apply(order(Verb.COMPLETE, busy.id))
    clock.advance(60)
    assert await codes(views, item.id) == ["blocked_by", "agent_paused", "named"]
    await queue.apply(order(Verb.DISPATCH, blocker.id, agent="bob"))
    await queue.apply(order(Verb.START, blocker.id))
    await queue.apply(order(Verb.COMPLETE, blocker.id))
    assert await codes(views, item.id) == ["agent_paused", "named"]
    await queue.set_agent("ada", paused=False)
    assert await codes(views, item.id) == ["named"]
    assert await claimable(views, item.id) is True
    assert len((await queue.claim(ClaimRequest("ada"))).items) == 1


async def test_a_dispatched_item_explains_what_keeps_its_agent(
    queue: WorkQueue, views: Views
) -> None:
    item = await bring_to(queue, Status.DISPATCHED, "ada")
    await bring_to(queue, Status.IN_PROGRESS, "ada")
    assert await codes(views, item.id) == ["no_free_slot", "waits_for_agent"]
    assert await claimable(views, item.id) is False


async def test_a_lease_is_explained_while_it_runs_and_after(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    item = await bring_to(queue, Status.QUEUED)
    (got,) = (await queue.claim(ClaimRequest("ada", lease_seconds=60))).items
    assert await codes(views, item.id) == ["in_progress"]
    assert (got.claim.expires_at or "?") in (await views.explain(item.id)).summary
    clock.advance(60)
    assert await codes(views, item.id) == ["lease_expired"]


async def test_an_exhausted_item_explains_itself(ledger: Ledger, clock: ManualClock) -> None:
    item = await bring_to(ledger.queue, Status.QUEUED, max_attempts=1)
    await ledger.queue.claim(ClaimRequest("ada", lease_seconds=60))
    clock.advance(60)
    await ledger.sweeper.tick()
    assert "attempts_exhausted" in (await ledger.views.explain(item.id)).summary


async def test_an_item_that_waits_after_a_failed_try_says_why(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    item = await bring_to(queue, Status.QUEUED)
    (got,) = (await queue.claim(ClaimRequest("ada", lease_seconds=60))).items
    given_back = {"reason": "failure", "notes": "the ink is frozen"}
    await queue.apply(
        order(
            Verb.RELEASE, item.id, token=got.claim.token, available_at=clock.text(60), **given_back
        )
    )
    assert (await views.explain(item.id)).summary == (
        f"it is not available before {clock.text(60)}; it was given back after attempt 1 of 3"
        " (failure): the ink is frozen"
    )


async def test_an_item_that_waits_says_once_what_is_both_reason_and_notes(
    queue: WorkQueue, views: Views, clock: ManualClock
) -> None:
    item = await bring_to(queue, Status.QUEUED)
    (got,) = (await queue.claim(ClaimRequest("ada", lease_seconds=60))).items
    why = f"attempt 1 failed: {'the ink is frozen ' * 20}"
    again = {"available_at": clock.text(60), "reason": why, "notes": f"{why}\nand the pen"}
    await queue.apply(order(Verb.RELEASE, item.id, token=got.claim.token, **again))
    summary = (await views.explain(item.id)).summary
    assert summary.count("attempt 1 failed") == 1
    assert (summary.count("the ink is frozen"), summary[-1]) == (10, "…")


async def test_the_first_priority_is_not_told_to_be_raised(queue: WorkQueue, views: Views) -> None:
    await bring_to(queue, Status.QUEUED, priority=1)
    first = await bring_to(queue, Status.QUEUED, priority=1)
    second = await bring_to(queue, Status.QUEUED, priority=2)
    (behind,), (lower,) = [(await views.explain(one.id)).reasons for one in (first, second)]
    assert (behind.code, behind.fix) == ("behind_others", "wait, or add agents")
    assert lower.fix == f"add agents, or raise its priority: rota edit {second.id} --priority 1"


async def test_nothing_explains_what_is_not_there(views: Views) -> None:
    with pytest.raises(NotFound):
        await views.explain("ghost")
