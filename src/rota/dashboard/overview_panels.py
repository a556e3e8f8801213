"""The plots of the overview, each with a sentence that describes it and its numbers as a table."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from rota.dashboard.plots import Plot, Series, bars, lines, rows, sample
from rota.dashboard.scales import Unit, spelled
from rota.model.clock import from_text
from rota.model.statistics import Period, Spread, Statistics, Window, read_zone


@dataclass(frozen=True, slots=True)
class Panel:
    """`draw` is one of the kinds of `plots`; `empty` says what to do when there is nothing."""

    title: str
    about: str
    plot: Plot
    draw: Callable[[Plot], Markup]
    head: Sequence[str]
    table: Sequence[Sequence[str]]
    empty: str
    command: str | None = None
    legend: Sequence[tuple[Markup, str]] = field(init=False)

    def __post_init__(self) -> None:
        """A single series needs no legend: the title says what it is."""
        series = self.plot.series
        shown = range(len(series)) if len(series) > 1 else ()
        drawn = [(sample(self.plot, n, line=self.draw is lines), series[n].name) for n in shown]
        object.__setattr__(self, "legend", drawn)


def panels(found: Statistics, window: str) -> list[Panel]:
    """`window` is in words: the last 24 hours."""
    labels = _labels(found)
    return [
        _throughput(found, labels, window),
        _depth(found, labels, window),
        _lead_time(found, labels, window),
        _time_in_status(found, window),
        _failures(found, window),
        _run_ends(found, window),
        _runs(found, labels, window),
        _tokens(found, labels, window),
        _cost(found, labels, window),
    ]


def _labels(found: Statistics) -> list[str]:
    """The viewer's hours or days; an hour that the clock repeats gets its time zone."""
    zone = read_zone(found.zone)
    begins = [from_text(one.begins).astimezone(zone) for one in found.periods]
    form = {Window.DAY: "%H:%M", Window.WEEK: "%a %-d", Window.MONTH: "%-d %b"}[found.window]
    seen = Counter(one.strftime(form) for one in begins)
    return [one.strftime(form if seen[one.strftime(form)] == 1 else f"{form} %Z") for one in begins]


def _values(found: Statistics, value: Callable[[Period], float | None]) -> list[float | None]:
    return [value(one) for one in found.periods]


def _table(
    found: Statistics, labels: Sequence[str], *columns: Callable[[Period], str]
) -> list[list[str]]:
    """Newest first, which is what people look for."""
    table = [
        [label, *(column(one) for column in columns)]
        for label, one in zip(labels, found.periods, strict=True)
    ]
    return table[::-1]


def _count(value: Callable[[Period], int]) -> Callable[[Period], str]:
    return lambda one: f"{value(one):,}"


def _most(labels: Sequence[str], values: Sequence[float | None]) -> str:
    place = max(range(len(labels)), key=lambda n: values[n] or 0.0)
    return labels[place]


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else spelled(seconds, Unit.SECONDS)


def _words(code: str) -> str:
    """Text without spaces is one of our codes, such as attempts_exhausted."""
    return code if " " in code else code.replace("_", " ")


def _usd(dollars: float) -> str:
    return f"${dollars:,.2f}"


# over time


def _throughput(found: Statistics, labels: Sequence[str], window: str) -> Panel:
    series = [
        Series("completed", "good-fill", _values(found, lambda one: one.completed)),
        Series("failed", "bad-fill", _values(found, lambda one: one.failed)),
        Series("cancelled", "quiet-fill", _values(found, lambda one: one.cancelled)),
    ]
    sentence = (
        f"In {window}, {found.completed:,} items were completed, {found.failed:,} failed and"
        f" {found.cancelled:,} were cancelled; most were completed from"
        f" {_most(labels, series[0].values)}."
    )
    return Panel(
        "Throughput",
        f"Items that ended, per {found.window.step}",
        Plot("throughput", sentence, labels, series, Unit.COUNT),
        bars,
        (found.window.step.capitalize(), "Created", "Completed", "Failed", "Cancelled"),
        _table(
            found, labels, _count(lambda one: one.created), _count(lambda one: one.completed),
            _count(lambda one: one.failed), _count(lambda one: one.cancelled),
        ),
        f"No item ended in {window}. An agent claims an item:",
        "rota claim --agent NAME",
    )  # fmt: skip


def _depth(found: Statistics, labels: Sequence[str], window: str) -> Panel:
    depths = [float(one.open) for one in found.periods]
    sentence = (
        f"Open items went from {depths[0]:,.0f} to {depths[-1]:,.0f} in {window}; there were at"
        f" most {max(depths):,.0f}."
    )
    return Panel(
        "Open items",
        f"Items open at the end of each {found.window.step}",
        Plot(
            "depth", sentence, labels, [Series("open", "accent-line", depths)], Unit.COUNT
        ),
        lines,
        (found.window.step.capitalize(), "Open"),
        _table(found, labels, _count(lambda one: one.open)),
        "No item is open, and none was. Add one:",
        'rota add "Say hello"',
    )  # fmt: skip


