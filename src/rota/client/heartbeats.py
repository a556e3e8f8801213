"""Keeps leases alive on a thread and a connection of its own.

A thread also under asyncio: a body that blocks the event loop for a minute, with a
subprocess or a long computation, is busy and not dead, and keeps its item.
"""

import json
import logging
import threading
from collections.abc import Mapping

from rota.client.errors import error_of
from rota.client.lease import Lease, clock
from rota.client.transport import Request, SyncTransport
from rota.model.errors import ClaimLost, NotFound

log = logging.getLogger("rota.client")

# A lease is renewed three times before it would end, so two heartbeats may go missing.
_BEATS_PER_LEASE = 3
_LONGEST_ANSWER = 10.0
_LINGER_SECONDS = 5.0
_CLOSING_SECONDS = 0.5


class Heartbeats:
    def __init__(self, transport: SyncTransport, headers: Mapping[str, str]) -> None:
        self._transport = transport
        self._headers = headers
        self._changed = threading.Condition()
        self._due: dict[Lease, float] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def hold(self, lease: Lease) -> None:
        with self._changed:
            self._due[lease] = clock() + lease.seconds / _BEATS_PER_LEASE
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="rota-heartbeat", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def let_go(self, lease: Lease) -> None:
        with self._changed:
            self._due.pop(lease, None)

    def close(self) -> None:
        """A heartbeat on its way is not waited for long: an event loop may be standing still."""
        with self._changed:
            self._due.clear()
            self._closed = True
            thread = self._thread
            self._changed.notify()
        if thread is None:
            self._transport.close()
        elif thread is not threading.current_thread():
            thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        while (lease := self._next()) is not None:
            wait = self._send(lease)
            with self._changed:
                if lease in self._due and wait is not None:
                    self._due[lease] = clock() + wait
                else:
                    self._due.pop(lease, None)
        if self._closed:
            self._transport.close()

    def _next(self) -> Lease | None:
        """The lease that is due; None ends the thread, when nothing was held for a while."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._due or self._closed, _LINGER_SECONDS)
                if not self._due:
                    self._thread = None
                    return None
                lease = min(self._due, key=self._due.__getitem__)
                ahead = self._due[lease] - clock()
                if ahead <= 0:
                    return lease
                self._changed.wait(ahead)

    def _send(self, lease: Lease) -> float | None:
        """Seconds until the next one; None when the lease is lost."""
        interval = lease.seconds / _BEATS_PER_LEASE
        asked_at = clock()
        try:
            self._beat(lease, min(interval, _LONGEST_ANSWER))
        except (ClaimLost, NotFound) as error:
            lease.lose()
            if lease.lost:
                log.warning("%s was taken away: %s", lease.held_id, error.message)
            return None
        except Exception as error:  # noqa: BLE001 - whatever it was, the other leases need us
            return self._missed(lease, error)
        lease.renewed(asked_at)
        return interval

    def _beat(self, lease: Lease, timeout: float) -> None:
        body = json.dumps(lease.words).encode()
        answer = self._transport.send(Request("POST", lease.path, self._headers, body, timeout))
        if answer.status >= 300:
            raise error_of(answer)

    def _missed(self, lease: Lease, error: Exception) -> float | None:
        """Ask again soon, until the lease is over by our own clock: then it is not ours."""
        log.warning("a heartbeat for %s failed: %s", lease.held_id, error)
        if lease.lapsed:
            lease.lose()
            return None
        return lease.seconds / _BEATS_PER_LEASE / 4
