"""Connections below any request: heads without end, silence, and answers that nobody reads."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from rota.api.http_protocol import HttpProtocol
from rota.model.claims import ClaimRequest
from rota.model.work import NewItem
from rota.testing.served import Served, serve
from tests.integration.wired import wired

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WORK = b'{"type": "chore", "description": "do it"}'
UPGRADE = (
    b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
SECONDS = 20.0


@contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as raw:
        yield raw


def all_of(raw: socket.socket) -> bytes:
    """Until the server has closed it."""
    heard = b""
    while chunk := raw.recv(65_536):
        heard += chunk
    return heard


def told(served: Served, *pieces: bytes) -> bytes:
    with connected(served) as raw:
        for piece in pieces:
            raw.sendall(piece)
        return all_of(raw)


def problem(answer: bytes) -> tuple[int, str]:
    """Of an answer that is the only one, and the last."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert b"content-type: application/problem+json" in lines, answer
    assert b"connection: close" in lines
    assert b"content-length: %d" % len(body) in lines
    document = json.loads(body)
    assert int(lines[0].split()[1]) == document["status"]
    return document["status"], document["code"]


def statuses(answers: bytes) -> list[int]:
    return [int(one[:3]) for one in answers.split(b"HTTP/1.1 ")[1:]]


# heads


@pytest.mark.parametrize(
    "pieces",
    [
        [GET + b"X-A: " + b"a" * 70_000],
        [GET + b"X-A: " + b"a" * 70_000 + b"\r\n\r\n"],
        [GET, *[b"X-A: b\r\n" * 1_000] * 9],
        [GET + b"X-A: b\r\n" * 100 + b"\r\n"],
        [GET + b"a" * 70_000],
        [b"GET /health?" + b"a" * 70_000],
        [b"GET /health?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"],
        [GET + b"\r\n" + GET + b"X-A: " + b"a" * 400_000],
    ],
)
def test_a_head_that_is_too_large_is_refused_before_its_end(
    served: Served, pieces: list[bytes]
) -> None:
    answer = told(served, *pieces)
    first, _, rest = answer.partition(b'"sqlite"}')
    assert problem(rest or first) == (431, "head_too_large")


def test_what_a_head_may_have_is_heard(served: Served) -> None:
    large = b"X-A: " + b"a" * 60_000 + b"\r\n" + b"X-B: b\r\n" * 97
    assert statuses(told(served, GET + large + b"Connection: close\r\n\r\n")) == [200]
    body = b"Content-Length: 100001\r\nConnection: close\r\n\r\n" + b" " * 100_000 + b"x"
    assert statuses(told(served, POST + body)) == [400], "of a body, 64 KiB is no limit"


@pytest.mark.parametrize(("written", "status"), [(len(WORK), 201), (10**18, 413)])
def test_a_length_may_be_written_long(served: Served, written: int, status: int) -> None:
    length = b"Content-Length: " + b"0" * 4_400 + b"%d\r\n" % written
    assert statuses(told(served, POST + b"Connection: close\r\n" + length + b"\r\n" + WORK)) == [
        status
    ]


@pytest.mark.parametrize("chunks", [b"", b"1\r\nx\r\n"])
def test_trailers_are_counted_and_no_more(served: Served, chunks: bytes) -> None:
    begun = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n"
    answer = told(served, begun + b"X-A: " + b"a" * 400_000)
    assert problem(answer) == (431, "head_too_large")


def test_a_trailer_is_no_header(served: Served) -> None:
    served.run(lambda: served.ledger.tokens.create("boss", ["admin"]))
    _, secret = served.run(lambda: served.ledger.tokens.create("worker", ["work"]))
    served.api._gate.forget()
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(WORK), WORK)
    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n"
    bearer = b"Authorization: Bearer " + secret.encode() + b"\r\n"
    assert statuses(told(served, head + bearer + b"\r\n" + chunks + b"\r\n")) == [201]
    assert statuses(told(served, head + b"\r\n" + chunks + bearer + b"\r\n")) == [401]


def test_small_chunks_are_no_head(served: Served) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % letter for letter in WORK + b" " * 20_000)
    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert statuses(told(served, head, chunks, b"0\r\n\r\n")) == [201]


# what is no HTTP


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_told_so(served: Served, sent: bytes) -> None:
    assert problem(told(served, sent)) == (400, "bad_request")


