"""Values on an axis: round distances between ticks, and short labels."""

from collections.abc import Sequence
from enum import StrEnum
from math import ceil, floor, log10

SPACES = 4  # between ticks, at most


class Unit(StrEnum):
    COUNT = "count"
    SECONDS = "seconds"
    DOLLARS = "dollars"


_ROUND_SECONDS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
)  # fmt: skip
_DAY = 86_400.0
_SMALLEST = {Unit.COUNT: 1.0, Unit.SECONDS: 1.0, Unit.DOLLARS: 0.01}
_THOUSANDS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def ticks(top: float, unit: Unit) -> Sequence[float]:
    """From zero to the first round value that is not below `top`."""
    step = _step(max(top / SPACES, _SMALLEST[unit]), unit)
    last = max(1, ceil(round(top / step, 9)))
    return [round(number * step, 9) for number in range(last + 1)]


def _step(least: float, unit: Unit) -> float:
    if unit is Unit.SECONDS and least <= _ROUND_SECONDS[-1]:
        return float(next(one for one in _ROUND_SECONDS if one >= least))
    if unit is Unit.SECONDS:
        return _DAY * _round(least / _DAY)
    return _round(least)


def _round(least: float) -> float:
    """The first of 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** floor(log10(least) + 1e-9)
    return next(one * power for one in (1, 2, 5, 10) if one * power >= least * (1 - 1e-9))


def spelled(value: float, unit: Unit) -> str:
    """With its unit, and no more digits than a person reads at a glance."""
    if unit is Unit.SECONDS:
        return span(value)
    if unit is Unit.DOLLARS:
        return f"${_short(value)}" if value >= 1_000 else f"${_plain(value)}"
    return _short(value)


def span(seconds: float) -> str:
    """Two units while there are fewer than ten of the larger one: 45s, 24m, 2h 50m, 3d."""
    if 0 < seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    for (size, unit), (smaller, below) in zip(_SPANS, [*_SPANS[1:], (1, "")], strict=True):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            more = rest // smaller if whole < 10 else 0
            return f"{whole}{unit} {more}{below}" if more else f"{whole}{unit}"
    return "0s"


def _short(value: float) -> str:
    for size, letter in _THOUSANDS:
        if value >= size:
            return (
                f"{value / size:.3g}{letter}"
                if value < size * 1_000
                else f"{value / size:.0f}{letter}"
            )
    return f"{value:.3g}" if value < 1_000 else f"{value:,.0f}"


def _plain(dollars: float) -> str:
    return f"{dollars:.0f}" if dollars == int(dollars) else f"{dollars:.2f}"
