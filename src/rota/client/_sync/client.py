# Made from ../_async/client.py by tools/generate_sync_client.py: change it there.

"""The client itself: all calls, the claim loops, and their end."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any
from weakref import WeakSet

from rota.client._sync import runtime
from rota.client._sync.calls import DEFAULT_TIMEOUT
from rota.client._sync.follow_ups import DEFAULT_POLL_SECONDS, FollowUps
from rota.client._sync.loop import DEFAULT_LEASE_SECONDS, Work
from rota.client._sync.records import RecordCalls
from rota.client._sync.runs import RunCalls
from rota.client._sync.schedules import ScheduleCalls
from rota.client._sync.signals import SignalCalls
from rota.client._sync.taking import Taking
from rota.client._sync.verbs import VerbCalls
from rota.client.heartbeats import Heartbeats
from rota.client.retries import Retries
from rota.client.transport import SyncTransport


class SyncWorkQueueClient(VerbCalls, RecordCalls, RunCalls, ScheduleCalls, SignalCalls):
    """Everything the API can do, as methods; they return the API's JSON.

    `with SyncWorkQueueClient() as client:` closes connections at the end. Reads, submissions and
    a holder's verbs are repeated when a connection fails. Other writes are not, because they may
    have been carried out.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        actor: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries | None = None,
        transport: SyncTransport | None = None,
    ) -> None:
        super().__init__(
            url, token, actor=actor, timeout=timeout, retries=retries, transport=transport
        )
        self._loops: WeakSet[Taking[Any]] = WeakSet()
        self._heartbeats: Heartbeats | None = None

    def __enter__(self) -> "SyncWorkQueueClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def work(
        self,
        agent: str,
        *,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        project_id: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        concurrency: int = 1,
        stop: runtime.Event | None = None,
    ) -> Work:
        """Work through the queue as this agent; see `rota.client.Work`."""
        loop = Work(
            self,
            agent,
            types=types,
            labels=labels,
            project_id=project_id,
            lease_seconds=lease_seconds,
            concurrency=concurrency,
            stop=stop,
        )
        self._loops.add(loop)
        return loop

    def follow_ups_for(
        self,
        agent: str,
        *,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        wait: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
        stop: runtime.Event | None = None,
    ) -> FollowUps:
        """Work through the follow-ups that this agent may have; without `wait`, end when there is
        none. See `rota.client.FollowUps`."""
        loop = FollowUps(
            self,
            agent,
            lease_seconds=lease_seconds,
            wait=wait,
            poll_seconds=poll_seconds,
            stop=stop,
        )
        self._loops.add(loop)
        return loop

    @property
    def heartbeats(self) -> Heartbeats:
        if self._heartbeats is None:
            self._heartbeats = Heartbeats(self._transport.beside(), self._headers(True))
        return self._heartbeats

    def stop(self, grace: float = 0.0) -> None:
        """End all claim loops: nothing more is taken; after `grace` seconds, all is given back."""
        for work in list(self._loops):
            work.stop(grace)

    def close(self) -> None:
        self.stop()
        if self._heartbeats is not None:
            self._heartbeats.close()
        self._transport.close()
