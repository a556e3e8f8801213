"""Load over HTTP that outlives its server: submitters, workers and onlookers, each in a thread.

Everything they are told is recorded in `answers`. The result of a request without an answer is
unknown: a submission is repeated with its key, a completion with its token. A claim is forgotten,
because its lease brings the items back.
"""

import random
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from rota.client import SyncWorkQueueClient
from rota.client.errors import PASSING, ConnectionFailed
from rota.client.retries import Retries
from rota.model.errors import ClaimLost
from tests.faults.history import Answers

FOR_EVER = Retries(attempts=100_000, base_seconds=0.02, cap_seconds=0.2)
SLOTS = 200  # a claim without an answer keeps its slot until the lease is over


class Load:
    def __init__(
        self, url: str, *, items: int, submitters: int = 3, workers: int = 3, lease: float = 2.0
    ) -> None:
        self.url = url
        self.items = items
        self.answers = Answers()
        self.unanswered = 0
        self.refused: list[str] = []
        self._lease = lease
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        duties: list[tuple[Callable[..., None], Any]] = [
            *((self._submit, range(n, items, submitters)) for n in range(submitters)),
            *((self._work, f"agent-{n}") for n in range(workers)),
            (self._look, "onlooker"),
        ]
        self._threads = [
            threading.Thread(target=self._guarded, args=duty, daemon=True) for duty in duties
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if kind is None:
            assert not any(thread.is_alive() for thread in self._threads), "a thread is stuck"

    @property
    def told(self) -> int:
        """How many answers said that something was stored."""
        return len(self.answers.submitted) + len(self.answers.completed)

    def wait_until_told(self, count: int, seconds: float = 60.0) -> None:
        self._wait(lambda: self.told >= count, f"{count} answers", seconds)

    def wait_until_done(self, seconds: float = 60.0) -> None:
        """Until every item was submitted and completed, as far as its callers were told."""

        def done() -> bool:
            return len({item for item, _ in self.answers.completed}) == self.items

        self._wait(done, f"all {self.items} items completed", seconds)

    def _wait(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        with self._changed:
            reached = self._changed.wait_for(lambda: self._errors or done(), seconds)
        if self._errors:
            raise self._errors[0]
        assert reached, (
            f"not within {seconds:.0f} s: {what}; {len(self.answers.submitted)} are submitted,"
            f" {len(self.answers.completed)} completed"
        )

    # the threads

    def _guarded(self, duty: Callable[..., None], argument: Any) -> None:
        try:
            with SyncWorkQueueClient(self.url, retries=FOR_EVER, timeout=20) as client:
                duty(client, argument)
        except BaseException as error:  # noqa: BLE001 - the test shall hear of it
            with self._changed:
                self._errors.append(error)
                self._changed.notify_all()

    def _submit(self, client: SyncWorkQueueClient, numbers: range) -> None:
        for number in numbers:
            if self._stop.is_set():
                return
            key = f"item-{number}"
            item = client.work_add("chore", key, max_attempts=1000, idempotency_key=key)
            with self._changed:
                self.answers.submitted.append((key, item["id"]))
                self.answers.see("submitter", item)
                self._changed.notify_all()

    def _work(self, client: SyncWorkQueueClient, agent: str) -> None:
        self._unless_unanswered(lambda: client.set_agent(agent, max_concurrent=SLOTS))
        wanted = {"agent": agent, "limit": 3, "lease_seconds": self._lease}
        items: list[dict[str, Any]] = []
        while items or not self._stop.is_set():
            if not items:
                asked = self._unless_unanswered(lambda: client.claim(**wanted, wait_seconds=1))
                items = asked or []
                continue
            item, *items = items
            goes_on = not (items or self._stop.is_set())
            items += self._complete(client, agent, item, next=wanted if goes_on else None)

    def _complete(
        self, client: SyncWorkQueueClient, agent: str, item: dict[str, Any], **more: Any
    ) -> list[dict[str, Any]]:
        """Returns the items taken with it, if more was requested."""
        epoch = item["claim"]["epoch"]
        with self._changed:
            self.answers.see(agent, item)
        try:
            done = client.complete(
                item["id"], item["claim"]["token"], notes=f"{agent} {epoch}", **more
            )
        except ClaimLost as error:
            self.refused.append(error.message)
            return []
        with self._changed:
            self.answers.completed.append((item["id"], epoch))
            self.answers.see(agent, done)
            self._changed.notify_all()
        return list(done.get("next", ()))

    def _look(self, client: SyncWorkQueueClient, name: str) -> None:
        dice = random.Random(0)
        while not self._stop.wait(0.005):
            if known := self.answers.submitted:
                _, item_id = dice.choice(known)
                item = client.work_get(item_id)
                with self._changed:
                    self.answers.see(name, item)

    def _unless_unanswered(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except PASSING as error:
            if isinstance(error, ConnectionFailed) and error.sent:
                self.unanswered += 1
            self._stop.wait(0.02)  # do not flood a server that is away
            return None
