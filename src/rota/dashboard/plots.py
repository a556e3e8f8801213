"""Plots as SVG. Colours come from the stylesheet; a pattern or a dash says the same.

A plot is about as wide as its column, so that its text has the size of the page's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, isfinite

from markupsafe import Markup

from rota.dashboard.scales import Unit, spelled, ticks

WIDTH, HEIGHT = 380, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 6, 12, 24
MOST_LABELS = 7
GAP = 0.22  # part of a place that stays free between two bars
ROW, BAR = 20, 9
LONGEST_LABEL = 40


@dataclass(frozen=True, slots=True)
class Series:
    """`look` is a class of the stylesheet; a plot's second and third series also get a pattern."""

    name: str
    look: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    key: str  # unique within the page
    sentence: str  # describes the plot for people who do not see it
    labels: Sequence[str]  # of the places along the axis
    series: Sequence[Series]
    unit: Unit

    @property
    def is_empty(self) -> bool:
        return not any(_known(value) for one in self.series for value in one.values)

    def tip(self, place: int) -> str:
        told = [
            f"{spelled(value, self.unit)} {one.name}"
            for one in self.series
            if (value := _known(one.values[place])) is not None
        ]
        return f"{self.labels[place]}: {', '.join(told) or 'nothing'}"


def bars(plot: Plot) -> Markup:
    """Vertical bars, with the series on top of each other."""
    count = len(plot.labels)
    totals = [sum(_known(one.values[n]) or 0.0 for one in plot.series) for n in range(count)]
    frame = _Frame(count, ticks(max(totals, default=0.0), plot.unit))
    drawn = [_PATTERNS.format(key=plot.key), frame.axes(plot)]
    for place in range(count):
        base = 0.0
        for order, one in enumerate(plot.series):
            value = _known(one.values[place]) or 0.0
            if value > 0:
                drawn.append(_bar(plot, order, frame.box(place, base, value)))
                base += value
        drawn.append(frame.tip(plot, place))
    return _svg(plot, HEIGHT, drawn)


def lines(plot: Plot) -> Markup:
    """One line for each series; it is broken where no value is known."""
    values = [known for one in plot.series for value in one.values if (known := _known(value))]
    frame = _Frame(len(plot.labels), ticks(max(values, default=0.0), plot.unit))
    drawn = [frame.axes(plot)]
    for order, one in enumerate(plot.series):
        drawn += [_line(one, order, points) for points in _stretches(frame, one.values)]
    drawn += [frame.tip(plot, place) for place in range(len(plot.labels))]
    return _svg(plot, HEIGHT, drawn)


def rows(plot: Plot) -> Markup:
    """Horizontal bars, one below another, with label and values above each."""
    values = [known for one in plot.series for value in one.values if (known := _known(value))]
    wide = (WIDTH - 2) / (max(values, default=0.0) or 1.0)
    height = ROW + BAR * len(plot.series) + 6
    drawn = [_PATTERNS.format(key=plot.key)]
    for place, label in enumerate(plot.labels):
        top = place * height
        drawn.append(_row_text(plot, place, label, top))
        for order, one in enumerate(plot.series):
            value = _known(one.values[place]) or 0.0
            if value > 0:
                box = _Box(1, top + ROW + order * BAR, max(value * wide, 1.0), BAR - 1)
                drawn.append(_bar(plot, order, box))
    return _svg(plot, max(1, len(plot.labels)) * height, drawn)


def sample(plot: Plot, order: int, *, line: bool) -> Markup:
    """What a series looks like, for the legend."""
    one = plot.series[order]
    drawn = _line(one, order, [(4.0, 6.0), (16.0, 6.0)]) if line else _sample_bar(plot, order)
    return Markup(
        '<svg class="sample" viewBox="0 0 20 12" width="20" height="12" aria-hidden="true">{}</svg>'
    ).format(drawn)


def _sample_bar(plot: Plot, order: int) -> Markup:
    return _bar(plot, order, _Box(1, 1, 18, 10))


# pieces

