"""Who may call: tokens, scopes, agents' own items, and what web pages may not do."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings, Mount, auth, browser, create_app
from rota.api.asgi import Receive, Scope, Send
from rota.api.problems import BadHost, TooManyFailures
from rota.app import open_ledger
from rota.model.errors import Unauthenticated
from rota.model.status import Verb
from rota.model.work import WorkItem
from rota.queue.moves import Order
from rota.testing.clock import ManualClock
from rota.testing.served import Served, serve

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

GOOD = {"type": "chore", "description": "do it"}

Asks = Callable[[str | None], httpx2.Client]


def token(served: Served, *scopes: str, expires_at: str | None = None) -> str:
    _, secret = served.run(lambda: served.ledger.tokens.create(scopes[0], scopes, expires_at))
    return secret


@pytest.fixture
def asks(served: Served) -> Iterator[Asks]:
    """`asks(secret)`: a client with this token."""
    clients: list[httpx2.Client] = []

    def made(secret: str | None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        clients.append(httpx2.Client(base_url=served.url, headers=headers, timeout=30))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


def code(answer: httpx2.Response) -> tuple[int, str | None]:
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return answer.status_code, answer.json()["code"] if is_problem else None


# tokens


def test_without_tokens_everyone_may_do_all_and_may_give_a_name(http: httpx2.Client) -> None:
    for given, kept in (
        (b"marcus-a", "marcus-a"),
        ("Jörg \u202egnorw".encode(), "Jörg gnorw"),
        (b"x" * 300, "x" * 100),
        (b"", "local"),
    ):
        item = http.post("/work", json=GOOD, headers={"Rota-Actor": given}).json()
        assert item["created_by"] == kept


def test_the_first_token_closes_the_server_at_once(asks: Asks) -> None:
    anyone = asks(None)
    made = anyone.post("/tokens", json={"name": "boss", "scopes": ["admin"]})
    secret = made.json()["secret"]
    assert made.status_code == 201
    assert secret.startswith("rota_")
    refused = anyone.get("/work")
    assert code(refused) == (401, "unauthenticated")
    assert refused.headers["www-authenticate"] == "Bearer"
    boss = asks(secret)
    listed = boss.get("/tokens")
    assert [one["name"] for one in listed.json()] == ["boss"]
    assert secret not in listed.text
    assert boss.post("/work", json=GOOD).json()["created_by"] == "boss"


def test_without_a_token_only_health_answers(served: Served, asks: Asks) -> None:
    good = token(served, "admin")
    served.api._gate.forget()
    anyone = asks(None)
    assert anyone.get("/health").status_code == 200
    for path in ("/work", "/metrics", "/docs", "/openapi.json", "/events", "/nope", "/tokens"):
        assert code(anyone.get(path)) == (401, "unauthenticated"), path
    wrong = ("", "Bearer", "Basic cm90YTpyb3Rh", "rota_x", "Bearer é".encode())
    for header in (*wrong, good, f"Basic {good}", f"Token {good}", f"Bearer{good}"):
        answer = anyone.get("/work", headers={"Authorization": header})
        assert answer.status_code == 401, header


def test_a_revoked_token_is_refused_at_once(served: Served, asks: Asks) -> None:
    boss, worker = asks(token(served, "admin")), asks(token(served, "work"))
    assert worker.get("/work").status_code == 200
    wanted = next(one for one in boss.get("/tokens").json() if one["name"] == "work")
    assert boss.delete(f"/tokens/{wanted['id']}").status_code == 204
    assert code(worker.get("/work")) == (401, "unauthenticated")
    assert code(boss.delete(f"/tokens/{wanted['id']}")) == (404, "not_found")


def test_revoking_the_last_token_does_not_open_the_server(asks: Asks) -> None:
    anyone = asks(None)
    made = anyone.post("/tokens", json={"name": "boss", "scopes": ["admin"]}).json()
    assert asks(made["secret"]).delete(f"/tokens/{made['id']}").status_code == 204
    assert code(anyone.get("/work")) == (401, "unauthenticated")


def test_an_expired_token_is_refused(database: str, clock: ManualClock) -> None:
    settings = ApiSettings(remember_seconds=0)
    with serve(database, settings, clock=clock) as served:
        token(served, "admin")
        short = token(served, "read", expires_at=clock.text(60))
        with httpx2.Client(
            base_url=served.url, headers={"Authorization": f"Bearer {short}"}
        ) as http:
            assert http.get("/work").status_code == 200
            clock.advance(61)
            assert code(http.get("/work")) == (401, "unauthenticated")


def test_a_server_for_others_stays_closed_when_its_last_token_is_gone(database: str) -> None:
    with serve(database, ApiSettings(host="0.0.0.0")) as served:
        assert code(httpx2.get(f"{served.url}/work")) == (401, "unauthenticated")
        assert httpx2.get(f"{served.url}/health").status_code == 200
    with serve(database, ApiSettings(host="0.0.0.0", insecure=True)) as served:
        assert httpx2.get(f"{served.url}/work").status_code == 200


def test_wrong_tokens_are_counted_and_then_not_listened_to(database: str) -> None:
    with serve(database, ApiSettings(auth_failures=3, remember_seconds=0)) as served:
        good = {"Authorization": f"Bearer {token(served, 'admin')}"}
        fresh = {"Authorization": f"Bearer {token(served, 'read')}"}
        with httpx2.Client(base_url=served.url) as http:
            assert http.get("/work", headers=good).status_code == 200
            for n in range(3):
                wrong = {"Authorization": f"Bearer rota_{n}"}
                assert code(http.get("/work", headers=wrong)) == (401, "unauthenticated")
            limited = http.get("/work", headers={"Authorization": "Bearer rota_4"})
            assert code(limited) == (429, "too_many_failures")
            assert 1 <= int(limited.headers["retry-after"]) <= 61
            # Nobody can try tokens here now, not even right ones; who was known is not locked out.
            assert code(http.get("/work", headers=fresh)) == (429, "too_many_failures")
            assert http.get("/work", headers=good).status_code == 200
            assert code(http.get("/work")) == (401, "unauthenticated")


def test_who_was_good_is_listened_to_also_when_tokens_change_while_others_guess(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MOST_REMEMBERED", 3)
    with serve(database, ApiSettings(auth_failures=3)) as served:
        boss, worker, other = (
            {"Authorization": f"Bearer {token(served, scope)}"}
            for scope in ("admin", "work", "read")
        )
        with httpx2.Client(base_url=served.url) as http:
            for known in (other, worker, boss):
                assert http.get("/work", headers=known).status_code == 200
            for n in range(4):
                http.get("/work", headers={"Authorization": f"Bearer rota_{n}"})
            made = http.post("/tokens", json={"name": "n", "scopes": ["read"]}, headers=boss)
            for known in (worker, boss, other):
                assert http.get("/work", headers=known).status_code == 200
            gone = http.delete(f"/tokens/{made.json()['id']}", headers=boss)
            assert gone.status_code == 204
            assert http.get("/work", headers=worker).status_code == 200
            # What was revoked has no such right, and is a wrong token like any other.
            mine = next(
                one for one in http.get("/tokens", headers=boss).json() if one["name"] == "work"
            )
            http.delete(f"/tokens/{mine['id']}", headers=boss)
            assert code(http.get("/work", headers=worker)) == (401, "unauthenticated")
            assert code(http.get("/work", headers=worker)) == (429, "too_many_failures")


async def test_of_many_good_tokens_the_latest_are_remembered(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MOST_REMEMBERED", 3)
    async with open_ledger(database) as ledger:
        gate = auth.Gate(ledger.tokens, ApiSettings(auth_failures=1, remember_seconds=0))
        a, b, c, d = [(await ledger.tokens.create(f"t{n}", ["read"]))[1] for n in range(4)]
        for secret in (a, b, c, a, d):
            await gate.sign_in(secret, "here")
            assert len(gate._callers) <= 3
        with pytest.raises(Unauthenticated):
            await gate.sign_in("rota_wrong", "here")
        for secret in (a, c, d):
            await gate.sign_in(secret, "here")
        with pytest.raises(TooManyFailures):
            await gate.sign_in(b, "here")


async def test_who_guesses_from_ever_new_addresses_fills_no_memory(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MOST_REMEMBERED", 3)
    now = 0.0
    settings = ApiSettings(auth_failures=1, auth_window_seconds=60)
    async with open_ledger(database) as ledger:
        gate = auth.Gate(ledger.tokens, settings, monotonic=lambda: now)

        async def guess(address: str) -> None:
            with pytest.raises(Unauthenticated):
                await gate.sign_in("rota_wrong", address)

        await guess("a")
        now = 30.0
        await guess("b")
        await guess("c")
        now = 70.0  # only the window of the first is over
        await guess("d")
        for known in ("b", "c", "d"):
            with pytest.raises(TooManyFailures):
                await gate.sign_in("rota_wrong", known)
        await guess("e")  # there is no room beside the three that count
        assert len(gate._failures._seen) == 1
        for n in range(20):
            await guess(f"f{n}")
            assert len(gate._failures._seen) <= 3


async def test_wrong_tokens_are_counted_by_the_minute_and_not_for_ever(database: str) -> None:
    now = 0.0
    settings = ApiSettings(auth_failures=2, auth_window_seconds=60)
    async with open_ledger(database) as ledger:
        gate = auth.Gate(ledger.tokens, settings, monotonic=lambda: now)

        async def hears(at: float) -> str:
            nonlocal now
            now = at
            with pytest.raises((Unauthenticated, TooManyFailures)) as refused:
                await gate.sign_in("rota_wrong", "here")
            return refused.value.code

        wrong, barred = Unauthenticated.code, TooManyFailures.code
        assert [await hears(at) for at in (0.0, 61.0, 122.0, 123.0)] == [wrong] * 4
        assert await hears(181.0) == barred
        assert await hears(182.0) == wrong  # a minute after the first of the two


async def test_ever_new_cookies_that_are_refused_fill_no_memory(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MOST_REMEMBERED", 3)
    async with open_ledger(database) as ledger:
        await ledger.tokens.create("boss", ["admin"])
        gate = auth.Gate(ledger.tokens, ApiSettings(auth_failures=100))
        for n in range(10):
            with pytest.raises(Unauthenticated):
                await gate.caller({b"cookie": f"rota_token=rota_{n}".encode()}, "here")
            assert 1 <= len(gate._stale) <= 3


# scopes

READ_CALLS = [
    ("GET", "/work", None),
    ("GET", "/work/ITEM", None),
    ("GET", "/work/ITEM/explain", None),
    ("GET", "/projects", None),
    ("GET", "/events", None),
    ("GET", "/agents", None),
    ("GET", "/runs", None),
    ("GET", "/runs/x", None),
    ("GET", "/runs/x/log", None),
    ("GET", "/outbox", None),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
    ("GET", "/docs", None),
]
WORK_CALLS = [
    ("POST", "/work", GOOD),
    ("POST", "/work/batch", [GOOD]),
    ("POST", "/work/claim", {"agent": "ann"}),
    ("POST", "/work/complete", [{"id": "x"}]),
    ("PATCH", "/work/ITEM", {"notes": "x"}),
    ("PATCH", "/work/ITEM", {"description": "x"}),
    ("POST", "/work/ITEM/note", {"notes": "x"}),
    ("POST", "/work/ITEM/heartbeat", {"token": "x"}),
    ("POST", "/runs", {"agent": "ann", "work_item_id": "ITEM", "token": "x"}),
    ("POST", "/runs/x/log", None),
    ("POST", "/runs/x/end", {"status": "failed"}),
    *(
        ("POST", f"/work/ITEM/{verb}", {})
        for verb in ("start", "complete", "fail", "block", "resume", "hand_over", "release")
    ),
]
DISPATCH_CALLS = [
    ("POST", "/projects", {"name": "p"}),
    ("PATCH", "/projects/PROJECT", {"name": "p"}),
    ("PATCH", "/agents/ann", {"paused": False}),
    ("POST", "/sweep", None),
    ("POST", "/runs/x/cancel", None),
    ("POST", "/outbox/x/retry", None),
    ("PATCH", "/work/ITEM", {"priority": 1}),
    ("PATCH", "/work/ITEM", {"assigned_agent": "ann"}),
    ("PATCH", "/work/ITEM", {"blocked_by": []}),
    ("PATCH", "/work/ITEM", {"available_at": None}),
    ("PATCH", "/work/ITEM", {"max_attempts": 5}),
    ("PATCH", "/work/ITEM", {"project_id": None}),
    ("PATCH", "/work/ITEM", {"status": "dispatched", "assigned_agent": "ann"}),
    ("PATCH", "/work/ITEM", {"status": "cancelled"}),
    ("POST", "/work/ITEM/release", {"force": True}),
    ("PATCH", "/work/ITEM", {"notes": "x", "force": True}),
    ("DELETE", "/work/ITEM", None),
    ("POST", "/work/ITEM/hold", {"reason": "x"}),
    *(
        ("POST", f"/work/ITEM/{verb}", {})
        for verb in ("dispatch", "cancel", "retry", "reopen", "unhold")
    ),
]
ADMIN_CALLS = [
    ("GET", "/tokens", None),
    ("POST", "/tokens", {"name": "t", "scopes": ["read"]}),
    ("DELETE", "/tokens/x", None),
]


@pytest.mark.parametrize(
    ("scope", "reach"), [("read", 1), ("work", 2), ("agent:ann", 2), ("dispatch", 3), ("admin", 4)]
)
def test_a_scope_opens_its_own_calls_and_no_others(
    served: Served, asks: Asks, scope: str, reach: int
) -> None:
    boss, caller = asks(token(served, "admin")), asks(token(served, scope))
    project = boss.post("/projects", json={"name": "p"}).json()["id"]
    for level, calls in enumerate((READ_CALLS, WORK_CALLS, DISPATCH_CALLS, ADMIN_CALLS), 1):
        for method, path, body in calls:
            item = boss.post("/work", json={**GOOD, "assigned_agent": "ann"}).json()["id"]
            path = path.replace("ITEM", item).replace("PROJECT", project)  # noqa: PLW2901
            before = boss.get(f"/work/{item}").json()["version"]
            answer = caller.request(method, path, json=body)
            if level <= reach:
                assert answer.status_code not in {401, 403}, (method, path, body, answer.text)
            else:
                assert code(answer) == (403, "forbidden"), (method, path, body, answer.text)
                assert answer.json()["required"], answer.text
                assert boss.get(f"/work/{item}").json()["version"] == before
    assert len(boss.get("/tokens").json()) == (3 if reach == 4 else 2)


def test_who_may_only_work_cannot_retry_or_reopen_by_patch(served: Served, asks: Asks) -> None:
    boss, worker = asks(token(served, "admin")), asks(token(served, "work"))
    item = boss.post("/work", json=GOOD).json()["id"]
    [claimed] = worker.post("/work/claim", json={"agent": "ann"}).json()
    failed = {"status": "failed", "outcome": "failed", "token": claimed["claim"]["token"]}
    assert worker.patch(f"/work/{item}", json=failed).status_code == 200
    assert code(worker.patch(f"/work/{item}", json={"status": "queued"})) == (403, "forbidden")
    assert boss.patch(f"/work/{item}", json={"status": "queued"}).status_code == 200


def test_an_agents_token_moves_only_that_agents_items(served: Served, asks: Asks) -> None:
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    refused = ann.post("/work/claim", json={"agent": "bob"})
    assert code(refused) == (403, "forbidden")
    told = refused.json()["detail"]
    assert told.endswith("is only for ann, not for agent 'bob'"), "there is no item to speak of yet"
    theirs = boss.post("/work", json=GOOD).json()["id"]
    [claim] = boss.post("/work/claim", json={"agent": "bob"}).json()
    stolen = claim["claim"]["token"]
    for call in (
        lambda: ann.post(f"/work/{theirs}/complete", json={"token": stolen}),
        lambda: ann.post(f"/work/{theirs}/complete", json={}),
        lambda: ann.post(f"/work/{theirs}/release", json={"token": stolen}),
        lambda: ann.post(f"/work/{theirs}/heartbeat", json={"token": stolen}),
        lambda: ann.post(f"/work/{theirs}/note", json={"notes": "hello"}),
        lambda: ann.patch(f"/work/{theirs}", json={"notes": "hello"}),
        lambda: ann.patch(
            f"/work/{theirs}", json={"status": "completed", "outcome": "success", "token": stolen}
        ),
    ):
        answer = call()
        assert code(answer) == (403, "forbidden")
        assert answer.json()["detail"].endswith("; this item belongs to agent 'bob'")
    # A token that is not the live one does not open anything either.
    late = ann.patch(f"/work/{theirs}", json={"description": "mine", "token": "made-up"})
    assert code(late) == (409, "claim_lost")
    [batch] = ann.post("/work/complete", json=[{"id": theirs, "token": stolen}]).json()
    assert (batch["ok"], batch["error"]["code"]) == (False, "forbidden")
    shown = boss.get(f"/work/{theirs}").json()
    assert (shown["status"], shown["notes"], shown["description"]) == (
        "in_progress", None, "do it",
    )  # fmt: skip


def test_of_one_item_too_what_was_looked_at_is_what_is_moved(
    served: Served, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the move somebody leaves a note, or gives the item to another."""
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    noted, lost = (boss.post("/work", json=GOOD).json()["id"] for _ in range(2))
    for item in (noted, lost):
        boss.post(f"/work/{item}/dispatch", json={"assigned_agent": "ann"})
    queue, look = served.ledger.queue, served.ledger.views.item
    meanwhile = {
        noted: [lambda: queue.note(noted, "it rains")],
        lost: [
            lambda: queue.apply(Order(Verb.RELEASE, lost, "boss")),
            lambda: queue.apply(Order(Verb.DISPATCH, lost, "boss", agent="bob")),
        ],
    }

    async def looked_at(item_id: str) -> WorkItem:
        found = await look(item_id)
        for change in meanwhile.pop(item_id, []):
            await change()
        return found

    monkeypatch.setattr(served.ledger.views, "item", looked_at)
    assert code(ann.post(f"/work/{lost}/start")) == (403, "forbidden")
    assert ann.post(f"/work/{noted}/start").status_code == 200
    shown = boss.get(f"/work/{lost}").json()
    assert (shown["status"], shown["assigned_agent"]) == ("dispatched", "bob")


