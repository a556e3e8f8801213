"""Queues on one SQLite file, every commit on disk before it is answered."""

from __future__ import annotations

from functools import partial

from bench.cell import Operation, Subject
from bench.peers.huey import Huey
from bench.peers.litequeue import Litequeue
from bench.peers.persist_queue import PersistQueue
from bench.places import directory_place
from bench.report import Outcome, comparison, with_ratios
from bench.rota_side import Rota
from bench.suites import Options, matrix

_OPERATIONS = (
    (Operation.ENQUEUE, ((1, 1), (10, 1), (50, 1), (1, 100))),
    (Operation.WORK, ((1, 1), (10, 1), (50, 1), (1, 10), (1, 50))),
)


def run(options: Options) -> Outcome:
    subjects: list[Subject] = [Rota(), Huey(), PersistQueue(), Litequeue()]
    places = partial(directory_place, options.directory)
    wanted = matrix.cells(_OPERATIONS, options)
    figures = matrix.measured(subjects, wanted, places, options)
    return Outcome(
        figures=with_ratios(figures),
        tables=[comparison("SQLite", figures)],
        configuration={subject.name: subject.configuration for subject in subjects},
    )
