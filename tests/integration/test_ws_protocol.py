"""Frames that no library would send."""

import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rota.testing.served import Served
from tests.integration.wired import wired

SHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
CONT, TEXT, CLOSE, PING = 0, 1, 8, 9
SECONDS = 20.0


@contextmanager
def opened(served: Served) -> Iterator[socket.socket]:
    with socket.socket() as raw:
        raw.settimeout(SECONDS)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", served.port))
        raw.sendall(SHAKE)
        assert raw.recv(1_000).startswith(b"HTTP/1.1 101 ")
        yield raw


def frame(kind: int, data: bytes = b"", *, last: bool = True) -> bytes:
    """Masked with zeros: as it is written."""
    head = bytes([last << 7 | kind])
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    return head + size + bytes(4) + data


def closing_code(raw: socket.socket) -> int:
    heard = b""
    while chunk := raw.recv(1_000):
        heard += chunk
    assert heard[0] == 0x80 | CLOSE, heard
    return int.from_bytes(heard[2:4], "big")


@pytest.mark.parametrize("frames", [[b"\xff\xfe"], [b'{"a": "\xc3', b"\xc3"], [b"ok\xf0\x9f"]])
def test_text_that_is_none_ends_the_connection_and_is_no_error_of_ours(
    served: Served, caplog: pytest.LogCaptureFixture, frames: list[bytes]
) -> None:
    kinds = [TEXT, *[CONT] * (len(frames) - 1)]
    with opened(served) as raw:
        for number, (kind, data) in enumerate(zip(kinds, frames, strict=True), 1):
            raw.sendall(frame(kind, data, last=number == len(frames)))
        assert closing_code(raw) == 1007
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_text_whose_letters_are_split_between_frames_is_text(served: Served) -> None:
    said = '{"request_id": "é", "type": "ping"}'.encode()
    with opened(served) as raw:
        raw.sendall(frame(TEXT, said[:18], last=False) + frame(CONT, said[18:]))
        assert '"request_id":"é"'.encode() in raw.recv(1_000)


def test_a_message_of_frames_without_end_is_not_kept(served: Served) -> None:
    with opened(served) as raw:
        raw.sendall(frame(TEXT, last=False) + frame(CONT, last=False) * 2_000)
        assert closing_code(raw) == 1009


def test_a_message_of_many_frames_is_read(served: Served) -> None:
    said = b'{"request_id": "1", "type": "ping"' + b" " * 900 + b"}"
    with wired(served.url) as ws:
        ws.connection.send([one.to_bytes().decode() for one in said])
        assert ws.answer("1")["ok"]


def test_no_client_has_us_keep_a_window_of_memory_for_it(served: Served) -> None:
    wish = b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), SECONDS) as raw:
        raw.sendall(SHAKE.removesuffix(b"\r\n") + wish)
        answer = raw.recv(1_000)
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"permessage-deflate" not in answer


def test_who_pings_and_does_not_read_is_cut_off(served: Served) -> None:
    pings = frame(PING, b"x" * 125) * 500

    def flood(raw: socket.socket) -> None:
        for _ in range(2_000):
            raw.sendall(pings)

    with opened(served) as raw, pytest.raises((ConnectionResetError, BrokenPipeError)):
        flood(raw)
