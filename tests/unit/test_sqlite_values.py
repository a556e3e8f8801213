"""Rows in few sizes: what is filled up is left out again, and no row is lost or taken twice."""

import apsw
import pytest

from rota.storage.sqlite_values import in_sizes, picked, with_values

ROWS = "WITH r (a, b) AS (VALUES :rows) SELECT a, b, :c FROM r WHERE a IS NOT NULL"
FIELDS = ("a", "b")


def selected(
    text: str, fields: tuple[str, ...], rows: list[list[object]]
) -> list[tuple[object, ...]]:
    connection = apsw.Connection(":memory:")
    found: list[tuple[object, ...]] = []
    count, line_up = picked(text, fields)
    for size, some in in_sizes(rows):
        empty = (None,) * ((size - len(some)) * count)
        spelt = with_values(text, ("unused", "c"), size, count)
        found += connection.execute(spelt, ("u", "c", *line_up(some), *empty)).fetchall()
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33, 63, 64, 65, 129, 500])
def test_every_row_goes_once_and_in_order(count: int) -> None:
    rows: list[list[object]] = [[n, f"b{n}"] for n in range(count)]
    assert selected(ROWS, FIELDS, rows) == [(n, f"b{n}", "c") for n in range(count)]


@pytest.mark.parametrize("names", ["a, b", "b, a", "a", "b", "d, b", "c,\n  a, d"])
def test_a_statement_is_given_what_it_names_whatever_the_rows_hold(names: str) -> None:
    fields = ("a", "b", "c", "d")
    rows: list[list[object]] = [[f"{field}{n}" for field in fields] for n in range(5)]
    text = f"WITH r ({names})\n  AS (VALUES :rows) SELECT * FROM r LIMIT 5"
    wanted = [name.strip() for name in names.split(",")]
    assert selected(text, fields, rows) == [
        tuple(f"{name}{n}" for name in wanted) for n in range(5)
    ]


def test_a_statement_that_names_something_unknown_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        picked("WITH r (a, ghost) AS (VALUES :rows) SELECT 1", FIELDS)


def test_a_few_texts_serve_all() -> None:
    texts = {
        with_values(ROWS, ("c",), size, 2)
        for count in range(1, 501)
        for size, _ in in_sizes([[0, 0]] * count)
    }
    assert len(texts) == 18


def test_nothing_goes_in_no_statement() -> None:
    assert list(in_sizes([])) == []