@pytest.mark.parametrize("target", [b"/work?q=\xc3\xa9", b"/work/\xc3\xa9"])
def test_an_address_that_is_not_encoded_is_told_how(served: Served, target: bytes) -> None:
    answer = told(served, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert problem(answer) == (400, "bad_request")
    assert b"%C3%A9" in answer


@pytest.mark.parametrize(
    "header",
    [
        b"Host: localhost",
        b"Authorization: Bearer rota_x",
        b"Content-Type: application/json",
        b"Idempotency-Key: one",
        b'If-Match: "1"',
    ],
)
def test_a_header_of_which_one_counts_is_not_given_twice(served: Served, header: bytes) -> None:
    answer = told(served, GET + header + b"\r\n" + header.lower() + b"\r\n\r\n")
    assert problem(answer) == (400, "bad_request")
    assert header.partition(b":")[0] in answer


def test_spaces_around_the_value_of_a_header_are_no_part_of_it(served: Served) -> None:
    length = b"Content-Length: %d\r\n" % len(WORK)
    spaced = (
        POST + b"Connection: close\r\nIdempotency-Key: \t one \t \r\n" + length + b"\r\n" + WORK
    )
    plain = POST + b"Connection: close\r\nIdempotency-Key:one\r\n" + length + b"\r\n" + WORK
    assert statuses(told(served, spaced)) == [201]
    assert statuses(told(served, plain)) == [200]


def test_other_headers_may_come_several_times(served: Served) -> None:
    answer = told(served, GET + b"Accept: a/b\r\nAccept: c/d\r\nConnection: close\r\n\r\n")
    assert statuses(answer) == [200]


def test_a_refusal_is_heard_also_by_who_is_not_done_with_sending(served: Served) -> None:
    chunk = b"186a0\r\n" + b" " * 100_000 + b"\r\n"
    begun = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk
    answer = told(served, begun + b"nonsense\r\n", *[b"x" * 1_000_000] * 16)
    assert problem(answer) == (400, "bad_request")


def test_no_refusal_stands_in_the_middle_of_an_answer(served: Served) -> None:
    head = GET.replace(b"/health", b"/events") + b"Accept: text/event-stream\r\n"
    with connected(served) as raw:
        raw.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        heard = b""
        while b"retry:" not in heard:
            heard += raw.recv(65_536)
        raw.sendall(b"nonsense\r\n")
        with suppress(ConnectionResetError):
            heard += all_of(raw)
    assert statuses(heard) == [200]


def test_nor_before_an_earlier_one(served: Served) -> None:
    waiting = b'{"agent": "ann", "wait_seconds": 0.2}'
    claim = POST.replace(b"/work", b"/work/claim") + b"Content-Length: %d\r\n\r\n" % len(waiting)
    wrong = POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"
    with connected(served) as raw, suppress(ConnectionResetError):
        raw.sendall(claim + waiting + wrong)
        assert statuses(all_of(raw)) == []


def test_a_right_request_is_answered_before_the_wrong_one_behind_it(served: Served) -> None:
    assert statuses(told(served, GET + b"\r\n" + b"nonsense\r\n\r\n")) == [200]


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /ws HTTP/1.1\r\n" + UPGRADE + b"\r\n",
        b"POST /ws HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 5\r\n\r\nhello",
        b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 5\r\n\r\nhello",
        b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"X-A: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /ws?" + b"a" * 20_000 + b" HTTP/1.1\r\n" + UPGRADE + b"\r\n",
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_an_upgrade_that_cannot_be_had_is_refused(served: Served, sent: bytes) -> None:
    assert problem(told(served, sent)) == (400, "bad_request")


def test_an_upgrade_with_too_many_headers_is_refused(served: Served) -> None:
    sent = b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"X-A: b\r\n" * 300 + b"\r\n"
    assert problem(told(served, sent)) == (431, "head_too_large")


def test_an_upgrade_behind_a_request_does_not_mix_with_its_answer(served: Served) -> None:
    waiting = b'{"agent": "ann", "wait_seconds": 0.2}'
    claim = POST.replace(b"/work", b"/work/claim") + b"Content-Length: %d\r\n\r\n" % len(waiting)
    sent = claim + waiting + b"GET /ws HTTP/1.1\r\n" + UPGRADE + b"\r\n"
    assert statuses(told(served, sent)) == [200]


# time


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", None),
        (b"\r\n", None),
        (b"GET /hea", (408, "request_timeout")),
        (GET + b"X-", (408, "request_timeout")),
        (POST + b"Content-Length: 100\r\n\r\n{", (408, "request_timeout")),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", (408, "request_timeout")),
        (b"GET /ws HTTP/1.1\r\n" + UPGRADE, (408, "request_timeout")),
    ],
)
def test_who_does_not_finish_a_request_is_not_waited_for(
    database: str, monkeypatch: pytest.MonkeyPatch, sent: bytes, code: tuple[int, str] | None
) -> None:
    monkeypatch.setattr(HttpProtocol, "head_seconds", 0.1)
    monkeypatch.setattr(HttpProtocol, "body_seconds", 0.1)
    with serve(database) as served:
        answer = told(served, sent)
        assert (problem(answer) if answer else None) == code
        assert served.run(served.ledger.views.last_event) == 0


