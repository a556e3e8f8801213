"""The client's calls against a served app: a method per call, and errors by their class."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import rota.client
from rota.api import ApiSettings
from rota.client import ConnectionFailed, Retries, SyncWorkQueueClient, WorkQueueClient
from rota.model.errors import (
    ClaimLost,
    Forbidden,
    InvalidInput,
    KeyReused,
    MissingRequirement,
    NoFreeSlot,
    NotFound,
    TransitionRefused,
    Unauthenticated,
    VersionMismatch,
)
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve
from tools.generate_sync_client import out_of_step


def test_every_name_of_the_client_can_be_imported_and_refusals_are_those_of_the_model() -> None:
    assert [name for name in rota.client.__all__ if not hasattr(rota.client, name)] == []
    assert (rota.client.ClaimLost, rota.client.TransitionRefused) == (ClaimLost, TransitionRefused)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[WorkQueueClient]:
    async with WorkQueueClient(served.url, actor="marcus-a") as client:
        yield client


@pytest.fixture
def sync_client(served: Served) -> Iterator[SyncWorkQueueClient]:
    with SyncWorkQueueClient(served.url, actor="marcus-a") as client:
        yield client


# one core


def test_the_sync_client_is_what_is_generated_from_the_async_one() -> None:
    assert out_of_step() == [], "run: python -m tools.generate_sync_client"


def test_both_clients_offer_the_same_calls() -> None:
    def calls(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    asynchronous = calls(WorkQueueClient)
    asynchronous["close"] = asynchronous.pop("aclose")
    assert asynchronous == calls(SyncWorkQueueClient)


# the dispatcher's methods


async def test_work_add_submits_an_item_with_everything_that_was_said(
    client: WorkQueueClient,
) -> None:
    project = await client.create_project("Shopping list", "todoist:123")
    first = await client.work_add("chore", "Wait for me")
    item = await client.work_add(
        "code_review",
        "Review PR #3",
        {"pr": 3},
        "steve-w",
        project["id"],
        priority=2,
        body="Please look at the tests.",
        labels=["urgent"],
        blocked_by=[first["id"]],
        max_attempts=5,
    )
    assert (item["status"], item["assigned_agent"]) == ("queued", "steve-w")
    assert (item["payload"], item["priority"], item["labels"]) == ({"pr": 3}, 2, ["urgent"])
    assert (item["open_blockers"], item["max_attempts"]) == (1, 5)
    assert item["created_by"] == "marcus-a"


async def test_the_same_key_and_item_are_submitted_once(client: WorkQueueClient) -> None:
    first = await client.work_add("chore", "Once", idempotency_key="k1")
    again = await client.work_add("chore", "Once", idempotency_key="k1")
    assert again["id"] == first["id"]
    with pytest.raises(KeyReused):
        await client.work_add("chore", "Something else", idempotency_key="k1")


@pytest.mark.parametrize("key", ["", "a\nb", "a b", "é", "x" * 151])
async def test_a_key_that_would_not_arrive_as_it_is_is_refused(
    client: WorkQueueClient, key: str
) -> None:
    with pytest.raises(InvalidInput, match="printable ASCII"):
        await client.work_add("chore", "Once", idempotency_key=key)
    assert [one async for one in client.work_each()] == []


async def test_two_calls_without_a_key_are_two_items(client: WorkQueueClient) -> None:
    first = await client.work_add("chore", "The same words")
    second = await client.work_add("chore", "The same words")
    assert first["id"] != second["id"]


async def test_many_items_are_submitted_all_or_none(client: WorkQueueClient) -> None:
    batch = [{"type": "chore", "description": f"Number {n}"} for n in range(3)]
    assert len(await client.work_add_many(batch)) == 3
    with pytest.raises(InvalidInput):
        await client.work_add_many([*batch, {"type": "chore", "description": ""}])
    assert len(await client.work_list()) == 3


async def test_work_dispatch_names_the_agent_and_marks_it_as_picked_up(
    client: WorkQueueClient,
) -> None:
    item = await client.work_add("bug_fix", "Mend it")
    started = await client.work_dispatch(item["id"], "steve-w")
    assert (started["status"], started["assigned_agent"]) == ("in_progress", "steve-w")
    other = await client.work_add("bug_fix", "Mend that")
    dispatched = await client.work_dispatch(other["id"], "steve-w", start=False)
    assert dispatched["status"] == "dispatched"
    with pytest.raises(NoFreeSlot):
        await client.start(other["id"])


async def test_work_update_moves_an_item_to_the_status_named(client: WorkQueueClient) -> None:
    item = await client.work_add("bug_fix", "Mend it")
    await client.work_dispatch(item["id"], "steve-w")
    done = await client.work_update(item["id"], "completed", "success", "merged")
    assert (done["outcome"], done["notes"]) == ("success", "merged")
    with pytest.raises(TransitionRefused) as refused:
        await client.work_update(item["id"], "in_progress")
    assert refused.value.details["allowed"] == []
    assert refused.value.details["item_status"] == "completed"


async def test_work_stale_check_blocks_what_was_quiet_for_half_an_hour(
    client: WorkQueueClient, clock: ManualClock
) -> None:
    item = await client.work_add("bug_fix", "Mend it")
    await client.work_dispatch(item["id"], "steve-w")
    assert (await client.work_stale_check())["blocked"] == []
    clock.advance(31 * 60)
    assert (await client.work_stale_check())["blocked"] == [item["id"]]
    assert (await client.work_get(item["id"]))["status"] == "blocked"


async def test_lists_are_read_page_by_page_to_their_end(
    client: WorkQueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client._async.calls.MAX_PAGE", 2)
    batch = [{"type": "chore", "description": str(n), "priority": 1 + n % 5} for n in range(7)]
    await client.work_add_many(batch)
    everything = await client.work_list()
    assert len({item["id"] for item in everything}) == 7
    assert [item["priority"] for item in everything] == sorted(1 + n % 5 for n in range(7))
    assert await client.work_list(limit=3) == everything[:3]
    assert await client.work_list(limit=4) == everything[:4]
    assert await client.work_list(["completed", "failed"]) == []
    for n in range(3):
        await client.create_project(f"Project {n}")
    assert [one["name"] for one in await client.list_projects()] == [
        "Project 0",
        "Project 1",
        "Project 2",
    ]


async def test_lists_are_filtered(client: WorkQueueClient, clock: ManualClock) -> None:
    old = await client.work_add("chore", "Sweep the yard", agent="ann", labels=["yard"])
    clock.advance(60)
    new = await client.work_add("bug_fix", "Mend the gate", agent="bob")

    async def found(**filters: str) -> list[str]:
        return [item["id"] for item in await client.work_list(**filters)]  # type: ignore[arg-type]

    assert await found(agent="ann") == [old["id"]]
    assert await found(type="bug_fix") == [new["id"]]
    assert await found(label="yard") == [old["id"]]
    assert await found(q="gate") == [new["id"]]
    assert await found(since=clock.text(-30)) == [new["id"]]
    assert await found(status="queued") == [old["id"], new["id"]]


# the rest of the verbs


async def test_an_item_goes_through_all_verbs(client: WorkQueueClient) -> None:
    item = await client.work_add("chore", "Travel")
    work = item["id"]
    await client.dispatch(work, "ann")
    begun = await client.start(work, lease_seconds=60)
    token = begun["claim"]["token"]
    assert (await client.heartbeat(work, token, progress="half"))["id"] == work
    assert (await client.note(work, "on the way", token=token))["notes"] == "on the way"
    assert (await client.block(work, "the road is closed", token))["status"] == "blocked"
    token = (await client.resume(work, lease_seconds=60))["claim"]["token"]
    review = await client.hand_over(work, "https://example.org/1", token)
    assert review["status"] == "in_review"
    assert (await client.reopen(work))["status"] == "queued"
    [claimed] = await client.claim("ann")
    token = claimed["claim"]["token"]
    assert (await client.fail(work, token, notes="no"))["status"] == "failed"
    assert (await client.retry(work))["status"] == "queued"
    [claimed] = await client.claim("ann")
    assert (await client.release(work, claimed["claim"]["token"]))["status"] == "queued"
    assert (await client.cancel(work))["status"] == "cancelled"


async def test_many_items_are_completed_at_once_with_one_answer_each(
    client: WorkQueueClient,
) -> None:
    await client.set_agent("ann", max_concurrent=2)
    for n in range(2):
        await client.work_add("chore", str(n))
    claimed = await client.claim("ann", limit=2)
    entries = [{"id": item["id"], "token": item["claim"]["token"]} for item in claimed]
    entries[1]["token"] = "stale"
    good, bad = await client.complete_many(entries)
    assert (good["ok"], good["item"]["status"]) == (True, "completed")
    assert (bad["ok"], bad["error"]["code"]) == (False, "claim_lost")


async def test_an_empty_claim_comes_with_its_reason(client: WorkQueueClient) -> None:
    assert await client.claim_or_reason("ann") == ([], "nothing_ready")
    await client.set_agent("ann", paused=True)
    await client.work_add("chore", "Later")
    assert await client.claim_or_reason("ann") == ([], "agent_paused")


async def test_an_edit_changes_what_is_named_and_clears_what_is_none(
    client: WorkQueueClient,
) -> None:
    item = await client.work_add("chore", "Old words", body="long", labels=["a"])
    edited = await client.edit(item["id"], description="New words", body=None, priority=1)
    assert (edited["description"], edited["body"], edited["labels"]) == ("New words", None, ["a"])
    with pytest.raises(VersionMismatch):
        await client.edit(item["id"], version=item["version"], priority=5)
    with pytest.raises(InvalidInput):
        await client.edit(item["id"], no_such_field=1)


async def test_a_hold_keeps_an_item_and_is_explained(client: WorkQueueClient) -> None:
    item = await client.work_add("chore", "Not yet")
    await client.hold(item["id"], "wait for the budget")
    assert await client.claim("ann") == []
    told = await client.explain(item["id"])
    assert (told["claimable"], told["reasons"][0]["code"]) == (False, "held")
    await client.unhold(item["id"])
    assert len(await client.claim("ann")) == 1


async def test_projects_agents_and_tokens_are_kept(client: WorkQueueClient) -> None:
    project = await client.create_project("Old name", "ref")
    await client.update_project(project["id"], name="New name", external_ref=None)
    found = await client.get_project(project["id"])
    assert (found["name"], found["external_ref"]) == ("New name", None)
    assert (await client.set_agent("ann", max_concurrent=3))["max_concurrent"] == 3
    assert [one["name"] for one in await client.agents()] == ["ann"]
    assert (await client.health())["status"] == "ok"


async def test_tokens_open_and_close_the_server(served: Served, client: WorkQueueClient) -> None:
    admin = await client.create_token("boss", ["admin"])
    with pytest.raises(Unauthenticated):
        await client.work_list()
    async with WorkQueueClient(served.url, admin["secret"]) as boss:
        reader = await boss.create_token("reader", ["read"])
        assert {one["name"] for one in await boss.tokens()} == {"boss", "reader"}
        async with WorkQueueClient(served.url, reader["secret"]) as guest:
            assert await guest.work_list() == []
            with pytest.raises(Forbidden):
                await guest.work_add("chore", "Not mine to say")
        await boss.revoke_token(reader["id"])
        with pytest.raises(NotFound):
            await boss.revoke_token(reader["id"])


async def test_address_and_token_come_from_the_environment(
    served: Served, client: WorkQueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = (await client.create_token("boss", ["admin"]))["secret"]
    monkeypatch.setenv("ROTA_URL", served.url)
    monkeypatch.setenv("ROTA_TOKEN", secret)
    async with WorkQueueClient() as boss:
        assert len(await boss.tokens()) == 1


async def test_what_is_ready_is_judged_by_the_clock_of_the_server(
    client: WorkQueueClient, clock: ManualClock
) -> None:
    item = await client.work_add("chore", "In a while", available_at=clock.text(3600))
    assert [one async for one in client.work_ready()] == []
    clock.advance(3600)
    assert [one["id"] async for one in client.work_ready()] == [item["id"]]


async def test_a_token_may_be_in_a_file(
    served: Served, client: WorkQueueClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text((await client.create_token("boss", ["admin"]))["secret"] + "\n")
    monkeypatch.setenv("ROTA_TOKEN_FILE", str(file))
    async with WorkQueueClient(served.url) as boss:
        assert len(await boss.tokens()) == 1


# what is refused


async def test_refusals_are_errors_of_the_one_tree(client: WorkQueueClient) -> None:
    with pytest.raises(NotFound):
        await client.work_get("nothing")
    with pytest.raises(InvalidInput) as invalid:
        await client.work_add("chore", "Too urgent", priority=9)
    assert invalid.value.details["errors"][0]["field"] == "priority"
    item = await client.work_add("chore", "Somebody")
    with pytest.raises(MissingRequirement):
        await client.work_update(item["id"], "dispatched")
    [claimed] = await client.claim("ann")
    with pytest.raises(ClaimLost):
        await client.complete(item["id"], "not-the-token")
    assert claimed["id"] == item["id"]


@pytest.mark.parametrize("odd", ["", ".", "..", "a/b", "ä", "\x00", "\udcff", "%2e%2e", "x" * 300])
async def test_what_is_no_id_is_not_found_whatever_it_looks_like(
    client: WorkQueueClient, odd: str
) -> None:
    with pytest.raises(NotFound):
        await client.work_get(odd)


async def test_an_id_cannot_lead_to_another_call(client: WorkQueueClient) -> None:
    item = await client.work_add("chore", "Stay")
    with pytest.raises(NotFound):
        await client.work_get(f"{item['id']}/explain")
    with pytest.raises(InvalidInput):
        await client.set_agent("ann/../../work", paused=True)


@pytest.mark.parametrize(
    "payload", [float("nan"), {1, 2}, "\udcff", object()], ids=["nan", "set", "surrogate", "object"]
)
async def test_what_json_cannot_say_is_refused_before_it_is_sent(
    client: WorkQueueClient, payload: object
) -> None:
    with pytest.raises(InvalidInput):
        await client.work_add("chore", "Odd", payload)
    assert await client.work_list() == []


async def test_an_actor_of_any_letters_reaches_the_log_and_cannot_forge_headers(
    served: Served, sync_client: SyncWorkQueueClient
) -> None:
    for kind in (WorkQueueClient, SyncWorkQueueClient):
        odd = kind(served.url, actor="Zoë\r\nX-Evil: 1")
        item = odd.work_add("chore", "Who?")
        made = await item if inspect.isawaitable(item) else item
        assert made["created_by"] == "ZoëX-Evil: 1"
        await odd.aclose() if isinstance(odd, WorkQueueClient) else odd.close()


async def test_an_address_that_is_none_is_refused() -> None:
    for url in (
        "nonsense", "ftp://x", "http://", "http://a:99999", "http://a:0", "http://me:pw@host",
        "http://a b",
    ):  # fmt: skip
        for kind in (WorkQueueClient, SyncWorkQueueClient):
            with pytest.raises(InvalidInput):
                kind(url)
    for url in ("http://127.0.0.1:1", f"http://{'x' * 70}.invalid"):
        client = SyncWorkQueueClient(url, retries=Retries(attempts=1))
        with pytest.raises(ConnectionFailed) as failed:
            client.work_list()
        assert not failed.value.sent


def test_a_token_is_forgiven_its_line_feed_and_nothing_else() -> None:
    SyncWorkQueueClient("http://127.0.0.1:1", "rota_abc\n")
    for odd in ("rota_\r\nX-Evil: 1", "rota_ä"):
        with pytest.raises(InvalidInput):
            SyncWorkQueueClient("http://127.0.0.1:1", odd)


# events


async def test_watch_gives_events_as_they_happen(client: WorkQueueClient) -> None:
    await client.work_add("chore", "Before")
    events = client.watch(types=["work.submitted"])
    waiting = asyncio.ensure_future(anext(events))
    during = []
    async with asyncio.timeout(30):
        while not waiting.done():  # what happens before it listens is the past
            during.append((await client.work_add("chore", "During"))["id"])
    event = await waiting
    assert event["type"] == "work.submitted"
    assert event["work_item_id"] in during
    await events.aclose()  # type: ignore[attr-defined]


async def test_watch_gives_the_past_behind_a_number(client: WorkQueueClient) -> None:
    first = await client.work_add("chore", "One")
    second = await client.work_add("chore", "Two")
    seen = []
    async for event in client.watch(0):
        seen.append(event["work_item_id"])
        if len(seen) == 2:
            break
    assert seen == [first["id"], second["id"]]
    assert [one["seq"] for one in await client.events(1)] == [2]
    mine = await client.events(work_item_id=first["id"])
    assert [one["type"] for one in mine] == ["work.submitted"]


async def test_a_wrong_filter_ends_the_watch_with_an_error(client: WorkQueueClient) -> None:
    with pytest.raises(InvalidInput):
        await anext(client.watch(types=["no.such.type"]))


def test_the_sync_client_makes_the_same_calls(sync_client: SyncWorkQueueClient) -> None:
    item = sync_client.work_add("chore", "Threads", idempotency_key="k")
    assert sync_client.work_dispatch(item["id"], "ann")["status"] == "in_progress"
    assert sync_client.work_update(item["id"], "completed", "success")["status"] == "completed"
    events = sync_client.watch(0)
    assert [next(events)["type"] for _ in range(4)] == [
        "work.submitted",
        "work.dispatched",
        "work.started",
        "work.completed",
    ]
    with pytest.raises(NotFound):
        sync_client.work_get("nothing")


@pytest.mark.parametrize("path", ["rota", "café", "old and new"])
def test_a_server_under_a_path_is_asked_there(database: str, path: str) -> None:
    """As behind a proxy; whatever the Link header says, the client goes on asking there."""
    with (
        serve(database, ApiSettings(trusted=True)) as served,
        SyncWorkQueueClient(f"{served.url}/{path}/") as client,
        pytest.raises(NotFound) as error,
    ):
        client.work_list()
    assert f"/{path}/work" in error.value.message
