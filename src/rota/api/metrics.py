"""Metrics for Prometheus: counted here as plain numbers, rendered when requested.

prometheus-client is imported only then: it costs 100 ms, and the CLI opens this face, too.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rota.model.sources import SourceState
from rota.model.vitals import Vitals
from rota.queue.sweeper import Swept

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
UNMATCHED = "unmatched"
MOST_AGENTS = 200
OTHERS = "others"

_RUNS = ("rota_runs_last_hour", "Runs begun within an hour", "agent", "status")
_SECONDS = ("rota_run_seconds_last_hour", "What they took", "agent")
_USD = ("rota_run_cost_usd_last_hour", "What they cost", "agent")
_TOKENS = ("rota_run_tokens_last_hour", "What they read and wrote", "agent")
_OPEN = ("rota_runs_open", "Runs that have not ended", "agent")
_WORKING = ("rota_agent_items_in_progress", "Items an agent works on", "agent")
_REVIEWS = ("rota_agent_items_in_review", "Items that wait for a review", "agent")
_AGENT_FIGURES = (_RUNS, _SECONDS, _USD, _TOKENS, _OPEN, _WORKING, _REVIEWS)
# By metric (name, text and label names); within each, by label values.
_Values = dict[tuple[str, ...], defaultdict[tuple[str, ...], float]]


@dataclass(slots=True)
class _Durations:
    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.counts[bisect_left(BUCKETS, seconds)] += 1


class Metrics:
    """Lives on the event loop; `render` may run in a thread."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], _Durations] = {}
        self._signals = _Durations()
        self.claims = 0
        self.completions = 0
        self.conflicts = 0
        self.expiries = 0
        self.sockets: Callable[[], int] = lambda: 0  # number of open WebSockets

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else "OTHER"
        self._requests[known, route, status] += 1
        durations = self._durations.get((known, route))
        if durations is None:
            durations = self._durations[known, route] = _Durations()
        durations.add(seconds)

    def signal_fired(self, seconds: float) -> None:
        """For the signal loop: how long after its event a signal fired."""
        self._signals.add(max(0.0, seconds))

    def swept(self, swept: Swept) -> None:
        """For the sweeper: counts lapsed leases."""
        self.expiries += len(swept.released) + len(swept.failed)

    def render(
        self,
        items: Mapping[str, int],
        version: str,
        database: str,
        sources: Sequence[SourceState] = (),
        vitals: Vitals | None = None,
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
        if vitals is not None:
            figures += [*_of_fleet(vitals), *_of_agents(vitals)]
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
        yield GaugeMetricFamily(
            "rota_websocket_connections", "Open at this server", value=self.sockets()
        )
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
        signals = HistogramMetricFamily(
            "rota_signal_seconds", "From an event to what follows from it, as this server fired it"
        )
        signals.add_metric([], _cumulated(self._signals.counts), self._signals.total)
        yield signals


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


def _of_fleet(vitals: Vitals) -> "Iterator[Metric]":
    """From the ledger, so every server reports the same values."""
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - see above

    ended = GaugeMetricFamily(
        "rota_items_ended_last_hour", "Items that ended within an hour", labels=["status"]
    )
    for status, count in vitals.ended.items():
        ended.add_metric([status], count)
    yield ended
    lead = GaugeMetricFamily(
        "rota_lead_time_seconds",
        "From creation to completion, of items completed within an hour",
        labels=["quantile"],
    )
    for quantile, seconds in (("0.5", vitals.lead_time.p50), ("0.9", vitals.lead_time.p90)):
        if seconds is not None:
            lead.add_metric([quantile], seconds)
    yield lead
    for name, text, value in (
        (
            "rota_schedule_lateness_seconds",
            "Of the longest overdue schedule",
            vitals.schedules_late,
        ),
        ("rota_signal_lateness_seconds", "Of the longest overdue firing", vitals.signals_late),
        ("rota_outbox_oldest_seconds", "Age of the longest waiting letter", vitals.outbox_age),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    waiting = GaugeMetricFamily("rota_outbox_waiting", "Letters to be delivered", labels=["kind"])
    dead = GaugeMetricFamily("rota_outbox_dead", "Letters that were given up", labels=["kind"])
    for one in vitals.post:
        waiting.add_metric([one.kind], one.waiting)
        dead.add_metric([one.kind], one.dead)
    yield from (waiting, dead)


def _of_agents(vitals: Vitals) -> "Iterator[Metric]":
    """Agent names are not all configured: a claimer may call itself anything. Beyond MOST_AGENTS,
    agents are summed up as one."""
    known = {one.agent.name for one in vitals.agents}
    names = sorted({*known, *vitals.open_runs, *(one.agent for one in vitals.runs)})
    shown = {name: name if place < MOST_AGENTS else OTHERS for place, name in enumerate(names)}
    figures: _Values = {key: defaultdict(float) for key in _AGENT_FIGURES}
    for run in vitals.runs:
        agent = shown[run.agent]
        figures[_RUNS][agent, run.status] += run.runs
        figures[_SECONDS][agent,] += run.seconds
        figures[_USD][agent,] += run.cost_usd or 0.0
        figures[_TOKENS][agent,] += run.tokens
    for load in vitals.agents:
        agent = shown[load.agent.name]
        figures[_WORKING][agent,] += load.in_progress
        figures[_REVIEWS][agent,] += load.in_review
    for name, count in vitals.open_runs.items():
        figures[_OPEN][shown[name],] += count
    yield from _families(figures)


def _families(figures: "_Values") -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - see above

    for (name, text, *labels), values in figures.items():
        family = GaugeMetricFamily(name, text, labels=labels)
        for of, value in values.items():
            family.add_metric([*of], value)
        yield family


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