@on_both_databases
def test_an_agents_batch_completes_what_it_looked_at_and_nothing_else(
    served: Served, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    boss.patch("/agents/ann", json={"max_concurrent": 5})
    mine, noted, lost = (boss.post("/work", json=GOOD).json()["id"] for _ in range(3))
    for item in (mine, noted, lost):
        boss.post(f"/work/{item}/dispatch", json={"assigned_agent": "ann"})
        assert ann.post(f"/work/{item}/start").status_code == 200
    queue, look = served.ledger.queue, served.ledger.views.item
    meanwhile = {
        noted: [lambda: queue.note(noted, "as good as done")],
        lost: [
            lambda: queue.apply(Order(Verb.RELEASE, lost, "boss", force=True)),
            lambda: queue.apply(Order(Verb.DISPATCH, lost, "boss", agent="bob")),
            lambda: queue.apply(Order(Verb.START, lost, "bob")),
        ],
    }

    async def looked_at(item_id: str) -> WorkItem:
        found = await look(item_id)
        for change in meanwhile.pop(item_id, []):
            await change()
        return found

    monkeypatch.setattr(served.ledger.views, "item", looked_at)
    batch = [{"id": one} for one in (lost, mine, noted, mine)]
    answers = ann.post("/work/complete", json=batch).json()
    assert [one["ok"] for one in answers] == [False, True, True, False]
    assert [one["error"]["code"] for one in answers if not one["ok"]] == [
        "forbidden", "transition_refused",
    ]  # fmt: skip
    shown = boss.get(f"/work/{lost}").json()
    assert (shown["status"], shown["assigned_agent"]) == ("in_progress", "bob")


def test_of_an_agents_batch_what_takes_the_next_comes_last(
    served: Served, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes away while the others are looked at again has taken nothing."""
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    boss.patch("/agents/ann", json={"max_concurrent": 5})
    loose, fenced, following = (boss.post("/work", json=GOOD).json()["id"] for _ in range(3))
    boss.post(f"/work/{loose}/dispatch", json={"assigned_agent": "ann"})
    ann.post(f"/work/{loose}/start")
    [held] = ann.post("/work/claim", json={"agent": "ann"}).json()
    assert held["id"] == fenced
    queue, look = served.ledger.queue, served.ledger.views.item
    complete, notes, rounds = queue.complete_many, ["not yet done"], list[list[str]]()

    async def looked_at(item_id: str) -> WorkItem:
        found = await look(item_id)
        if item_id == loose and notes:
            await queue.note(loose, notes.pop())
        return found

    async def counted(entries: Any, **given: Any) -> Any:
        rounds.append([one.id for one in entries])
        return await complete(entries, **given)

    monkeypatch.setattr(served.ledger.views, "item", looked_at)
    monkeypatch.setattr(queue, "complete_many", counted)
    batch = [
        {"id": fenced, "token": held["claim"]["token"], "next": {"agent": "ann"}},
        {"id": loose},
    ]
    first, second = ann.post("/work/complete", json=batch).json()
    assert ([one["id"] for one in first["next"]], second["ok"]) == ([following], True)
    assert rounds == [[loose], [loose], [fenced]]


@pytest.mark.parametrize(
    ("wrong", "status", "told"),
    [
        ({"outcome": "AAA"}, 422, "[1].outcome 'AAA' is unknown"),
        ({"notes": "\0"}, 422, "[1].notes"),
    ],
)
def test_what_is_wrong_in_form_refuses_the_whole_batch_of_an_agent(
    served: Served, asks: Asks, wrong: dict[str, str], status: int, told: str
) -> None:
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    boss.patch("/agents/ann", json={"max_concurrent": 5})
    loose, fenced = (boss.post("/work", json=GOOD).json()["id"] for _ in range(2))
    boss.post(f"/work/{loose}/dispatch", json={"assigned_agent": "ann"})
    ann.post(f"/work/{loose}/start")
    [held] = ann.post("/work/claim", json={"agent": "ann"}).json()
    batch = [{"id": loose}, {"id": fenced, "token": held["claim"]["token"], **wrong}]
    answer = ann.post("/work/complete", json=batch)
    assert code(answer) == (status, "invalid_input")
    assert answer.json()["detail"].startswith(told)
    assert boss.get(f"/work/{loose}").json()["status"] == "in_progress"


def test_an_agents_token_goes_on_to_the_next_item_for_that_agent_alone(
    served: Served, asks: Asks
) -> None:
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    first, second = [boss.post("/work", json=GOOD).json()["id"] for _ in range(2)]
    [item] = ann.post("/work/claim", json={"agent": "ann"}).json()
    done = {"token": item["claim"]["token"]}
    for_bob = ann.post(f"/work/{first}/complete", json={**done, "next": {"agent": "bob"}})
    assert code(for_bob) == (403, "forbidden")
    assert ann.get(f"/work/{first}").json()["status"] == "in_progress"
    batch = [{**done, "id": first, "next": {"agent": "bob"}}]
    [answer] = ann.post("/work/complete", json=batch).json()
    assert (answer["ok"], answer["error"]["code"]) == (False, "forbidden")
    assert ann.get(f"/work/{first}").json()["status"] == "in_progress"
    for_ann = ann.post(f"/work/{first}/complete", json={**done, "next": {"agent": "ann"}})
    [following] = for_ann.json()["next"]
    assert following["id"] == second
    third = boss.post("/work", json=GOOD).json()["id"]
    batch = [{"id": second, "token": following["claim"]["token"], "next": {"agent": "ann"}}]
    [answer] = ann.post("/work/complete", json=batch).json()
    assert [one["id"] for one in answer["next"]] == [third]


def test_an_agents_token_is_enough_for_that_agents_work(served: Served, asks: Asks) -> None:
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    boss.patch("/agents/ann", json={"max_concurrent": 5})
    for _ in range(3):
        boss.post("/work", json=GOOD)
    one, two, three = ann.post("/work/claim", json={"agent": "ann", "limit": 3}).json()
    beat = ann.post(f"/work/{one['id']}/heartbeat", json={"token": one["claim"]["token"]})
    assert beat.status_code == 200
    done = ann.post(f"/work/{one['id']}/complete", json={"token": one["claim"]["token"]})
    assert (done.status_code, done.json()["status"]) == (200, "completed")
    patched = ann.patch(
        f"/work/{two['id']}",
        json={"status": "completed", "outcome": "success", "token": two["claim"]["token"]},
    )
    assert patched.json()["status"] == "completed"
    [batch] = ann.post(
        "/work/complete", json=[{"id": three["id"], "token": three["claim"]["token"]}]
    ).json()
    assert batch["ok"]
    item = boss.post("/work", json=GOOD).json()["id"]
    boss.post(f"/work/{item}/dispatch", json={"assigned_agent": "ann"})
    assert code(ann.post(f"/work/{item}/start", json={"agent": "bob"})) == (403, "forbidden")
    stale = ann.patch(f"/work/{item}", json={"status": "in_progress"}, headers={"If-Match": "0"})
    assert code(stale) == (412, "version_mismatch")
    assert ann.patch(f"/work/{item}", json={"status": "in_progress"}).status_code == 200


def test_a_former_holder_with_an_agents_token_is_told_that_its_claim_is_lost(
    served: Served, asks: Asks, clock: ManualClock
) -> None:
    boss, ann = asks(token(served, "admin")), asks(token(served, "agent:ann"))
    item = boss.post("/work", json=GOOD).json()["id"]
    [claim] = ann.post("/work/claim", json={"agent": "ann", "lease_seconds": 60}).json()
    clock.advance(61)
    boss.post("/sweep")
    boss.post("/work/claim", json={"agent": "bob"})
    late = ann.post(f"/work/{item}/complete", json={"token": claim["claim"]["token"]})
    assert code(late) == (409, "claim_lost")
    assert len(boss.get(f"/work/{item}").json()["late_results"]) == 1


@on_both_databases
def test_the_ended_claim_of_another_opens_nothing(
    served: Served, asks: Asks, clock: ManualClock
) -> None:
    boss, ann, bob = (asks(token(served, one)) for one in ("admin", "agent:ann", "agent:bob"))
    done, lapsed = (boss.post("/work", json=GOOD).json()["id"] for _ in range(2))
    [claim] = bob.post("/work/claim", json={"agent": "bob"}).json()
    first = {"token": claim["claim"]["token"]}
    assert bob.post(f"/work/{done}/complete", json=first).status_code == 200
    [claim] = bob.post("/work/claim", json={"agent": "bob", "lease_seconds": 60}).json()
    second = {"token": claim["claim"]["token"]}
    clock.advance(61)
    boss.post("/sweep")
    for call in (
        lambda: ann.post(f"/work/{done}/complete", json=first),
        lambda: ann.post(f"/work/{done}/fail", json=first),
        lambda: ann.post(f"/work/{done}/heartbeat", json=first),
        lambda: ann.patch(f"/work/{done}", json={"notes": "mine", **first}),
        lambda: ann.post(f"/work/{done}/note", json={"notes": "mine", **first}),
        lambda: ann.post(f"/work/{lapsed}/complete", json=second),
        lambda: ann.post("/runs", json={"agent": "ann", "work_item_id": lapsed, **second}),
    ):
        assert code(call()) == (403, "forbidden")
    batch = [{"id": done, **first}, {"id": lapsed, **second}]
    refused = ann.post("/work/complete", json=batch).json()
    assert [one["error"]["code"] for one in refused] == ["forbidden"] * 2
    for item in (done, lapsed):
        assert boss.get(f"/work/{item}").json()["late_results"] == []
    again = bob.post(f"/work/{done}/complete", json=first)
    assert (again.status_code, again.json()["status"]) == (200, "completed")
    late = bob.post(f"/work/{lapsed}/complete", json=second)
    assert code(late) == (409, "claim_lost")


# web pages


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_cannot_change_anything(
    http: httpx2.Client, headers: dict[str, str]
) -> None:
    for method, path, body in (
        ("POST", "/work", GOOD),
        ("POST", "/tokens", {"name": "t", "scopes": ["admin"]}),
        ("PATCH", "/agents/ann", {"paused": True}),
        ("POST", "/sweep", None),
        ("DELETE", "/work/x", None),
    ):
        answer = http.request(method, path, json=body, headers=headers)
        assert code(answer) == (403, "cross_origin"), (method, path)
    assert http.get("/events").json() == []
    assert http.get("/work", headers=headers).status_code == 200


def test_a_page_of_our_own_may(http: httpx2.Client, served: Served) -> None:
    for headers in (
        {"Origin": served.url, "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        assert http.post("/work", json=GOOD, headers=headers).status_code == 201


def test_pages_of_other_sites_may_where_that_was_allowed(database: str) -> None:
    settings = ApiSettings(allowed_origins=frozenset({"https://board.example"}))
    with serve(database, settings) as served, httpx2.Client(base_url=served.url) as http:
        headers = {"Origin": "https://board.example", "Sec-Fetch-Site": "cross-site"}
        assert http.post("/work", json=GOOD, headers=headers).status_code == 201


def test_a_form_cannot_post(http: httpx2.Client) -> None:
    answer = http.post("/work", data={"type": "chore", "description": "x"})
    assert code(answer) == (415, "unsupported_media_type")
    assert http.get("/events").json() == []


@pytest.mark.parametrize("host", ["evil.example", "evil", "10.0.0.1", "[fd00::1]:80"])
def test_on_loopback_a_token_does_not_make_up_for_a_wrong_name(
    served: Served, asks: Asks, host: str
) -> None:
    boss = asks(token(served, "admin"))
    assert boss.get("/work").status_code == 200
    assert code(boss.get("/work", headers={"Host": host})) == (421, "bad_host")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "evil.example:80", ""])
def test_a_server_on_loopback_answers_only_to_its_own_name(http: httpx2.Client, host: str) -> None:
    for method, path in (("GET", "/work"), ("GET", "/health"), ("POST", "/sweep")):
        answer = http.request(method, path, headers={"Host": host})
        assert code(answer) == (421, "bad_host"), (method, path)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:8080"])
def test_loopback_has_several_names(http: httpx2.Client, host: str) -> None:
    assert http.get("/health", headers={"Host": host}).status_code == 200


def test_an_open_server_beyond_loopback_cannot_be_reached_by_a_rebound_name(
    database: str,
) -> None:
    settings = ApiSettings(
        host="0.0.0.0", insecure=True, allowed_hosts=frozenset({"rota.example.org"})
    )
    with serve(database, settings) as served, httpx2.Client(base_url=served.url) as http:
        for host in ("10.0.0.5:8080", "rota", "rota:8080", "rota.example.org", "[fd00::1]"):
            assert http.get("/work", headers={"Host": host}).status_code == 200, host
        assert code(http.get("/work", headers={"Host": "evil.example"})) == (421, "bad_host")


def test_ever_new_names_of_a_server_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "_MOST_ACCEPTED", 3)
    guard = browser.BrowserGuard(ApiSettings(host="0.0.0.0"))
    for n in range(10):
        guard.check("GET", {b"host": f"name-{n}.example".encode()}, protected=True)
    assert len(guard._accepted) == 3
    with pytest.raises(BadHost):
        guard.check("GET", {b"host": b"name-0.example"}, protected=False)


def test_a_server_with_a_name_for_others_is_open_to_nobody_without_a_token(database: str) -> None:
    proxied = ApiSettings(allowed_hosts=frozenset({"rota.example.org"}))
    with serve(database, proxied) as served, httpx2.Client(base_url=served.url) as http:
        for host in ("rota.example.org", "127.0.0.1"):  # a proxy may send either
            asked = http.post(
                "/tokens", json={"name": "evil", "scopes": ["admin"]}, headers={"Host": host}
            )
            assert code(asked) == (401, "unauthenticated")


def test_behind_tokens_any_name_will_do(database: str) -> None:
    with serve(database, ApiSettings(host="0.0.0.0")) as served:
        headers = {"Authorization": f"Bearer {token(served, 'read')}", "Host": "rota.example.org"}
        with httpx2.Client(base_url=served.url, headers=headers) as http:
            assert http.get("/work").status_code == 200


# what other rooms add


def _mounted(path: str) -> tuple[list[Scope], Mount]:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"mounted"})

    return seen, Mount(path, app, "read")


def test_a_mounted_app_is_behind_the_same_checks(database: str) -> None:
    seen, mount = _mounted("/other")
    with serve(database, mounts=[mount]) as served, httpx2.Client(base_url=served.url) as http:
        assert http.get("/other/thing").text == "mounted"
        assert seen[0]["rota.caller"].name == "local"
        crossed = http.post("/other", headers={"Origin": "https://evil.example"})
        assert code(crossed) == (403, "cross_origin")
        assert code(http.get("/others")) == (404, "not_found")
        token(served, "admin")
        served.api._gate.forget()
        assert code(http.get("/other")) == (401, "unauthenticated")
        assert len(seen) == 1


@pytest.mark.parametrize(
    ("path", "headers", "admitted"),
    [
        ("/ws", {}, True),
        ("/ws", {b"origin": b"http://127.0.0.1:80"}, True),
        ("/ws", {b"origin": b"https://evil.example"}, False),
        ("/ws", {b"host": b"evil.example"}, False),
        ("/nope", {}, False),
    ],
)
async def test_a_websocket_is_checked_like_a_write(
    database: str, path: str, headers: dict[bytes, bytes], admitted: bool
) -> None:
    """Driven by hand: the servers of these tests have no WebSocket protocol."""
    seen, mount = _mounted("/ws")
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async with open_ledger(database) as ledger:
        api = create_app(ledger, mounts=[mount])
        pairs = list({b"host": b"127.0.0.1:80", **headers}.items())
        await api({"type": "websocket", "path": path, "headers": pairs}, receive, send)
    assert (len(seen) == 1) is admitted
    assert sent == ([] if admitted else ["websocket.close"])


def test_a_trusted_caller_in_this_process_needs_nothing(served: Served) -> None:
    token(served, "admin")
    sent: list[Any] = []

    async def ask() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/work", "query_string": b""}
        await create_app(served.ledger, ApiSettings(trusted=True))(
            {**scope, "headers": [(b"rota-actor", b"cli")]}, receive, send
        )

    served.run(ask)
    assert sent[0]["status"] == 200
