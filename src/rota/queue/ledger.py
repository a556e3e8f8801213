"""The ledger's services on one store, for the faces."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rota.model.clock import Clock
from rota.model.fleet import Fleet
from rota.queue.explain_fleet import Deserted, nowhere
from rota.queue.outside import OutsideWork
from rota.queue.postbox import Postbox
from rota.queue.service import WorkQueue
from rota.queue.statistics import Figures
from rota.queue.sweeper import Sweeper
from rota.queue.tokens import Tokens
from rota.queue.views import Views
from rota.queue.writing import Writes
from rota.runner.admission import Admission
from rota.runner.records import RunBook
from rota.scheduler.service import Schedules
from rota.storage.port import Store


@dataclass(frozen=True, slots=True)
class Ledger:
    queue: WorkQueue
    views: Views
    tokens: Tokens
    sweeper: Sweeper
    outside: OutsideWork
    runs: RunBook
    admission: Admission
    post: Postbox
    schedules: Schedules
    figures: Figures
    writes: Writes
    clock: Clock
    database: str  # its address, without secrets

    @classmethod
    def on(
        cls,
        store: Store,
        *,
        node: str = "",
        logs: Path = Path(".rota/runs"),
        deserted: Deserted = nowhere,
        fleet: Callable[[], Fleet] = Fleet,
    ) -> "Ledger":
        """`node` is the node that runs agents here, if any; `logs` is where their output goes;
        `deserted` names a place of servers that has none now; `fleet` is what the file says."""
        return cls(
            WorkQueue(store),
            Views(store, deserted=deserted, fleet=fleet),
            Tokens(store),
            Sweeper(store),
            OutsideWork(store),
            RunBook(store, node=node, logs=logs),
            Admission(store),
            Postbox(store),
            Schedules(store, store.clock),
            Figures(store),
            Writes(store),
            store.clock,
            store.url,
        )
