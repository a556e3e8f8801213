"""Receivers of notifications for tests, on real ports, that misbehave on demand."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    hangs: bool = False  # it never answers
    drips: bool = False  # its body never ends


@dataclass(frozen=True, slots=True)
class Heard:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class WebReceiver:
    """Returns the answers of `script` one after another, and then repeats the last."""

    port: int = 0
    heard: list[Heard] = field(default_factory=list)
    script: list[Answer] = field(default_factory=lambda: [Answer()])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.heard.append(Heard(head[0].split()[1], headers, body))
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if answer.hangs:
            await asyncio.Event().wait()
        more = {"Content-Length": str(len(answer.body)), **answer.headers}
        if answer.drips:
            del more["Content-Length"]
        lines = [f"HTTP/1.1 {answer.status} x", *(f"{name}: {one}" for name, one in more.items())]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + answer.body)
        await writer.drain()
        if answer.drips:
            await asyncio.Event().wait()


@dataclass
class MailReceiver:
    """Speaks as much SMTP as `smtplib` needs. `refuses` has other answers by command."""

    port: int = 0
    mails: list[bytes] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    offers: tuple[str, ...] = ("8BITMIME", "SMTPUTF8")
    hangs: bool = False
    tls: ssl.SSLContext | None = None  # offered by STARTTLS

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().strip():
            self.said.append(line)
            verb = line.split()[0].upper()
            writer.write(f"{await self._answer(verb, reader, writer)}\r\n".encode())
            if verb == "STARTTLS" and self.tls is not None:
                await writer.drain()
                await writer.start_tls(self.tls)
            if verb == "QUIT":
                return

    async def _answer(
        self, verb: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str:
        if verb in self.refuses:
            return self.refuses[verb]
        if verb == "EHLO":
            offered = ["here", *self.offers, *(["STARTTLS"] if self.tls else [])]
            return "\r\n".join([*(f"250-{one}" for one in offered[:-1]), f"250 {offered[-1]}"])
        if verb == "DATA":
            writer.write(b"354 go on\r\n")
            self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
        return {"QUIT": "221 bye", "AUTH": "235 welcome", "STARTTLS": "220 go on"}.get(
            verb, "250 ok"
        )


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yields the port. Connections that hang are ended with it."""
    open_now: set[asyncio.Task[None]] = set()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        open_now.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await task
        finally:
            open_now.discard(task)
            writer.close()

    server = await asyncio.start_server(met, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(open_now):
            task.cancel()
        await asyncio.sleep(0)


@asynccontextmanager
async def web_receiver(*script: Answer) -> AsyncIterator[WebReceiver]:
    receiver = WebReceiver(script=list(script) or [Answer()])
    async with listening(receiver.serve) as receiver.port:
        yield receiver


@asynccontextmanager
async def mail_receiver(
    within: ssl.SSLContext | None = None, **facts: Any
) -> AsyncIterator[MailReceiver]:
    """`within`: TLS from the beginning."""
    receiver = MailReceiver(**facts)
    async with listening(receiver.serve, within) as receiver.port:
        yield receiver


@contextmanager
def black_hole(address: str, port: int) -> Iterator[None]:
    """An address at which nobody answers: its queue is full, so the kernel drops what comes."""
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(socket.socket())
        server.bind((address, port))
        server.listen(0)
        for _ in range(2):  # there is room for one more than it says
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((address, port))
        yield
