"""Schedules over HTTP: looked at, switched, and triggered by people, webhooks and chats."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.model.clock import to_text
from rota.model.fleet import AgentSpec
from rota.model.schedules import Schedule, ScheduleType
from rota.scheduler import Scheduler, TriggerInfo
from rota.storage.port import Store
from rota.testing.clock import ManualClock
from rota.testing.served import Served

SECRET = "it is a secret"
INTERVAL = Schedule("ada", "poll", ScheduleType.INTERVAL, interval=timedelta(minutes=5))
CRON = Schedule("ada", "morning", ScheduleType.CRON, cron="0 9 * * 1-5", timezone="Europe/Berlin")
HOOK = Schedule("ada", "push", ScheduleType.WEBHOOK, secret_env="PUSH_SECRET")
OPEN_HOOK = Schedule("ada", "open", ScheduleType.WEBHOOK)
UNSET_HOOK = Schedule("ada", "unset", ScheduleType.WEBHOOK, secret_env="NOBODY_SET_THIS")
CHAT = Schedule("ada", "talk", ScheduleType.CHAT)
ADA = AgentSpec(
    "ada", schedules=(INTERVAL, CRON, HOOK, OPEN_HOOK, UNSET_HOOK, CHAT), max_concurrent=9
)


class Fleet:
    """A scheduler in the served process, that checks when the test says so."""

    def __init__(self, served: Served, clock: ManualClock) -> None:
        self._served = served
        self.heard: list[TriggerInfo] = []
        store: Store = served.ledger.schedules._store
        self.scheduler = served.run(lambda: self._made(store, clock))

    async def _made(self, store: Store, clock: ManualClock) -> Scheduler:
        async def hear(info: TriggerInfo) -> None:
            self.heard.append(info)

        scheduler = Scheduler(store, node="n1", clock=clock, on_trigger=hear)
        await scheduler.open([ADA])
        self._served.ledger.schedules.attach(scheduler)
        return scheduler

    def tick(self) -> list[tuple[str, str | None]]:
        """What was heard since the last time: schedule and message."""
        self.heard.clear()
        self._served.run(self._tick)
        return [(one.schedule.name, one.trigger.message) for one in self.heard]

    async def _tick(self) -> None:
        await self.scheduler.tick()
        await self.scheduler.idle()

    def stop(self) -> None:
        self._served.run(self.scheduler.stop)


@pytest.fixture
def fleet(served: Served, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("PUSH_SECRET", SECRET)
    made = Fleet(served, clock)
    yield made
    made.stop()


def test_schedules_are_listed_by_agent_and_name(http: httpx2.Client, fleet: Fleet) -> None:
    found = http.get("/schedules").json()
    assert [one["name"] for one in found] == ["morning", "open", "poll", "push", "talk", "unset"]
    first = http.get("/schedules", params={"limit": 2})
    rest = http.get(first.links["next"]["url"])
    assert [one["name"] for one in first.json() + rest.json()] == [
        "morning",
        "open",
        "poll",
        "push",
    ]
    assert http.get("/schedules", params={"agent": "bob"}).json() == []
    assert http.get("/schedules", params={"cursor": "nonsense"}).status_code == 400


def test_a_schedule_says_when_it_runs_and_why_it_did_not(
    http: httpx2.Client, fleet: Fleet, clock: ManualClock
) -> None:
    fleet.tick()
    assert http.get("/schedules/ada/poll").json() == {
        "agent": "ada", "name": "poll", "type": "interval", "rhythm": "every 5m", "enabled": True,
        "status": "idle", "next_run_at": clock.text(300), "slot": clock.text(300),
        "last_run_at": clock.text(), "last_completed_at": clock.text(), "last_error": None,
        "last_skip_reason": None, "last_skip_at": None, "last_skip_detail": None,
        "skip_count": 0, "trigger_count": 1,
        "running": 0, "last_run": None, "attended": True,
    }  # fmt: skip
    assert http.get("/schedules/ada/morning").json()["rhythm"] == "0 9 * * 1-5 (Europe/Berlin)"


@pytest.mark.parametrize("path", ["/schedules/ada/none", "/schedules/Ada/x", "/schedules/a/..%2fb"])
def test_a_schedule_that_nobody_has_is_not_found(
    http: httpx2.Client, fleet: Fleet, path: str
) -> None:
    for answer in (http.get(path), http.post(f"{path}/trigger", json={})):
        assert answer.status_code == 404, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_disabled_schedule_sleeps_until_it_is_enabled(
    http: httpx2.Client, fleet: Fleet, clock: ManualClock
) -> None:
    fleet.tick()
    disabled = http.post("/schedules/ada/poll/disable").json()
    assert (disabled["status"], disabled["next_run_at"]) == ("disabled", None)
    clock.advance(600)
    assert fleet.tick() == []
    enabled = http.post("/schedules/ada/poll/enable").json()
    assert (enabled["status"], enabled["next_run_at"]) == ("idle", clock.text())
    assert http.post("/schedules/ada/poll/enable").json() == enabled
    assert fleet.tick() == [("poll", None)]


def test_a_person_wakes_an_agent_with_a_message(http: httpx2.Client, fleet: Fleet) -> None:
    fleet.tick()
    http.post("/schedules/ada/morning/disable")
    asked = http.post("/schedules/ada/morning/trigger", json={"message": "look at #7"})
    assert asked.status_code == 202
    assert asked.json()["node"] is None
    assert fleet.scheduler.woken.is_set()
    assert fleet.tick() == [("morning", "look at #7")]
    ended = http.get(f"/triggers/{asked.json()['id']}").json()
    assert (ended["kind"], ended["node"], ended["outcome"]) == ("manual", "n1", "succeeded")
    assert http.get("/triggers/unknown").status_code == 404


def test_a_server_without_a_fleet_reaches_the_one_that_has_it(
    http: httpx2.Client, served: Served, fleet: Fleet
) -> None:
    fleet.tick()
    served.ledger.schedules.attach(None)
    assert http.post("/schedules/ada/talk/trigger").status_code == 202
    assert fleet.tick() == [("talk", None)]
    assert http.post("/hooks/ada/push", json={}).status_code == 401


def test_a_schedule_that_nobody_configures_any_more_is_forgotten(
    http: httpx2.Client, fleet: Fleet
) -> None:
    assert http.delete("/schedules/ada/talk").status_code == 204
    assert http.get("/schedules/ada/talk").status_code == 404
    assert http.delete("/schedules/ada/talk").status_code == 404


def test_too_much_that_waits_is_refused(
    http: httpx2.Client, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.scheduler.service.MOST_WAITING", 2)
    answers = [http.post("/schedules/ada/talk/trigger").status_code for _ in range(3)]
    assert answers == [202, 202, 409]


# chat


def chat(**values: Any) -> dict[str, Any]:
    return {"text": "please look", "message_id": "m1", **values}


def test_a_chat_message_wakes_its_agent_once(http: httpx2.Client, fleet: Fleet) -> None:
    fleet.tick()
    first = http.post("/chat/ada/talk", json=chat(sender="Bob", channel="#ops"))
    again = http.post("/chat/ada/talk", json=chat(sender="Bob", channel="#ops"))
    assert (first.status_code, first.json()["status"]) == (202, "accepted")
    assert (again.status_code, again.json()) == (200, {"status": "seen before", "trigger_id": None})
    assert fleet.tick() == [("talk", "From: Bob\nChannel: #ops\n\nplease look")]


def test_to_enable_what_is_enabled_moves_no_time(
    http: httpx2.Client, fleet: Fleet, clock: ManualClock
) -> None:
    fleet.tick()
    http.post("/schedules/ada/poll/trigger")
    clock.advance(400)
    before = http.get("/schedules/ada/poll").json()
    assert http.post("/schedules/ada/poll/enable").json() == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/chat/ada/poll", chat(), 409),
        ("/chat/ada/none", chat(), 404),
        ("/chat/ada/talk", chat(text=""), 422),
        ("/chat/ada/talk", chat(text="x" * 70_000), 422),
        ("/chat/ada/talk", chat(text="a\x00b"), 422),
        ("/chat/ada/talk", {"text": "no id"}, 422),
        ("/chat/ada/talk", chat(more=1), 422),
    ],
)
def test_a_chat_message_that_cannot_be_right_wakes_nobody(
    http: httpx2.Client, fleet: Fleet, path: str, body: dict[str, Any], status: int
) -> None:
    fleet.tick()
    answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert fleet.tick() == []


def test_a_disabled_schedule_hears_neither_chat_nor_webhook(
    http: httpx2.Client, served: Served, fleet: Fleet
) -> None:
    fleet.tick()
    for name in ("talk", "push"):
        http.post(f"/schedules/ada/{name}/disable")
    assert http.post("/chat/ada/talk", json=chat()).status_code == 409
    assert hook(served).status_code == 409
    http.post("/schedules/ada/talk/enable")
    assert http.post("/chat/ada/talk", json=chat()).status_code == 202, "it was not remembered"


# webhooks

BODY = json.dumps({"ref": "refs/heads/main"}).encode()


def sign(body: bytes = BODY, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def hook(
    served: Served, body: bytes = BODY, path: str = "/hooks/ada/push", **headers: str
) -> httpx2.Response:
    given = {
        "content-type": "application/json",
        "x-github-delivery": "d1",
        "x-hub-signature-256": f"sha256={sign(body)}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    sent = {name: value for name, value in given.items() if value}
    return httpx2.post(served.url + path, content=body, headers=sent)


def test_the_secret_of_a_webhook_may_be_in_a_file_and_be_replaced_there(
    served: Served, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    monkeypatch.delenv("PUSH_SECRET")
    monkeypatch.setenv("PUSH_SECRET_FILE", str(file))
    assert hook(served).status_code == 401
    file.write_text("another secret\n")
    assert hook(served).status_code == 401
    file.write_text(f"{SECRET}\n")
    assert hook(served).status_code == 202


@pytest.mark.parametrize("length", [149, 150, 3000])
def test_long_ids_that_differ_at_their_ends_are_two_deliveries(
    served: Served, fleet: Fleet, length: int
) -> None:
    fleet.tick()
    for end in ("1", "2"):
        for status in (202, 200):
            headers = {"x_github_delivery": "", "idempotency_key": "x" * length + end}
            assert hook(served, **headers).status_code == status
    assert [len(fleet.tick()) for _ in range(3)] == [1, 1, 0]


def test_a_signed_delivery_wakes_its_agent_once(served: Served, fleet: Fleet) -> None:
    fleet.tick()
    first, again = hook(served, x_github_event="push"), hook(served, x_github_event="push")
    assert (first.status_code, again.status_code) == (202, 200)
    assert fleet.tick() == [("push", f"Event: push\n\n{BODY.decode()}")]
    assert fleet.tick() == []


def test_the_ping_of_a_new_webhook_is_answered_and_wakes_nobody(
    served: Served, fleet: Fleet
) -> None:
    fleet.tick()
    answer = hook(served, x_github_event="ping")
    assert (answer.status_code, answer.json()) == (200, {"status": "pong", "trigger_id": None})
    assert fleet.tick() == []
    forged = hook(served, x_github_event="ping", x_hub_signature_256="sha256=" + "0" * 64)
    assert forged.status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"x_gitea_signature": sign(), "x_gitea_delivery": "g1"},
        {"x_forgejo_signature": sign(), "x_forgejo_delivery": "g1"},
        {"x_gitlab_token": SECRET, "idempotency_key": "l1"},
        {"x_gitlab_token": SECRET, "x_gitlab_event_uuid": "l1"},
    ],
)
def test_other_forges_sign_in_their_own_ways(
    served: Served, fleet: Fleet, headers: dict[str, str]
) -> None:
    answer = hook(served, x_hub_signature_256="", x_github_delivery="", **headers)
    assert answer.status_code == 202, answer.text


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "no signature": (401, {"x_hub_signature_256": ""}),
    "wrong signature": (401, {"x_hub_signature_256": "sha256=" + "0" * 64}),
    "signature of another body": (401, {"x_hub_signature_256": "sha256=" + sign(b"{}")}),
    "signed with another secret": (401, {"x_hub_signature_256": "sha256=" + sign(secret="x")}),
    "wrong token": (401, {"x_hub_signature_256": "", "x_gitlab_token": "guess"}),
    "no delivery id": (422, {"x_github_delivery": ""}),
    "too large": (413, {"body": b" " * (1024 * 1024 + 1)}),
    "wrong content type": (415, {"content_type": "text/plain"}),
    "from a page": (403, {"origin": "https://evil.example"}),
    "a schedule without a secret": (401, {"path": "/hooks/ada/open"}),
    "a secret that is not set": (401, {"path": "/hooks/ada/unset"}),
    "signed with no secret": (
        401,
        {"path": "/hooks/ada/unset", "x_hub_signature_256": "sha256=" + sign(secret="")},
    ),
    "a schedule of another type": (401, {"path": "/hooks/ada/poll"}),
    "unknown schedule": (401, {"path": "/hooks/ada/none"}),
    "a path in the name": (401, {"path": "/hooks/ada/%2e%2e"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_wakes_nobody(served: Served, fleet: Fleet, case: str) -> None:
    fleet.tick()
    status, given = REFUSED[case]
    answer = hook(served, **given)
    assert answer.status_code == status, answer.text
    assert SECRET not in answer.text
    assert answer.json()["type"] == "about:blank"
    assert fleet.tick() == []
    assert hook(served).status_code == 202, "a refused delivery is not remembered"


def test_a_stranger_learns_nothing_of_the_schedules_and_the_log_says_all(
    served: Served, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.tick()
    paths = [f"/hooks/ada/{name}" for name in ("push", "open", "unset", "poll", "none", "%2e")]
    answers = [hook(served, path=path, x_hub_signature_256="") for path in paths]
    assert len({answer.text for answer in answers}) == 1
    assert {answer.status_code for answer in answers} == {401}
    told = capsys.readouterr().out
    for why in ("missing", "has no secret", "NOBODY_SET_THIS", "there is no schedule 'ada/.'"):
        assert why in told


def test_a_stranger_writes_no_lines_of_his_own_into_the_log(
    served: Served, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.tick()
    forged = f"x%0A2026-05-01 forged=1%0D%1B[31m{'y' * 20_000}"
    assert hook(served, path=f"/hooks/ada/{forged}", x_hub_signature_256="").status_code == 401
    [line] = [one for one in capsys.readouterr().out.splitlines() if "forged" in one]
    assert "webhook refused" in line
    assert "\x1b[31my" not in line
    assert len(line) < 2_000


def test_what_a_webhook_says_is_cut_and_kept_readable(served: Served, fleet: Fleet) -> None:
    fleet.tick()
    body = b"\x00\xff" + b"x" * 200_000
    assert hook(served, body).status_code == 202
    ((_, message),) = fleet.tick()
    assert message is not None
    assert "[cut: " in message
    assert len(message) <= 64_000
    assert "\x00" not in message


# taking over


def test_what_another_scheduler_knew_is_taken_over_before_the_first_start(
    http: httpx2.Client, served: Served, clock: ManualClock
) -> None:
    ran = to_text(clock.now() - timedelta(minutes=2))
    body = {"last_run_at": ran, "last_error": "no disk"}
    for _ in range(2):
        assert http.post("/schedules/ada/poll/restore", json=body).json() == {"restored": True}
    off = {"enabled": False}
    assert http.post("/schedules/ada/morning/restore", json=off).json() == {"restored": True}
    assert http.get("/schedules/ada/poll").json()["rhythm"] == "not configured yet"
    fleet = Fleet(served, clock)
    state = http.get("/schedules/ada/poll").json()
    assert (state["last_run_at"], state["last_error"]) == (ran, "no disk")
    assert state["next_run_at"] == clock.text(180)
    assert http.get("/schedules/ada/morning").json()["status"] == "disabled"
    clock.advance(180)
    assert ("poll", None) in fleet.tick()
    again = http.post("/schedules/ada/poll/restore", json=body).json()
    assert again == {"restored": False}
    fleet.stop()


def test_what_another_scheduler_knew_moves_a_schedule_that_has_not_run(
    http: httpx2.Client, fleet: Fleet, clock: ManualClock
) -> None:
    ran = to_text(clock.now() - timedelta(minutes=1))
    http.post("/schedules/ada/poll/restore", json={"last_run_at": ran})
    assert http.get("/schedules/ada/poll").json()["next_run_at"] == clock.text(240)
    assert http.post("/schedules/ada/poll/restore", json={"last_run_at": "x"}).status_code == 422


# who may


def test_every_call_needs_its_scope(http: httpx2.Client, fleet: Fleet) -> None:
    def token(*scopes: str) -> dict[str, str]:
        made = http.post("/tokens", json={"name": "t", "scopes": scopes}, headers=admin)
        return {"authorization": f"Bearer {made.json()['secret']}"}

    admin: dict[str, str] = {}
    admin = token("admin")
    reader, dispatcher = token("read"), token("dispatch")
    assert http.get("/schedules").status_code == 401
    assert http.get("/schedules", headers=reader).status_code == 200
    for path in ("enable", "disable", "trigger"):
        call = f"/schedules/ada/poll/{path}"
        assert http.post(call, json={}, headers=reader).status_code == 403
        assert http.post(call, json={}, headers=dispatcher).status_code in (200, 202)
    assert http.post("/chat/ada/talk", json=chat(), headers=reader).status_code == 403
    restore = "/schedules/ada/poll/restore"
    assert http.post(restore, json={}, headers=dispatcher).status_code == 403
    assert http.post(restore, json={}, headers=admin).status_code == 200
