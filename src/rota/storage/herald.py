"""Wake-ups between processes that share one PostgreSQL database."""

import contextlib
import os
import secrets
import select
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from rota.model.errors import StorageUnavailable
from rota.storage.dialogue import Connection
from rota.storage.port import Topic
from rota.storage.postgres_connection import connect

CHANNEL = "rota"
BREATH_SECONDS = 0.005
PAUSE_SECONDS = 1.0  # before the next connection, when one was lost


class Herald:
    """Tells other processes of commits, and listens for theirs, on one connection.

    NOTIFY is sent after the commit and not inside it: PostgreSQL serialises
    all commits that notify, and their waits for the disk would no longer
    overlap. A crash in between costs latency only, because every process polls
    too. Commits that follow shortly after are told in one NOTIFY: under load,
    a NOTIFY for each commit would cost a transaction each.
    """

    def __init__(self, conninfo: str, heard: Callable[[set[Topic]], None]) -> None:
        self._conninfo = conninfo
        self._heard = heard
        self._name = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._pending: set[Topic] = set()
        self._rests = False  # until the bell rings
        self._stopping = threading.Event()
        self._bell, self._button = os.pipe()
        self._thread = threading.Thread(target=self._live, name="rota-wake", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, deadline: float) -> None:
        """Returns when the thread has ended, at the latest at that time of the monotonic clock."""
        self._stopping.set()
        self._ring()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if not self._thread.is_alive():
            with self._lock:
                self._rests = False  # nobody is left to wake, and others may get the descriptors
                os.close(self._bell)
                os.close(self._button)

    def tell(self, topics: set[Topic]) -> None:
        with self._lock:
            self._pending |= topics
            if self._rests:
                self._rests = False
                self._ring()

    def _ring(self) -> None:
        os.write(self._button, b"!")

    def _live(self) -> None:
        """Reconnects for ever, with a pause: a dead connection costs latency, never data."""
        while True:
            with (
                contextlib.suppress(psycopg.Error, StorageUnavailable),
                connect(self._conninfo, "rota-wake") as connection,
            ):
                self._attend(connection)
            if self._stopping.wait(PAUSE_SECONDS):
                return

    def _attend(self, connection: Connection) -> None:
        # A pool does not forward notifications, and its server connection would keep listening for
        # other clients. Behind a pool, processes rely on polling to hear.
        if not connection.pooled:
            connection.execute(f"LISTEN {CHANNEL}")
            self._heard(set(Topic))  # notifications may have been missed before LISTEN
        # The last commits are told, too, though nobody waits for an answer any more.
        while (topics := self._to_tell()) or not self._stopping.is_set():
            if topics:
                self._notify(connection, topics)
            # Commits in the meantime share the next NOTIFY.
            self._listen(connection, BREATH_SECONDS if topics else None)

    def _to_tell(self) -> set[Topic]:
        with self._lock:
            topics, self._pending = self._pending, set()
            self._rests = not topics
        return topics

    def _notify(self, connection: Connection, topics: set[Topic]) -> None:
        words = " ".join([self._name, *sorted(topics)])
        try:
            answer = connection.pgconn.exec_(f"NOTIFY {CHANNEL}, '{words}'".encode())
            if answer.status != ExecStatus.COMMAND_OK:
                raise error_from_result(answer)
        except psycopg.Error:
            self.tell(topics)  # sent again on the next connection
            raise

    def _listen(self, connection: Connection, seconds: float | None) -> None:
        """For so long, or until the bell rings."""
        ears = select.poll()
        ears.register(connection.pgconn.socket, select.POLLIN)
        ears.register(self._bell, select.POLLIN)
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            self._hear(connection)  # first, because an answer may have brought notifications along
            left = None if until is None else (until - time.monotonic()) * 1000
            if left is not None and left <= 0:
                return
            sounds = ears.poll(left)
            if any(descriptor == self._bell for descriptor, _ in sounds):
                os.read(self._bell, 1)
                return
            if sounds:
                connection.pgconn.consume_input()

    def _hear(self, connection: Connection) -> None:
        while (notice := connection.pgconn.notifies()) is not None:
            sender, *topics = notice.extra.decode().split() or [""]  # any client may notify
            if sender != self._name:
                self._heard({Topic(topic) for topic in topics if topic in set(Topic)})
