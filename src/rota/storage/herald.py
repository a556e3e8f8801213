"""Wake-ups between processes that share one PostgreSQL database."""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable

import psycopg

from rota.storage.dialogue import Connection
from rota.storage.port import Topic
from rota.storage.postgres_connection import connect

CHANNEL = "rota"
BREATH_SECONDS = 0.005


class Herald:
    """Tells other processes of commits, and listens for theirs.

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
        self._pending: set[Topic] = set()
        self._wake = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._guarded, args=(loop,), name=name, daemon=True)
            for name, loop in (("rota-notify", self._speak), ("rota-listen", self._listen))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()

    def join(self, deadline: float) -> None:
        """Wait for the threads, at the latest until that time of the monotonic clock."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _is_stopping(self) -> bool:
        return self._stopping

    def tell(self, topics: set[Topic]) -> None:
        with self._wake:
            self._pending |= topics
            self._wake.notify_all()

    def _guarded(self, loop: Callable[[Connection], None]) -> None:
        """Reconnects for ever, with a pause: a dead connection costs latency, never data."""
        while not self._stopping:
            with (
                contextlib.suppress(psycopg.Error),
                connect(self._conninfo, "rota-wake") as connection,
            ):
                loop(connection)
            with self._wake:
                if not self._stopping:
                    self._wake.wait(1.0)

    def _speak(self, connection: Connection) -> None:
        while True:
            with self._wake:
                while not self._pending and not self._stopping:
                    self._wake.wait()
                if self._stopping:
                    break
                topics, self._pending = self._pending, set()
            try:
                self._notify(connection, topics)
            except psycopg.Error:
                self.tell(topics)  # sent again on the next connection
                raise
            time.sleep(BREATH_SECONDS)  # commits in the meantime share one NOTIFY
        self._notify(connection, set())  # wakes our own listener, so that it stops at once

    def _notify(self, connection: Connection, topics: set[Topic]) -> None:
        payload = f"{self._name} {' '.join(sorted(topics))}"
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))

    def _listen(self, connection: Connection) -> None:
        if connection.pooled:
            self._rest(connection)
            return
        connection.execute(f"LISTEN {CHANNEL}")
        self._heard(set(Topic))  # notifications may have been missed before LISTEN
        while not self._is_stopping():
            for notice in connection.notifies(timeout=0.5):
                if self._is_stopping():
                    return
                sender, *topics = notice.payload.split() or [""]  # any client may notify
                if sender != self._name:
                    self._heard({Topic(topic) for topic in topics if topic in set(Topic)})

    def _rest(self, connection: Connection) -> None:
        """A pool does not forward notifications, and its server connection would keep listening
        for other clients. Behind a pool, processes therefore rely on polling."""
        connection.close()
        with self._wake:
            while not self._stopping:
                self._wake.wait()
