"""The protocol of a zygote: one message with three descriptors; the answers are two numbers.

`marshal`, because the shim of `rota` on a path (`shim.py`) has to be quick: it imports only
built-in modules, and both ends are the same Python.
"""

import array
import marshal
import os
import socket
import struct
from dataclasses import dataclass

_LENGTH = struct.Struct("!I")
NUMBER = struct.Struct("!i")  # first the pid; at the end the status from wait()


@dataclass(frozen=True, slots=True)
class Order:
    entry: str  # "rota.cli:main"
    words: list[str]  # with the program's name
    environ: dict[bytes, bytes]
    cwd: bytes


def ask(connection: socket.socket, order: Order, stdio: tuple[int, int, int]) -> None:
    words = [os.fsencode(word) for word in order.words]
    body = marshal.dumps((order.entry, words, order.environ, order.cwd))
    message = _LENGTH.pack(len(body)) + body
    rest = message[socket.send_fds(connection, [message], list(stdio)) :]
    if rest:  # to send nothing fails too where the other side has answered and gone by now
        connection.sendall(rest)


def receive(connection: socket.socket) -> tuple[Order, list[int]]:
    """The order, and the descriptors that are to be 0, 1 and 2."""
    space = socket.CMSG_SPACE(3 * array.array("i").itemsize)
    data, ancillary, _, _ = connection.recvmsg(_LENGTH.size, space)
    (length,) = _LENGTH.unpack(data)
    entry, words, environ, cwd = marshal.loads(read_exactly(connection, length))  # noqa: S302 - ours
    stdio = array.array("i")
    for _, _, content in ancillary:
        stdio.frombytes(content)
    return Order(entry, [os.fsdecode(word) for word in words], environ, cwd), list(stdio)


def read_exactly(connection: socket.socket, length: int) -> bytes:
    """EOFError when the other side is gone."""
    found = bytearray()
    while len(found) < length:
        chunk = connection.recv(length - len(found))
        if not chunk:
            raise EOFError("the other side has closed")
        found += chunk
    return bytes(found)