@pytest.mark.parametrize("behind", [b"\r\n", b"GET /hea"])
def test_nor_behind_an_answer(
    database: str, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    monkeypatch.setattr(HttpProtocol, "head_seconds", 0.1)
    with serve(database) as served, connected(served) as raw:
        raw.sendall(GET + b"\r\n")
        assert raw.recv(65_536).startswith(b"HTTP/1.1 200 ")
        raw.sendall(behind)
        answer = all_of(raw)
        assert (problem(answer)[0] if answer else 0) == (0 if behind == b"\r\n" else 408)


def test_who_waits_for_an_answer_has_the_time_for_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpProtocol, "head_seconds", 0.05)
    waiting = b'{"agent": "ann", "wait_seconds": 0.3}'
    claim = POST.replace(b"/work", b"/work/claim") + b"Connection: close\r\n"
    with serve(database) as served:
        answer = told(served, claim + b"Content-Length: %d\r\n\r\n" % len(waiting) + waiting)
        assert statuses(answer) == [200]
        assert b"rota-reason: nothing_ready" in answer


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the server has lost a connection: whoever does not read hears nothing of that."""
    event, usual = threading.Event(), HttpProtocol.connection_lost

    def noted(self: HttpProtocol, exc: Exception | None) -> None:
        usual(self, exc)
        event.set()

    monkeypatch.setattr(HttpProtocol, "connection_lost", noted)
    return event


def test_a_websocket_is_no_request_that_does_not_end(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpProtocol, "head_seconds", 0.05)
    with serve(database) as served, wired(served.url) as ws:
        claimed = ws.get("work.claim", agent="ann", wait_seconds=0.3)
        assert claimed["reason"] == "nothing_ready"


def test_an_answer_that_nobody_reads_is_given_up(
    database: str, monkeypatch: pytest.MonkeyPatch, lost: threading.Event
) -> None:
    monkeypatch.setattr(HttpProtocol, "unread_seconds", 0.2)
    big = NewItem("chore", "do it", body="b" * 500_000)
    with serve(database) as served, socket.socket() as raw:
        served.run(lambda: served.ledger.queue.submit_many([big] * 10))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", served.port))
        raw.sendall((GET.replace(b"/health", b"/work") + b"\r\n") * 8)
        assert lost.wait(SECONDS)


def test_a_client_that_is_gone_is_gone_also_for_a_request_with_others_behind_it(
    served: Served, lost: threading.Event
) -> None:
    waiting = b'{"agent": "ann", "wait_seconds": 60}'
    claim = POST.replace(b"/work", b"/work/claim") + b"Content-Length: %d\r\n\r\n" % len(waiting)
    with connected(served) as raw:
        raw.sendall(claim + waiting + GET + b"\r\n")
    assert lost.wait(SECONDS)
    item = served.run(lambda: served.ledger.queue.submit(NewItem("chore", "do it")))
    taken = served.run(lambda: served.ledger.queue.claim(ClaimRequest("bob", wait_seconds=SECONDS)))
    assert [one.item.id for one in taken.items] == [item.id]


def test_who_has_sent_half_a_request_is_told_that_the_server_stops(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(served) as raw:
        raw.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n")
        assert raw.recv(65_536).startswith(b"HTTP/1.1 100 "), "its handler waits for the body"
        served.stop()
        assert problem(all_of(raw)) == (503, "stopping")
    assert not caplog.records, "no error of ours"
