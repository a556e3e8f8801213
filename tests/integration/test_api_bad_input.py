"""Bad input gets a clear 4xx and changes nothing."""

import gzip
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from rota.api import ApiSettings, create_app
from rota.api.problems import document
from rota.app import open_ledger
from rota.model.errors import Refused
from rota.testing.served import Served, serve

JSON = {"Content-Type": "application/json"}
GOOD = {"type": "chore", "description": "do it"}
# How msgspec speaks: of regular expressions, of `str` and `array`, of `$.labels[0]`.
LIBRARY = re.compile(
    r"regex|Expected|Object (?:contains|missing)|`(?:str|int|array|object)|\$[.\[]|codec"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all: a test that finds it changed says so."""
    path = tmp_path_factory.mktemp("bad") / "rota.db"
    with serve(f"sqlite:///{path}", ApiSettings(max_body_bytes=1024 * 1024)) as served:
        yield served


@pytest.fixture(scope="module")
def known(server: Served) -> dict[str, str]:
    """An item in every status that a bad call might want to move."""
    with httpx2.Client(base_url=server.url) as http:
        found = {name: http.post("/work", json=GOOD).json()["id"] for name in ("queued", "other")}
        found["dispatched"] = http.post("/work", json=GOOD).json()["id"]
        found["busy"] = http.post("/work", json=GOOD).json()["id"]
        for name, agent in (("dispatched", "steve-w"), ("busy", "steve-w")):
            http.post(f"/work/{found[name]}/dispatch", json={"assigned_agent": agent})
        http.post(f"/work/{found['busy']}/start").raise_for_status()
        found["cancelled"] = http.post("/work", json=GOOD).json()["id"]
        http.delete(f"/work/{found['cancelled']}").raise_for_status()
        found["project"] = http.post("/projects", json={"name": "p"}).json()["id"]
    return found


@pytest.fixture
def http(server: Served, known: dict[str, str]) -> Iterator[httpx2.Client]:
    """Checks behind every test that nothing was changed, which every change would show here."""
    with httpx2.Client(base_url=server.url, timeout=30) as client:
        before = server.run(server.ledger.views.last_event)
        yield client
        assert server.run(server.ledger.views.last_event) == before, "something was changed"


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert (found["status"], found["code"]) == (status, code)
    assert found["detail"]
    assert not LIBRARY.search(answer.text), answer.text
    assert found["title"]
    assert found["type"] == "about:blank"
    return found


def test_no_detail_takes_the_place_of_what_a_problem_document_has() -> None:
    theirs = dict.fromkeys(("type", "title", "status", "detail", "instance", "code"), "theirs")
    found = document(Refused("no", **theirs, agent="ada"))
    assert found == {
        "type": "about:blank", "title": "Conflict", "status": 409, "detail": "no",
        "code": "refused", "item_status": "theirs", "of_type": "theirs", "agent": "ada",
    }  # fmt: skip


def refused_field(answer: httpx2.Response) -> str:
    found = problem(answer, 422, answer.json()["code"])
    return str(found["errors"][0]["field"])


# bodies


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": 5}, "type"),
        ({"type": None}, "type"),
        ({"type": ""}, "type"),
        ({"type": " \n"}, "type"),
        ({"type": "x" * 101}, "type"),
        ({"description": ["x"]}, "description"),
        ({"description": "x" * 10_001}, "description"),
        ({"description": "nul \x00"}, "description"),
        ({"priority": 0}, "priority"),
        ({"priority": 6}, "priority"),
        ({"priority": "3"}, "priority"),
        ({"priority": 2.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": None}, "priority"),
        ({"priority": 10**30}, "priority"),
        ({"surprise": 1}, "surprise"),
        ({"status": "completed"}, "status"),
        ({"claim_token": "x"}, "claim_token"),
        ({"project_id": "nowhere"}, "project_id"),
        ({"project_id": "nul\x00"}, "project_id"),
        ({"project_id": 7}, "project_id"),
        ({"assigned_agent": "../../etc/passwd"}, "assigned_agent"),
        ({"assigned_agent": "Steve"}, "assigned_agent"),
        ({"assigned_agent": "steve\n"}, "assigned_agent"),
        ({"labels": "red"}, "labels"),
        ({"labels": ["x"] * 51}, "labels"),
        ({"labels": [1]}, "labels[...]"),
        ({"labels": ["nul\x00"]}, "label"),
        ({"blocked_by": ["nowhere"]}, "blocked_by"),
        ({"blocked_by": ["nul\x00"]}, "blocked_by[...]"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 10**9}, "max_attempts"),
        ({"available_at": "tomorrow"}, "available_at"),
        ({"available_at": "0001-01-01T00:00:00+23:59"}, "available_at"),
        ({"available_at": 5}, "available_at"),
        ({"payload": {"a": "x" * 300_000}}, "payload"),
    ],
)
def test_a_wrong_field_is_named(http: httpx2.Client, change: dict[str, Any], field: str) -> None:
    answer = http.post("/work", content=json.dumps({**GOOD, **change}), headers=JSON)
    named = refused_field(answer)
    assert named == field or (field.endswith("[...]") and named.startswith(field[:-5])), named


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "/work",
            {**GOOD, "description": " "},
            "description: it is empty; say in a few words what is to be done",
        ),
        (
            "/work",
            {"type": "chore"},
            "description: it is missing; say in a few words what is to be done",
        ),
        ("/work", {**GOOD, "type": "x" * 101}, "type: it has 101 characters; at most 100 are"),
        (
            "/work",
            {**GOOD, "type": 5},
            "type: it has to be a text of at most 100 characters, not 5",
        ),
        ("/work", {**GOOD, "priority": 9}, "priority: 9 is out of range; use 1 to 5"),
        (
            "/work",
            {**GOOD, "priority": "3"},
            "priority: it has to be a whole number, 1 to 5, not '3'",
        ),
        (
            "/work",
            {**GOOD, "priority": True},
            "priority: it has to be a whole number, 1 to 5, not true",
        ),
        ("/work", {**GOOD, "priority": None}, "1 to 5, not null"),
        ("/work", {**GOOD, "labels": "red"}, "labels: it has to be a list, not 'red'"),
        ("/work", {**GOOD, "labels": ["x"] * 51}, "labels: 51 are given; at most 50 are allowed"),
        (
            "/work",
            {**GOOD, "prio": 1},
            "prio: it is not known here; there are type, description, pay",
        ),
        (
            "/work",
            {**GOOD, "assigned_agent": "Bad Name"},
            "assigned_agent: 'Bad Name' is not a name; use lower-case letters, digits,",
        ),
        ("/work", {**GOOD, "project_id": "a b"}, "project_id: 'a b' is not an id of ours"),
        ("/work", [GOOD], "body: it has to be an object, not a list"),
        ("/work/batch", [], "body: it is empty; give at least one"),
        ("/work/batch", [GOOD, {**GOOD, "priority": 0}], "[1].priority: 0 is out of range"),
        ("/work/claim", {"agent": "a", "lease_seconds": 0}, "0 is out of range; use 1 to "),
        ("/tokens", {"name": "t", "scopes": []}, "scopes: it is empty; give at least one"),
        (
            "/tokens",
            {"name": "t", "scopes": ["bogus"]},
            "scopes[0]: 'bogus' is unknown; there are admin, dispatch, read, work and agent:<name>",
        ),
        (
            "/work/BUSY/hand_over",
            {"artifact_url": "notaurl"},
            "artifact_url: 'notaurl' is not an address; write it in full, with http:// or https://",
        ),
        ("/work/BUSY/complete", {"token": "a secret"}, "token: it is no claim's token"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    http: httpx2.Client, known: dict[str, str], path: str, body: Any, said: str
) -> None:
    answer = http.post(path.replace("BUSY", known["busy"]), json=body)
    detail = problem(answer, 422, answer.json()["code"])["detail"]
    assert said in detail
    assert "a secret" not in detail


def test_what_is_wrong_is_said_also_where_the_rest_is_not_json(http: httpx2.Client) -> None:
    answer = http.post("/work", content=b'{"type": 5, "descr', headers=JSON)
    assert problem(answer, 422, "invalid_input")["detail"] == (
        "type: it has to be a text of at most 100 characters"
    )


def test_a_missing_field_is_named(http: httpx2.Client) -> None:
    assert refused_field(http.post("/work", json={"type": "chore"})) == "description"
    assert refused_field(http.post("/work/claim", json={})) == "agent"


def test_all_fields_that_are_missing_are_named_at_once(http: httpx2.Client) -> None:
    found = problem(http.post("/work", json={"priority": 1}), 422, "missing_requirement")
    kind = "type: it is missing; say what kind of work it is, such as code_review"
    what = "description: it is missing; say in a few words what is to be done"
    assert found["errors"] == [
        {"field": "type", "message": kind},
        {"field": "description", "message": what},
    ]
    assert found["detail"] == f"{kind}; {what}"
    found = problem(http.post("/work/batch", json=[GOOD, {}]), 422, "missing_requirement")
    assert [one["field"] for one in found["errors"]] == ["[1].type", "[1].description"]
    broken = http.post("/work", content=b'{"priority": 1}, ', headers=JSON)
    assert refused_field(broken) == "type"


def nested(depth: int, inner: str = "1") -> str:
    return "[" * depth + inner + "]" * depth


@pytest.mark.parametrize(
    "raw",
    [
        "", "{", "not json", "NaN", '{"type": "chore", "description": NaN}',
        '{"type": "chore", "description": "half \\ud800"}',
        '{"type": "chore", "description": "half \\udc00 other"}',
        '{"type": "chore", "description": "x", "payload": Infinity}',
        '{"type": "chore", "description": "x", "payload": ' + nested(100_000) + "}",
        '{"type": "chore", "description": "x"} trailing',
        "\ufeff{}",
        b'{"type": "chore", "description": "\xff\xfe"}',
        b'{"type": "chore", "description": "\xed\xa0\x80"}',
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(http: httpx2.Client, raw: str | bytes) -> None:
    content = raw if isinstance(raw, bytes) else raw.encode()
    problem(http.post("/work", content=content, headers=JSON), 400, "bad_json")


@pytest.mark.parametrize("half", ["\\ud800", "\\udc00", "a \\ud800 b"])
def test_half_a_surrogate_pair_is_called_so(http: httpx2.Client, half: str) -> None:
    answer = http.post("/work", content=f'{{"type": "{half}"}}', headers=JSON)
    assert "half a surrogate pair" in problem(answer, 400, "bad_json")["detail"]


def test_what_is_not_utf_8_is_said_with_its_place(http: httpx2.Client) -> None:
    content = '{"type": "käse", "description": "'.encode() + b'caf\xe9"}'
    detail = problem(http.post("/work", content=content, headers=JSON), 400, "bad_json")["detail"]
    place = content.index(b"\xe9")
    assert detail == f"the body is not JSON: byte {place} (0xe9) is not UTF-8; send it in UTF-8"


@pytest.mark.parametrize("item", ["x" * 20_000, "%00", "%0D%0A", "%1B[2J", "%C3%A9", "%ED%A0%80"])
@pytest.mark.parametrize("place", ["work", "runs", "projects", "signals", "triggers", "agents"])
def test_what_cannot_be_an_id_is_not_there_and_not_repeated_at_length(
    http: httpx2.Client, place: str, item: str
) -> None:
    answer = http.get(f"/{place}/{item}")
    problem(answer, 404, "not_found")
    assert len(answer.text) < 500
    assert answer.text.isprintable()


@pytest.mark.parametrize("said", ["9" * 19, "9" * 5_000, "-1", "x"])
def test_an_event_that_cannot_be_one_is_not_resumed_behind(http: httpx2.Client, said: str) -> None:
    problem(http.get("/events", headers={"Last-Event-ID": said}), 422, "invalid_input")


def test_so_many_parameters_are_read_and_no_more(http: httpx2.Client) -> None:
    assert http.get("/work?" + "&".join(["status=queued"] * 200)).status_code == 200
    answer = http.get("/work?" + "&".join(["status=queued"] * 201))
    assert "at most 200" in problem(answer, 422, "invalid_input")["detail"]


async def test_a_body_that_breaks_off_is_no_request_though_it_could_be_read(database: str) -> None:
    """Whoever hangs up in the midst of it has not said all of it."""
    body = json.dumps(GOOD).encode()
    messages = [
        {"type": "http.request", "body": body, "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/work", "query_string": b""}
    headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
    async with open_ledger(database) as ledger:
        api = create_app(ledger, ApiSettings(trusted=True))
        await api({**scope, "headers": headers}, receive, send)
        assert await ledger.views.last_event() == 0
    assert sent == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/sweep"),
        ("POST", "/schedules/ada/poll/enable"),
        ("DELETE", "/schedules/ada/poll"),
        ("DELETE", "/work/QUEUED"),
    ],
)
def test_a_call_that_takes_no_body_refuses_one(
    http: httpx2.Client, known: dict[str, str], method: str, path: str
) -> None:
    path = path.replace("QUEUED", known["queued"])
    found = problem(http.request(method, path, json={"x": 1}), 422, "invalid_input")
    assert (found["detail"], found["errors"][0]["field"]) == ("x: it is not known here", "x")
    broken = http.request(method, path, content=b"{broken", headers=JSON)
    problem(broken, 400, "bad_json")
    problem(http.request(method, path, json=[1]), 422, "invalid_input")
    gone = path.replace(known["queued"], "no-such-item")
    assert http.request(method, gone, json={}).status_code in (200, 404), "nothing is said in it"


@pytest.mark.parametrize(
    "payload",
    [
        "1e400",
        "-1e999",
        nested(33),
        '{"a":' * 40 + "1" + "}" * 40,
        "1" + "0" * 5000,
        "1" * 309,
        '{"x": [-' + "1" * 309 + "]}",
    ],
)
def test_a_payload_that_cannot_be_given_back_is_refused(http: httpx2.Client, payload: str) -> None:
    body = '{"type": "chore", "description": "x", "payload": %s}' % payload  # noqa: UP031
    problem(http.post("/work", content=body, headers=JSON), 422, "invalid_input")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/work", '{"type": "t", "type": "u", "description": "x"}', "type"),
        ("/work", '{"type": "t", "description": "x", "payload": {"a": [{"b": 1, "b": 1}]}}', "b"),
        ("/work", ' {"type": "t", "description": "x", "t\\u0079pe": "t"}', "type"),
        ("/work/batch", '[{"type": "t", "description": "x", "type": "t"}]', "type"),
        ("/work/claim", '{"agent": "a", "agent": "b"}', "agent"),
    ],
)
def test_a_key_that_comes_twice_is_refused(
    http: httpx2.Client, path: str, body: str, field: str
) -> None:
    found = problem(http.post(path, content=body, headers=JSON), 422, "invalid_input")
    assert (found["detail"], found["errors"][0]["field"]) == (f"{field}: it is given twice", field)


@pytest.mark.parametrize("body", ["[]", "null", "3", '"text"', "[{}]"])
def test_a_body_of_the_wrong_kind_is_refused(http: httpx2.Client, body: str) -> None:
    problem(http.post("/work", content=body, headers=JSON), 422, "invalid_input")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_body_that_is_not_called_json_is_refused(http: httpx2.Client, media_type: str) -> None:
    for content in (json.dumps(GOOD), iter([json.dumps(GOOD).encode()])):  # the latter in chunks
        answer = http.post("/work", content=content, headers={"Content-Type": media_type})
        problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity"])
def test_a_compressed_body_is_refused_as_such(http: httpx2.Client, encoding: str) -> None:
    body = gzip.compress(b'{"type": "chore", "description": "do it"}')
    headers = {"content-type": "application/json", "content-encoding": encoding}
    answer = http.post("/work", content=body, headers=headers)
    problem(answer, 415, "unsupported_media_type")
    assert answer.headers["accept-encoding"] == "identity"


def test_a_body_that_says_it_is_too_large_is_not_read(http: httpx2.Client) -> None:
    answer = http.post("/work", content=b" " * (1024 * 1024 + 1), headers=JSON)
    assert problem(answer, 413, "too_large")["limit"] == 1024 * 1024


def test_a_body_that_turns_out_too_large_is_refused_on_the_way(http: httpx2.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 64 * 1024

    problem(http.post("/work", content=chunks(), headers=JSON), 413, "too_large")


def test_a_declared_length_is_believed_before_the_body_comes(
    http: httpx2.Client, server: Served
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(
            b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99999999\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


# moves


def test_a_move_that_the_machine_does_not_have_says_which_it_has(
    http: httpx2.Client, known: dict[str, str]
) -> None:
    path = f"/work/{known['queued']}"
    by_patch = http.patch(path, json={"status": "completed", "outcome": "success"})
    found = problem(by_patch, 409, "transition_refused")
    assert found["allowed"] == ["cancelled", "dispatched"]
    assert found["item_status"] == "queued"
    for verb in ("complete", "fail", "start", "resume", "release", "retry", "reopen"):
        problem(http.post(f"{path}/{verb}"), 409, "transition_refused")
    final = http.patch(f"/work/{known['cancelled']}", json={"status": "queued"})
    assert problem(final, 409, "transition_refused")["allowed"] == []


def test_an_unknown_status_names_the_known_ones(http: httpx2.Client, known: dict[str, str]) -> None:
    answer = http.patch(f"/work/{known['queued']}", json={"status": "done"})
    assert "completed" in problem(answer, 422, "invalid_input")["allowed"]


@pytest.mark.parametrize(
    ("which", "body", "refusal"),
    [
        ("queued", {"status": "dispatched"}, "missing_requirement assigned_agent"),
        (
            "queued",
            {"status": "dispatched", "assigned_agent": None},
            "missing_requirement assigned_agent",
        ),
        ("busy", {"status": "completed"}, "missing_requirement outcome"),
        ("busy", {"status": "failed"}, "missing_requirement outcome"),
        ("busy", {"status": "completed", "outcome": "failed"}, "invalid_input outcome"),
        ("busy", {"status": "completed", "outcome": "meh"}, "invalid_input outcome"),
        ("busy", {"outcome": "success"}, "invalid_input outcome"),
        ("busy", {"status": "blocked"}, "missing_requirement notes"),
        (
            "busy",
            {"status": "blocked", "notes": "x", "outcome": "failed"},
            "invalid_input outcome",
        ),
        ("busy", {"status": "in_review"}, "missing_requirement artifact_url"),
        (
            "busy",
            {"status": "in_review", "artifact_url": "javascript:alert(1)"},
            "invalid_input artifact_url",
        ),
        ("queued", {"artifact_url": "ftp://x"}, "invalid_input artifact_url"),
        ("queued", {"artifact_url": "https://x.org/a\n"}, "invalid_input artifact_url"),
        ("queued", {"token": "a-token\n"}, "invalid_input token"),
        ("queued", {"project_id": "an-id\n"}, "invalid_input project_id"),
        ("queued", {"priority": None}, "invalid_input priority"),
        ("queued", {"type": None}, "invalid_input type"),
        ("queued", {"description": "\x00"}, "invalid_input description"),
        ("queued", {"project_id": "nowhere"}, "invalid_input project_id"),
        ("queued", {"blocked_by": ["nowhere"]}, "invalid_input blocked_by"),
        ("queued", {"force": "yes"}, "invalid_input force"),
        ("queued", {"version": 3}, "invalid_input version"),
        ("queued", {"token": "nul\x00"}, "invalid_input token"),
    ],
)
def test_a_patch_that_lacks_or_misuses_a_field_is_refused(
    http: httpx2.Client, known: dict[str, str], which: str, body: dict[str, Any], refusal: str
) -> None:
    code, field = refusal.split()
    answer = http.patch(f"/work/{known[which]}", json=body)
    assert problem(answer, 422, code)["errors"][0]["field"] == field


def test_an_item_cannot_wait_for_itself(http: httpx2.Client, known: dict[str, str]) -> None:
    item = known["queued"]
    answer = http.patch(f"/work/{item}", json={"blocked_by": [item]})
    assert refused_field(answer) == "blocked_by"


def test_an_agent_does_not_begin_a_second_item(http: httpx2.Client, known: dict[str, str]) -> None:
    item = known["dispatched"]
    by_patch = http.patch(f"/work/{item}", json={"status": "in_progress"})
    assert problem(by_patch, 409, "no_free_slot")["agent"] == "steve-w"
    problem(http.post(f"/work/{item}/start"), 409, "no_free_slot")


def test_an_agent_cannot_be_changed_behind_a_dispatch(
    http: httpx2.Client, known: dict[str, str]
) -> None:
    answer = http.patch(f"/work/{known['dispatched']}", json={"assigned_agent": "ann"})
    problem(answer, 409, "refused")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"agent": "no such name!"}, "agent"),
        ({"agent": "a", "limit": 0}, "limit"),
        ({"agent": "a", "limit": 1001}, "limit"),
        ({"agent": "a", "lease_seconds": 0}, "lease_seconds"),
        ({"agent": "a", "lease_seconds": 1e12}, "lease_seconds"),
        ({"agent": "a", "wait_seconds": -1}, "wait_seconds"),
        ({"agent": "a", "wait_seconds": 61}, "wait_seconds"),
        ({"agent": "a", "types": ["x"] * 51}, "types"),
        ({"agent": "a", "labels": ["\x00"]}, "label"),
        ({"agent": "a", "project_id": "\x00"}, "project_id"),
        ({"agent": "a", "project_id": "nowhere"}, "project_id"),
        ({"agent": "a", "token": "x"}, "token"),
    ],
)
def test_a_wrong_claim_is_refused(http: httpx2.Client, body: dict[str, Any], field: str) -> None:
    assert refused_field(http.post("/work/claim", json=body)) == field


# what is asked for


@pytest.mark.parametrize(
    "query",
    [
        "status=done", "limit=0", "limit=1001", "limit=many", "limit=1&limit=2", "since=yesterday",
        "updated_since=2026-13-01", "unknown=1", "agent=%00", "q=%20", "type=" + "x" * 501,
        "since=0001-01-01T00:00:00%2B10:00", "agent=", "status=", "status=,", "limit=", "nothing=",
        "ready=", "ready=maybe",
        "id_prefix=", "id_prefix=X", "id_prefix=0190%25", "id_prefix=" + "0" * 37,
        "id_prefix=abc%0A",
    ],
)  # fmt: skip
def test_a_wrong_filter_is_refused(http: httpx2.Client, query: str) -> None:
    problem(http.get(f"/work?{query}"), 422, "invalid_input")


@pytest.mark.parametrize(
    "cursor",
    ["x", "%00", "e30", "WyJ3IiwgMV0", "WyJ3IiwgMywgIlx1ZDgwMCJd", "a" * 999, "W" * 1000, "é"],
)
def test_a_cursor_that_is_none_of_ours_is_refused(http: httpx2.Client, cursor: str) -> None:
    problem(http.get(f"/work?cursor={cursor}"), 400, "bad_cursor")
    problem(http.get(f"/projects?cursor={cursor}"), 400, "bad_cursor")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/work"), ("GET", "/agents"), ("DELETE", "/work/{queued}"), ("GET", "/work/{busy}")],
)
def test_a_parameter_that_a_call_does_not_take_is_refused(
    http: httpx2.Client, known: dict[str, str], method: str, path: str
) -> None:
    body: Any = GOOD if method == "POST" else None
    answer = http.request(method, path.format(**known), params={"dry_run": "true"}, json=body)
    found = problem(answer, 422, "invalid_input")
    assert found["errors"][0]["field"] == "dry_run"


def test_who_only_asks_how_it_is_may_add_what_he_likes(http: httpx2.Client) -> None:
    assert http.get("/health?now=1").status_code == 200


@pytest.mark.parametrize(
    "query", ["after=-1", "after=x", "after=99999999999999999999", "type=work.unknown", "limit=0"]
)
def test_a_wrong_event_filter_is_refused_also_for_a_stream(http: httpx2.Client, query: str) -> None:
    for accept in ("application/json", "text/event-stream"):
        answer = http.get(f"/events?{query}", headers={"Accept": accept})
        problem(answer, 422, "invalid_input")


def test_a_last_event_id_that_is_none_of_ours_is_refused(http: httpx2.Client) -> None:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "x" * 50}
    problem(http.get("/events", headers=headers), 422, "invalid_input")


@pytest.mark.parametrize(
    "id_",
    ["nothing", "%00", "..%2f..%2fetc", "x" * 300, "%ff", "%f0%9f%a6%86", "a'%20OR%201=1--"],
)
def test_what_does_not_exist_is_not_found(http: httpx2.Client, id_: str) -> None:
    for path in (f"/work/{id_}", f"/projects/{id_}", f"/agents/{id_}", f"/work/{id_}/explain"):
        problem(http.get(path), 404, "not_found")
    problem(http.patch(f"/work/{id_}", json={"notes": "x"}), 404, "not_found")
    problem(http.post(f"/work/{id_}/cancel"), 404, "not_found")
    problem(http.post(f"/work/{id_}/heartbeat", json={"token": "x"}), 404, "not_found")
    problem(http.delete(f"/work/{id_}"), 404, "not_found")
    problem(http.delete(f"/tokens/{id_}"), 404, "not_found")


@pytest.mark.parametrize("path", ["/nope", "/work/", "//work", "/work/x/nope", "/WORK", "/work/x/"])
def test_an_unknown_path_is_not_found(http: httpx2.Client, path: str) -> None:
    problem(http.get(path), 404, "not_found")


def test_a_wrong_method_names_the_right_ones(http: httpx2.Client) -> None:
    answer = http.put("/work", json={})
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    problem(http.get("/work/claim"), 405, "method_not_allowed")
    problem(http.request("TRACE", "/work"), 405, "method_not_allowed")
    options = http.options("/work/claim")
    assert (options.status_code, options.headers["allow"]) == (204, "OPTIONS, POST")


def test_a_wrong_idempotency_key_is_refused(http: httpx2.Client) -> None:
    for key in ("", "x" * 151):
        answer = http.post("/work", json=GOOD, headers={"Idempotency-Key": key})
        assert refused_field(answer) == "Idempotency-Key"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/projects", {"name": ""}, "name"),
        ("/projects", {"name": "x" * 201}, "name"),
        ("/projects", {"name": "\x00"}, "name"),
        ("/projects", {"name": "p", "owner": "me"}, "owner"),
        ("/tokens", {"name": "t", "scopes": []}, "scopes"),
        ("/tokens", {"name": "t", "scopes": ["everything"]}, "scopes[0]"),
        ("/tokens", {"name": "t", "scopes": ["read", "agent:Not A Name"]}, "scopes[1]"),
        ("/tokens", {"name": "t", "scopes": ["read"], "expires_at": "soon"}, "expires_at"),
        ("/tokens", {"name": "t", "scopes": ["read"], "expires_at": "2020-01-01"}, "expires_at"),
    ],
)
def test_wrong_projects_and_tokens_are_refused(
    http: httpx2.Client, path: str, body: dict[str, Any], field: str
) -> None:
    assert refused_field(http.post(path, json=body)) == field


def test_a_wrong_agent_is_refused(http: httpx2.Client) -> None:
    problem(http.patch("/agents/Not-A-Name", json={"paused": True}), 422, "invalid_input")
    for body in ({"max_concurrent": 0}, {"max_concurrent": 1001}, {"paused": "yes"}, {"x": 1}):
        problem(http.patch("/agents/ann", json=body), 422, "invalid_input")


@pytest.mark.parametrize(
    "path", ["/work", "/work/batch", "/work/claim", "/work/complete", "/projects", "/tokens"]
)
def test_no_hostile_value_makes_the_server_fail(http: httpx2.Client, path: str) -> None:
    hostile: list[Any] = [
        None, True, -1, 2**63, 2**64, -(2**70), 1e308, "", "\x00", "x" * 70_000, [], {}, [[]],
        [None], {"": ""}, {"type": {}}, {"$ref": "#"}, {"__proto__": {}}, {"agent": ["a"]},
    ]  # fmt: skip
    for value in hostile:
        for body in (value, [value], *({name: value} for name in ("agent", "id", "name", "type"))):
            answer = http.post(path, content=json.dumps(body), headers=JSON)
            assert answer.status_code == 422, (body, answer.text)
            assert not LIBRARY.search(answer.text), answer.text


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
def test_text_that_looks_dangerous_comes_back_unchanged(database: str) -> None:
    dangerous = {
        "type": "'; DROP TABLE work_items; --",
        "description": "<script>alert(1)</script> \u202e \u2028 {{7*7}} %s %(x)s $1 :name",
        "payload": {"nul": "\x00", "big": -(10**308 - 1), "small": 5e-324, "\ud7ff": "\U0010ffff"},
        "labels": ["a,b", "%", "_", "'"],
    }
    with serve(database) as served, httpx2.Client(base_url=served.url) as http:
        item = http.post("/work", json=dangerous).json()
        shown = http.get(f"/work/{item['id']}").json()
        for field, value in dangerous.items():
            assert shown[field] == value, field
        for query in (
            "label=%25",
            "label=_",
            "label='",
            "type=%27%3B%20DROP%20TABLE%20work_items%3B%20--",
        ):
            assert len(http.get(f"/work?{query}").json()) == 1, query


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_postgres_is_not_asked_what_it_could_not_understand(database: str) -> None:
    """What PostgreSQL refuses to read (NUL, numbers out of range) is refused before it."""
    with serve(database) as served, httpx2.Client(base_url=served.url) as http:
        item = http.post("/work", json=GOOD).json()["id"]
        for method, path, body in (
            ("GET", "/work/%00", None),
            ("GET", "/projects/%00", None),
            ("GET", "/agents/%00", None),
            ("GET", "/work?agent=%00", None),
            ("GET", "/work?q=%00", None),
            ("GET", "/work?cursor=%00", None),
            ("GET", "/events?work_item_id=%00", None),
            ("GET", "/events?after=9223372036854775807", None),
            ("POST", "/work", {**GOOD, "project_id": "\x00"}),
            ("POST", "/work", {**GOOD, "blocked_by": ["\x00"]}),
            ("POST", "/work", {**GOOD, "labels": ["\x00"]}),
            ("POST", "/work/claim", {"agent": "a", "project_id": "\x00"}),
            ("POST", "/work/claim", {"agent": "a", "types": ["\x00"]}),
            ("POST", "/work/complete", [{"id": "\x00", "token": "x"}]),
            ("POST", "/work/complete", [{"id": item, "token": "\x00"}]),
            ("POST", f"/work/{item}/heartbeat", {"token": "\x00"}),
            ("POST", f"/work/{item}/cancel", {"reason": "\x00"}),
            ("POST", f"/work/{item}/hold", {"reason": "\x00"}),
            ("PATCH", f"/work/{item}", {"notes": "\x00"}),
            ("DELETE", "/tokens/%00", None),
        ):
            answer = http.request(method, path, json=body)
            expected = {404} if "/%00" in path else {200} if "after=" in path else {400, 422}
            assert answer.status_code in expected, (path, body, answer.text)
