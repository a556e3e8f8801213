"""The ledger's services on one store, as the faces get them."""

from dataclasses import dataclass

from rota.model.clock import Clock, SystemClock
from rota.queue.outside import OutsideWork
from rota.queue.service import WorkQueue
from rota.queue.sweeper import Sweeper
from rota.queue.tokens import Tokens
from rota.queue.views import Views
from rota.storage.port import Store


@dataclass(frozen=True, slots=True)
class Ledger:
    queue: WorkQueue
    views: Views
    tokens: Tokens
    sweeper: Sweeper
    outside: OutsideWork
    clock: Clock
    database: str  # its address, without secrets

    @classmethod
    def on(cls, store: Store, clock: Clock | None = None) -> "Ledger":
        clock = clock or SystemClock()
        return cls(
            WorkQueue(store, clock),
            Views(store, clock),
            Tokens(store, clock),
            Sweeper(store, clock),
            OutsideWork(store, clock),
            clock,
            store.url,
        )
