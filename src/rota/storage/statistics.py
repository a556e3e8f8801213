"""The verbs of `statistic_port`; the statements are in sql/statistics.sql."""

from collections.abc import Sequence

from rota.model.clock import first_id
from rota.model.runs import Spent
from rota.model.statistics import Bucket
from rota.model.status import TERMINAL, Status
from rota.model.vitals import PostFigures
from rota.storage.primitives import Primitives
from rota.storage.rows import STATUS, encode
from rota.storage.statistic_port import Arrival, Ended


class StatisticStatements(Primitives):
    def count_open(self) -> dict[Status, int]:
        counted = {row[0]: int(row[1]) for row in self._rows("count_open")}
        return {status: counted.get(status, 0) for status in Status if status not in TERMINAL}

    def count_created(self, within: Bucket) -> int:
        first, beyond = first_id(within.begins), first_id(within.ends)
        return self._count("count_created", first=first, beyond=beyond)

    def count_ended(self, status: Status, within: Bucket) -> int:
        begins, ends = within.begins, within.ends
        return self._count("count_ended", status=status, begins=begins, ends=ends)

    def last_ended(self, status: Status, within: Bucket, limit: int) -> list[Ended]:
        rows = self._rows(
            "last_ended", status=status, begins=within.begins, ends=within.ends, want=limit
        )
        return [Ended(*row) for row in rows]

    def arrivals(self, items: Sequence[str]) -> list[Arrival]:
        rows = self._rows("arrivals", items=encode(list(items)))
        return [Arrival(row[0], STATUS[row[1]], row[2]) for row in rows]

    def failure_reasons(
        self, within: Bucket, limit: int
    ) -> list[tuple[str | None, str | None, int]]:
        rows = self._rows("failure_reasons", begins=within.begins, ends=within.ends, want=limit)
        return [(row[0], row[1], int(row[2])) for row in rows]

    def count_open_runs(self) -> dict[str, int]:
        return {agent: int(count) for agent, count in self._rows("open_runs_by_agent")}

    def earliest_schedule(self) -> str | None:
        return self._value("earliest_schedule")

    def post_figures(self) -> list[PostFigures]:
        waiting = {row[0]: (int(row[1]), row[2]) for row in self._rows("post_waiting")}
        dead = {row[0]: int(row[1]) for row in self._rows("post_dead")}
        return [
            PostFigures(kind, *waiting.get(kind, (0, None)), dead.get(kind, 0))
            for kind in sorted({*waiting, *dead})
        ]

    def spent_by_status(self, within: Bucket) -> dict[str, Spent]:
        rows = self._rows("spent_by_status", begins=within.begins, ends=within.ends)
        return {
            row[0]: Spent(int(row[1]), float(row[2]), int(row[3]), float(row[4])) for row in rows
        }