_PATTERNS = Markup("""<defs>\
<pattern id="{key}-1" width="5" height="5" patternUnits="userSpaceOnUse" \
patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="5"/></pattern>\
<pattern id="{key}-2" width="4" height="4" patternUnits="userSpaceOnUse">\
<circle class="dot" cx="2" cy="2" r="1"/></pattern></defs>""")


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    width: float
    height: float

    @property
    def place(self) -> Markup:
        """The position and size as attributes."""
        return Markup('x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"').format(
            self.x, self.y, self.width, self.height
        )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The geometry: places along the axis, values up to the last tick."""

    places: int
    scale: Sequence[float]

    @property
    def step(self) -> float:
        return (WIDTH - LEFT - RIGHT) / max(1, self.places)

    def x(self, place: float) -> float:
        return LEFT + (place + 0.5) * self.step

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.scale[-1]

    def box(self, place: int, base: float, value: float) -> _Box:
        top = self.y(base + value)
        wide = self.step * (1 - GAP)
        return _Box(self.x(place) - wide / 2, top, wide, max(self.y(base) - top, 0.8))

    def axes(self, plot: Plot) -> Markup:
        return Markup("").join([*self._ticks(plot.unit), *self._labels(plot.labels)])

    def _ticks(self, unit: Unit) -> Iterator[Markup]:
        for tick in self.scale:
            y = self.y(tick)
            yield Markup(
                '<line class="grid-line" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>'
                '<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(LEFT, y, WIDTH - RIGHT, y, LEFT - 5, y + 4, spelled(tick, unit))

    def _labels(self, labels: Sequence[str]) -> Iterator[Markup]:
        every = ceil(len(labels) / MOST_LABELS) or 1
        places = range(0, len(labels), every)
        for n, place in enumerate(places):
            # A phone leaves out every other one of so many, because its letters are larger.
            look = "tick spare" if n % 2 and len(places) == MOST_LABELS else "tick"
            yield Markup(
                '<text class="{}" x="{:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(look, self.x(place), HEIGHT - 4, labels[place])

    def tip(self, plot: Plot, place: int) -> Markup:
        """Shows the values of a place when the pointer is anywhere above it."""
        box = _Box(self.x(place) - self.step / 2, TOP, self.step, HEIGHT - TOP - BOTTOM)
        return Markup('<rect class="place" {}><title>{}</title></rect>').format(
            box.place, plot.tip(place)
        )


def _bar(plot: Plot, order: int, box: _Box) -> Markup:
    drawn = Markup('<rect class="{}" {}/>').format(plot.series[order].look, box.place)
    if order == 0:
        return drawn
    return drawn + Markup('<rect fill="url(#{}-{})" {}/>').format(plot.key, order, box.place)


def _stretches(
    frame: _Frame, values: Sequence[float | None]
) -> Iterator[list[tuple[float, float]]]:
    known = [(place, _known(value)) for place, value in enumerate(values)]
    for there, stretch in groupby(known, lambda one: one[1] is not None):
        if there:
            yield [(frame.x(place), frame.y(value or 0.0)) for place, value in stretch]


def _line(one: Series, order: int, points: Sequence[tuple[float, float]]) -> Markup:
    """The second line is dashed, and its marks are hollow."""
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashed = Markup(' stroke-dasharray="5 3"') if order else Markup("")
    marks = Markup("").join(
        Markup('<circle class="mark {}{}" cx="{:.1f}" cy="{:.1f}" r="2.2"/>').format(
            one.look, " hollow" if order else "", x, y
        )
        for x, y in points
    )
    return Markup('<path class="line {}" d="{}"{}/>').format(one.look, path, dashed) + marks


def _row_text(plot: Plot, place: int, label: str, top: float) -> Markup:
    shown = label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
    told = [
        spelled(value, plot.unit)
        for one in plot.series
        if (value := _known(one.values[place])) is not None
    ]
    return Markup(
        '<text class="row" x="1" y="{}">{}<title>{}</title></text>'
        '<text class="row number" x="{}" y="{}" text-anchor="end">{}</text>'
    ).format(top + 15, shown, label, WIDTH - 1, top + 15, " · ".join(told) or "–")


def _known(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _svg(plot: Plot, height: float, drawn: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, height, plot.sentence, Markup("").join(drawn))


__all__ = ["Plot", "Series", "Unit", "bars", "lines", "rows", "sample"]
