"""Queues on one PostgreSQL with fsync and synchronous_commit on."""

from __future__ import annotations

from bench.cell import Operation, Subject
from bench.peers.pgqueuer import Pgqueuer
from bench.peers.procrastinate import Procrastinate
from bench.report import Outcome, comparison, with_ratios
from bench.rota_side import Rota
from bench.server import databases
from bench.suites import Options, matrix

_OPERATIONS = (
    (Operation.ENQUEUE, ((1, 1), (10, 1), (50, 1), (1, 10), (1, 100), (1, 1000))),
    (
        Operation.WORK,
        ((1, 1), (10, 1), (50, 1), (1, 10), (10, 10), (50, 10), (1, 100), (10, 100)),
    ),
)


def run(options: Options) -> Outcome:
    subjects: list[Subject] = [Rota(), Pgqueuer(), Procrastinate()]
    with databases() as server:
        wanted = matrix.cells(_OPERATIONS, options)
        figures = matrix.measured(subjects, wanted, server.place, options)
        facts = server.facts()
    return Outcome(
        figures=with_ratios(figures),
        tables=[comparison("PostgreSQL", figures)],
        configuration={subject.name: subject.configuration for subject in subjects},
        server=facts,
    )
