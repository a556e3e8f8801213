"""Named statements: their loader, and what must hold for every one of them."""

import re

import pytest

from rota.storage.select import candidates, item_columns
from rota.storage.statements import load_statements, numbered

DIALECTS = ("sqlite", "postgres")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_is_whole(dialect: str) -> None:
    statements = load_statements(dialect)
    assert len(statements) > 50
    for name, text in statements.items():
        assert text.strip(), name
        assert not re.search(r"@[a-z]", text), name  # every fragment was put in
        assert not text.rstrip().endswith(";"), name
        assert "--" not in text, name


def test_postgres_has_every_statement_that_sqlite_has() -> None:
    assert set(load_statements("sqlite")) <= set(load_statements("postgres"))


def test_an_override_asks_for_the_same_parameters() -> None:
    lite, full = load_statements("sqlite"), load_statements("postgres")
    # These do in several statements on SQLite what is one on PostgreSQL.
    several = {"insert_items", "take_items", "finish_items"}
    for name in set(lite) & set(full) - several:
        named = [set(re.findall(r"(?<!:):([a-z]\w*)", text)) for text in (lite[name], full[name])]
        assert named[0] == named[1], name


def test_parameters_are_numbered_as_postgres_wants_them() -> None:
    assert numbered("SELECT :a, b::text, '%' WHERE c = :a_1 OR d = :a") == (
        b"SELECT $1, b::text, '%' WHERE c = $2 OR d = $1",
        ("a", "a_1"),
    )


def test_the_columns_of_an_item_are_those_of_its_class() -> None:
    from dataclasses import fields

    from rota.model.work import WorkItem

    assert [name.strip() for name in item_columns().split(",")] == [
        field.name for field in fields(WorkItem)
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_claim_asks_only_for_what_it_is_given(dialect: str) -> None:
    for named in (True, False):
        texts = candidates(dialect, named=named, types=2, labels=1, project=True)
        assert len(texts) == (2 if named else 1), "a label is looked up once, for all types"
        asked = {name for text in texts for name in re.findall(r"(?<!:):([a-z]\w*)", text)}
        assert asked == {"want", "type_0", "type_1", "label_0", "project_id"} | (
            {"agent"} if named else set()
        )
