"""Keeps leases alive, on threads and connections of their own.

Threads also under asyncio: a body that blocks the event loop for a minute, with a subprocess or a
long computation, is busy and not dead, and keeps its item. Several threads, where several leases
are held: a heartbeat without an answer must not delay the others.
"""

import json
import logging
import threading
from collections.abc import Mapping

from rota.client.errors import error_of
from rota.client.forks import renewed_in_children
from rota.client.lease import Lease
from rota.client.transport import Request, SyncTransport
from rota.model.clock import elapsed
from rota.model.errors import ClaimLost, NotFound

log = logging.getLogger("rota.client")

_AT_ONCE = 8
_LONGEST_ANSWER = 10.0
_LINGER_SECONDS = 5.0
_CLOSING_SECONDS = 0.5


class Heartbeats:
    def __init__(self, transport: SyncTransport, headers: Mapping[str, str]) -> None:
        self._transport = transport
        self._headers = headers
        self._closed = False
        self.begin_anew()
        renewed_in_children(self)

    def begin_anew(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Lease, float] = {}  # every held lease, with the time of its next heartbeat
        self._asked: set[Lease] = set()  # leases whose heartbeat is under way
        self._threads: set[threading.Thread] = set()

    def hold(self, lease: Lease) -> None:
        with self._changed:
            self._due[lease] = lease.beats_at
            self._have_a_thread_free()
            self._changed.notify_all()

    def let_go(self, lease: Lease) -> None:
        with self._changed:
            self._due.pop(lease, None)

    def close(self) -> None:
        """Does not wait long for a heartbeat under way, because the event loop may be blocked."""
        with self._changed:
            self._due.clear()
            self._closed = True
            self._changed.notify_all()
            if not self._threads:
                self._transport.close()
            elif threading.current_thread() not in self._threads:
                self._changed.wait_for(lambda: not self._threads, _CLOSING_SECONDS)

    def _have_a_thread_free(self) -> None:
        """Have one thread more than heartbeats under way, where other leases are held."""
        is_one_free = len(self._threads) > len(self._asked)
        if is_one_free or len(self._threads) >= _AT_ONCE or not self._waiting():
            return
        thread = threading.Thread(target=self._run, name="rota-heartbeat", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _waiting(self) -> list[Lease]:
        return [lease for lease in self._due if lease not in self._asked]

    def _run(self) -> None:
        while (lease := self._next()) is not None:
            wait = self._send(lease)
            with self._changed:
                self._asked.discard(lease)
                if lease in self._due and wait is not None:
                    self._due[lease] = elapsed() + wait
                else:
                    self._due.pop(lease, None)

    def _next(self) -> Lease | None:
        """The lease that is due. None ends the thread, after a while without leases."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting() or self._closed, _LINGER_SECONDS)
                waiting = self._waiting()
                if not waiting:
                    self._leave()
                    return None
                lease = min(waiting, key=self._due.__getitem__)
                ahead = self._due[lease] - elapsed()
                if ahead <= 0:
                    self._asked.add(lease)
                    self._have_a_thread_free()
                    return lease
                self._changed.wait(ahead)

    def _leave(self) -> None:
        self._threads.discard(threading.current_thread())
        if self._closed and not self._threads:
            self._transport.close()
            self._changed.notify_all()

    def _send(self, lease: Lease) -> float | None:
        """Seconds until the next heartbeat; None when the lease is lost."""
        asked_at = elapsed()
        try:
            self._beat(lease)
        except (ClaimLost, NotFound) as error:
            _lose(lease)
            if lease.lost:
                log.warning("%s was taken away: %s", lease.held_id, error.message)
            return None
        except Exception as error:  # noqa: BLE001 - whatever it was, the other leases need us
            return self._missed(lease, error)
        lease.renewed(asked_at)
        return lease.interval

    def _beat(self, lease: Lease) -> None:
        body = json.dumps(lease.words).encode()
        # Not beyond the end of the lease: the body has to learn of its loss in time.
        timeout = min(lease.interval, _LONGEST_ANSWER, max(lease.left, lease.interval / 4))
        answer = self._transport.send(Request("POST", lease.path, self._headers, body, timeout))
        if answer.status >= 300:
            raise error_of(answer)

    def _missed(self, lease: Lease, error: Exception) -> float:
        """Try again soon, until the lease has lapsed by our own clock: then it is lost. So are
        other lapsed leases without a heartbeat under way."""
        log.warning("a heartbeat for %s failed: %s", lease.held_id, error)
        with self._changed:
            over = [one for one in {*self._waiting(), lease} if one.lapsed]
            for one in over:
                self._due.pop(one, None)
        for one in over:
            _lose(one)
        return lease.interval / 4


def _lose(lease: Lease) -> None:
    try:
        lease.lose()
    except Exception:  # the callback's owner may be gone; the other leases need this thread
        log.exception("nobody could be told that %s is lost", lease.held_id)
