"""Plots: round scales, bars and lines where they belong, and labels that stay text."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf, nan
from xml.etree import ElementTree

import pytest

from rota.dashboard.plots import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Plot,
    Series,
    bars,
    lines,
    rows,
    sample,
)
from rota.dashboard.scales import Unit, spelled, ticks

Draw = Callable[[Plot], str]
ALL: list[Draw] = [bars, lines, rows]
DAY = 86_400.0


def plot(
    *values: Sequence[float | None],
    unit: Unit = Unit.COUNT,
    labels: Sequence[str] | None = None,
) -> Plot:
    named = labels or [f"l{n}" for n in range(len(values[0]))]
    series = [Series(f"s{n}", f"look{n}", one) for n, one in enumerate(values)]
    return Plot("k", "Seen.", named, series, unit)


def drawn(draw: Draw, what: Plot) -> ElementTree.Element:
    """It is well-formed, and nothing in it lies outside."""
    svg = ElementTree.fromstring(draw(what))
    _, _, wide, high = map(float, svg.attrib["viewBox"].split())
    for box in svg.iter("rect"):
        x, y, width, height = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= wide + 0.2, box.attrib
        assert 0 <= y <= y + height <= high + 0.2, box.attrib
    for mark in svg.iter("circle"):
        if "mark" in mark.attrib["class"]:
            assert LEFT <= float(mark.attrib["cx"]) <= WIDTH - RIGHT
            assert TOP - 0.1 <= float(mark.attrib["cy"]) <= HEIGHT - BOTTOM + 0.1
    return svg


def of_look(svg: ElementTree.Element, tag: str, look: str) -> list[dict[str, str]]:
    return [one.attrib for one in svg.iter(tag) if look in one.attrib.get("class", "").split()]


# scales


@pytest.mark.parametrize(
    ("top", "unit", "expected"),
    [
        (0, Unit.COUNT, [0, 1]),
        (1, Unit.COUNT, [0, 1]),
        (3, Unit.COUNT, [0, 1, 2, 3]),
        (4, Unit.COUNT, [0, 1, 2, 3, 4]),
        (7, Unit.COUNT, [0, 2, 4, 6, 8]),
        (20, Unit.COUNT, [0, 5, 10, 15, 20]),
        (435, Unit.COUNT, [0, 200, 400, 600]),
        (0.03, Unit.DOLLARS, [0, 0.01, 0.02, 0.03]),
        (62.8, Unit.DOLLARS, [0, 20, 40, 60, 80]),
        (0, Unit.SECONDS, [0, 1]),
        (50, Unit.SECONDS, [0, 15, 30, 45, 60]),
        (3_000, Unit.SECONDS, [0, 900, 1_800, 2_700, 3_600]),
        (8_400, Unit.SECONDS, [0, 3_600, 7_200, 10_800]),
        (3 * DAY, Unit.SECONDS, [0, DAY, 2 * DAY, 3 * DAY]),
        (90 * DAY, Unit.SECONDS, [0, 50 * DAY, 100 * DAY]),
    ],
)
def test_ticks_are_round_in_their_unit(top: float, unit: Unit, expected: list[float]) -> None:
    assert ticks(top, unit) == expected


@pytest.mark.parametrize("unit", Unit)
def test_a_scale_holds_any_value_with_few_ticks(unit: Unit) -> None:
    for power in range(-6, 19):
        for number in (1.0, 1.5, 2.0, 3.7, 5.0, 9.99):
            found = ticks(number * 10.0**power, unit)
            assert found[0] == 0
            assert found[-1] >= number * 10.0**power * (1 - 1e-9)
            assert 2 <= len(found) <= 6
            steps = [two - one for one, two in pairwise(found)]
            assert max(steps) == pytest.approx(min(steps))


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0, Unit.COUNT, "0"),
        (999, Unit.COUNT, "999"),
        (1_840, Unit.COUNT, "1.84k"),
        (47_400_000, Unit.COUNT, "47.4M"),
        (5e18, Unit.COUNT, "5000P"),
        (0, Unit.DOLLARS, "$0"),
        (0.5, Unit.DOLLARS, "$0.50"),
        (20, Unit.DOLLARS, "$20"),
        (12_345.6, Unit.DOLLARS, "$12.3k"),
        (0, Unit.SECONDS, "0s"),
        (0.04, Unit.SECONDS, "0.0s"),
        (2.5, Unit.SECONDS, "2.5s"),
        (61, Unit.SECONDS, "1m 1s"),
        (1_473, Unit.SECONDS, "24m"),
        (10_200, Unit.SECONDS, "2h 50m"),
        (DAY, Unit.SECONDS, "1d"),
        (1e9, Unit.SECONDS, "11574d"),
    ],
)
def test_values_are_spelled_for_a_glance(value: float, unit: Unit, expected: str) -> None:
    assert spelled(value, unit) == expected


# drawing


@pytest.mark.parametrize("draw", ALL)
@pytest.mark.parametrize("values", [[], [0.0, 0.0], [None, None], [nan, inf]])
def test_what_is_not_there_is_drawn_as_nothing(draw: Draw, values: list[float | None]) -> None:
    svg = drawn(draw, plot(values, values))
    assert not of_look(svg, "rect", "look0")
    known = [one for one in values if one == 0]
    assert len(of_look(svg, "circle", "look0")) == (len(known) if draw is lines else 0)


def test_a_plot_of_nothing_knows_that_it_is_empty() -> None:
    assert all(plot(one).is_empty for one in ([], [0.0, 0.0], [None, None], [nan]))
    assert not plot([None, 0.5]).is_empty


@pytest.mark.parametrize("draw", ALL)
def test_one_value_and_huge_ones_have_their_place(draw: Draw) -> None:
    for values in ([5.0], [1e18, 1.0, 0.0], [1e-9]):
        svg = drawn(draw, plot(values))
        assert svg.attrib["role"] == "img"
        assert svg.attrib["aria-label"] == "Seen."
        found = of_look(svg, "rect" if draw is not lines else "circle", "look0")
        assert len(found) == len([one for one in values if one > 0 or draw is lines])


def test_bars_stand_on_each_other_in_proportion() -> None:
    svg = drawn(bars, plot([6.0, 0.0], [2.0, 8.0], [0.0, 0.0]))
    (low,), (high, alone) = of_look(svg, "rect", "look0"), of_look(svg, "rect", "look1")
    assert float(low["height"]) == pytest.approx(3 * float(high["height"]), abs=0.2)
    assert float(high["y"]) + float(high["height"]) == pytest.approx(float(low["y"]), abs=0.1)
    assert float(alone["y"]) == pytest.approx(TOP, abs=0.1)  # eight is the last tick
    assert float(low["x"]) < float(alone["x"])
    # The second is hatched too: colour is not all that tells them apart.
    fills = [one.attrib.get("fill") for one in svg.iter("rect")]
    assert fills.count("url(#k-1)") == 2
    assert {one.attrib["id"] for one in svg.iter("pattern")} == {"k-1", "k-2"}


def test_a_line_breaks_off_where_nothing_is_known() -> None:
    svg = drawn(lines, plot([1.0, 2.0, None, 3.0], [4.0, 4.0, None, None]))
    first, second = of_look(svg, "path", "look0"), of_look(svg, "path", "look1")
    assert [one["d"].count("L") for one in first] == [1, 0]  # the last is a single point
    assert len(of_look(svg, "circle", "look0")) == 3
    assert "stroke-dasharray" not in first[0]
    assert "stroke-dasharray" in second[0]
    assert of_look(svg, "circle", "hollow") == of_look(svg, "circle", "look1")


def test_places_tell_their_values_to_a_pointer_and_labels_do_not_crowd() -> None:
    svg = drawn(bars, plot([float(n) for n in range(30)], [None, *[1.0] * 29]))
    tips = [one.text for one in svg.iter("title")]
    assert tips[:2] == ["l0: 0 s0", "l1: 1 s0, 1 s1"]
    labels = [one.text for one in svg.iter("text") if one.attrib["text-anchor"] == "middle"]
    assert labels == [f"l{n}" for n in range(0, 30, 5)]


def test_rows_are_as_long_as_their_values() -> None:
    svg = drawn(rows, plot([4.0, 1.0, None], unit=Unit.SECONDS, labels=["a" * 80, "b", "c"]))
    long, short = of_look(svg, "rect", "look0")
    assert float(long["width"]) == pytest.approx(4 * float(short["width"]), abs=0.3)
    texts = ["".join(one.itertext()) for one in svg.iter("text")]
    assert texts[0] == "a" * 39 + "…" + "a" * 80  # the whole of it is in the tip
    assert texts[1::2] == ["4s", "1s", "–"]


HOSTILE = '<script>alert("1")</script>&\'{x}'


@pytest.mark.parametrize("draw", ALL)
def test_hostile_words_stay_words(draw: Draw) -> None:
    what = Plot("k", HOSTILE, [HOSTILE], [Series(HOSTILE, "look0", [1.0])], Unit.COUNT)
    svg = drawn(draw, what)
    assert not list(svg.iter("script"))
    assert svg.attrib["aria-label"] == HOSTILE
    assert HOSTILE in "".join(svg.itertext())
    assert "<script" not in str(draw(what))


def test_a_legend_shows_what_a_series_looks_like() -> None:
    what = plot([1.0], [2.0])
    assert "url(#k-1)" in sample(what, 1, line=False)
    assert "url" not in sample(what, 0, line=False)
    assert "stroke-dasharray" in sample(what, 1, line=True)
    assert 'aria-hidden="true"' in ElementTree.tostring(
        ElementTree.fromstring(sample(what, 0, line=True)), "unicode"
    )
