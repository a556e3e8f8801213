"""Figures for Prometheus: counted here in plain numbers, spelled out when somebody asks.

prometheus-client is imported only then: it costs 100 ms, and the CLI opens this face too.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rota.model.sources import SourceState
from rota.queue.sweeper import Swept

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
UNMATCHED = "unmatched"


@dataclass(slots=True)
class _Durations:
    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))


class Metrics:
    """Lives on the event loop; `render` may run in a thread."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], _Durations] = {}
        self.claims = 0
        self.completions = 0
        self.conflicts = 0
        self.expiries = 0

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else "OTHER"
        self._requests[known, route, status] += 1
        durations = self._durations.get((known, route))
        if durations is None:
            durations = self._durations[known, route] = _Durations()
        durations.total += seconds
        durations.counts[bisect_left(BUCKETS, seconds)] += 1

    def swept(self, swept: Swept) -> None:
        """For whoever runs the sweeper: leases that lapsed."""
        self.expiries += len(swept.released) + len(swept.failed)

    def render(
        self,
        items: Mapping[str, int],
        version: str,
        database: str,
        sources: Sequence[SourceState] = (),
    ) -> bytes:
        from prometheus_client import (  # noqa: PLC0415 - see above
            CollectorRegistry,
            PlatformCollector,
            ProcessCollector,
            generate_latest,
        )

        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        figures = [*self._collect(items, version, database), *_of_sources(sources)]
        registry.register(_Figures(figures))
        return generate_latest(registry)

    def _collect(self, items: Mapping[str, int], version: str, database: str) -> "Iterator[Metric]":
        from prometheus_client.core import (  # noqa: PLC0415 - see above
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        info = GaugeMetricFamily("rota_info", "What is running", labels=["version", "database"])
        info.add_metric([version, database], 1)
        yield info
        by_status = GaugeMetricFamily("rota_items", "Work items by status", labels=["status"])
        for status, count in items.items():
            by_status.add_metric([status], count)
        yield by_status
        for name, text, value in (
            ("rota_claims", "Items claimed through this server", self.claims),
            ("rota_completions", "Items completed through this server", self.completions),
            ("rota_claim_conflicts", "Calls by former holders (409 claim_lost)", self.conflicts),
            ("rota_lease_expiries", "Leases that lapsed, as this server swept", self.expiries),
        ):
            yield CounterMetricFamily(name, text, value=value)
        requests = CounterMetricFamily(
            "rota_http_requests", "Requests answered", labels=["method", "route", "status"]
        )
        for (method, route, code), count in list(self._requests.items()):
            requests.add_metric([method, route, str(code)], count)
        yield requests
        seconds = HistogramMetricFamily(
            "rota_http_request_seconds", "Time to the answer", labels=["method", "route"]
        )
        for labels, durations in list(self._durations.items()):
            seconds.add_metric([*labels], _cumulated(durations.counts), durations.total)
        yield seconds


def _of_sources(sources: Sequence[SourceState]) -> "Iterator[Metric]":
    from prometheus_client.core import (  # noqa: PLC0415 - see above
        CounterMetricFamily,
        GaugeMetricFamily,
    )

    requests = CounterMetricFamily(
        "rota_tracker_requests", "Requests to trackers by those who tend them", labels=["source"]
    )
    remaining = GaugeMetricFamily(
        "rota_tracker_rate_remaining", "Requests left until the reset", labels=["source"]
    )
    limit = GaugeMetricFamily(
        "rota_tracker_rate_limit", "Requests allowed from reset to reset", labels=["source"]
    )
    for one in sources:
        requests.add_metric([one.source], one.requests)
        if one.rate_remaining is not None and one.rate_limit is not None:
            remaining.add_metric([one.source], one.rate_remaining)
            limit.add_metric([one.source], one.rate_limit)
    yield from (requests, remaining, limit)


def _cumulated(counts: list[int]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    running = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        running += count
        found.append((bound, running))
    return found


class _Figures:
    def __init__(self, figures: "list[Metric]") -> None:
        self._figures = figures

    def collect(self) -> "list[Metric]":
        return self._figures
