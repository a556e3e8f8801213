"""Rows in few sizes: what is filled up is left out again, and no row is lost or taken twice."""

import apsw
import pytest

from rota.storage.sqlite_values import in_sizes, with_values

ROWS = "WITH r (a, b) AS (VALUES :rows) SELECT a, b, :c FROM r WHERE a IS NOT NULL"


def selected(count: int) -> list[tuple[object, ...]]:
    rows = [[n, f"b{n}"] for n in range(count)]
    connection = apsw.Connection(":memory:")
    found: list[tuple[object, ...]] = []
    for size, values in in_sizes(rows):
        text = with_values(ROWS, ("unused", "c"), size, 2)
        found += connection.execute(text, ("u", "c", *values)).fetchall()
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33, 63, 64, 65, 129, 500])
def test_every_row_goes_once_and_in_order(count: int) -> None:
    assert selected(count) == [(n, f"b{n}", "c") for n in range(count)]


def test_a_few_texts_serve_all() -> None:
    texts = {
        with_values(ROWS, ("c",), size, 2)
        for count in range(1, 501)
        for size, _ in in_sizes([[0, 0]] * count)
    }
    assert len(texts) == 11


def test_nothing_goes_in_no_statement() -> None:
    assert list(in_sizes([])) == []