def _lead_time(found: Statistics, labels: Sequence[str], window: str) -> Panel:
    series = [
        Series("half within (p50)", "accent-line", _values(found, lambda one: one.lead_time.p50)),
        Series("90 % within (p90)", "warn-line", _values(found, lambda one: one.lead_time.p90)),
    ]
    sentence = (
        f"Of the items completed in {window}, half took at most {_time(found.lead_time.p50)} and"
        f" nine tenths at most {_time(found.lead_time.p90)} from creation to completion."
    )
    return Panel(
        "Lead time",
        "From creation to completion",
        Plot("lead", sentence, labels, series, Unit.SECONDS),
        lines,
        (found.window.step.capitalize(), "p50", "p90", "Measured"),
        _table(
            found, labels, lambda one: _time(one.lead_time.p50),
            lambda one: _time(one.lead_time.p90), _count(lambda one: one.lead_time.measured),
        ),
        f"No item was completed in {window}, so there is nothing to measure.",
    )  # fmt: skip


def _runs(found: Statistics, labels: Sequence[str], window: str) -> Panel:
    values = _values(found, lambda one: one.spent.runs)
    sentence = f"{found.spent.runs:,} runs began in {window}, most from {_most(labels, values)}."
    return Panel(
        "Runs",
        f"Runs that began, per {found.window.step}",
        _bars_of("runs", sentence, labels, values),
        bars,
        (found.window.step.capitalize(), "Runs", "Time"),
        _table(
            found, labels, _count(lambda one: one.spent.runs),
            lambda one: _time(one.spent.seconds),
        ),
        f"No agent ran in {window}. Wake one:",
        "rota schedule trigger AGENT/SCHEDULE",
    )  # fmt: skip


def _tokens(found: Statistics, labels: Sequence[str], window: str) -> Panel:
    values = _values(found, lambda one: one.spent.tokens)
    used = f"Runs that began in {window} used {found.spent.tokens:,} tokens"
    return Panel(
        "Tokens",
        f"In and out, by the {found.window.step} in which the run began",
        _bars_of("tokens", f"{used}, most from {_most(labels, values)}.", labels, values),
        bars,
        (found.window.step.capitalize(), "Tokens"),
        _table(found, labels, _count(lambda one: one.spent.tokens)),
        f"No run in {window} reported tokens. Runtimes that call a model report them.",
    )


def _cost(found: Statistics, labels: Sequence[str], window: str) -> Panel:
    values = _values(found, lambda one: one.spent.cost_usd)
    cost = f"Runs that began in {window} cost {_usd(found.spent.cost_usd)}"
    sentence = f"{cost}, most from {_most(labels, values)}."
    return Panel(
        "Cost",
        f"US dollars, by the {found.window.step} in which the run began",
        _bars_of("cost", sentence, labels, values, Unit.DOLLARS),
        bars,
        (found.window.step.capitalize(), "Cost"),
        _table(found, labels, lambda one: _usd(one.spent.cost_usd)),
        f"No run in {window} reported a cost. Runtimes that know the cost report it.",
    )


def _bars_of(
    key: str,
    sentence: str,
    labels: Sequence[str],
    values: Sequence[float | None],
    unit: Unit = Unit.COUNT,
) -> Plot:
    return Plot(key, sentence, labels, [Series(key, "accent-fill", values)], unit)


# over the whole window


def _time_in_status(found: Statistics, window: str) -> Panel:
    times = {_words(status): one for status, one in found.time_in_status.items()}
    measured = [f"{name} {_time(one.p50)}" for name, one in times.items() if one.measured]
    return Panel(
        "Time in status",
        "Of the latest items that ended, at most 1,000",
        Plot(
            "stays",
            f"Of the items that ended in {window}, the median stay was: {', '.join(measured)}.",
            list(times),
            [
                Series("half within (p50)", "accent-fill", [one.p50 for one in times.values()]),
                Series("90 % within (p90)", "warn-fill", [one.p90 for one in times.values()]),
            ],
            Unit.SECONDS,
        ),
        rows,
        ("Status", "p50", "p90", "Measured"),
        [_spread_row(name, one) for name, one in times.items()],
        f"No item ended in {window}, so there is nothing to measure.",
    )


def _spread_row(name: str, one: Spread) -> list[str]:
    return [name, _time(one.p50), _time(one.p90), f"{one.measured:,}"]


def _failures(found: Statistics, window: str) -> Panel:
    reasons = [(_words(reason), count) for reason, count in found.failures]
    told = ", ".join(f"{count:,} for {reason}" for reason, count in reasons[:5])
    sentence = f"Items that failed in {window}: {told}."
    return _counted(
        "Failures by reason",
        "Items whose status is failed",
        _rows_of("failures", sentence, reasons, Series("items", "bad-fill", ())),
        ("Reason", "Items"),
        f"No item failed in {window}.",
    )


def _run_ends(found: Statistics, window: str) -> Panel:
    ends = [(_words(status), count) for status, count in found.runs.items()]
    told = ", ".join(f"{count:,} {status}" for status, count in ends)
    sentence = f"Runs that began in {window}: {told}."
    return _counted(
        "Runs by outcome",
        "Runs that began, by their present status",
        _rows_of("ends", sentence, ends, Series("runs", "accent-fill", ())),
        ("Outcome", "Runs"),
        f"No agent ran in {window}.",
    )


def _rows_of(key: str, sentence: str, counts: Sequence[tuple[str, int]], as_one: Series) -> Plot:
    series = replace(as_one, values=[count for _, count in counts])
    return Plot(key, sentence, [name for name, _ in counts], [series], Unit.COUNT)


def _counted(title: str, about: str, plot: Plot, head: Sequence[str], empty: str) -> Panel:
    values = plot.series[0].values
    table = [[name, f"{count:,.0f}"] for name, count in zip(plot.labels, values, strict=True)]
    return Panel(title, about, plot, rows, head, table, empty)
