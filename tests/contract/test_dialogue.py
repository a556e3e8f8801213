"""What PostgreSQL is told without waiting for an answer, and what is heard of it later."""

from collections.abc import Iterator

import psycopg
import pytest

from rota.storage import dialogue
from rota.storage.dialogue import Dialogue
from rota.storage.postgres_connection import connect

ADD = b"INSERT INTO t (id, text) VALUES ($1, $2)"
COUNT = b"SELECT count(*) FROM t"


@pytest.fixture
def talk(empty_postgres: str) -> Iterator[Dialogue]:
    connection = connect(empty_postgres, "rota-talk")
    connection.execute("CREATE TEMPORARY TABLE t (id integer PRIMARY KEY, text text)")
    talk = Dialogue(connection)
    yield talk
    talk.close()


def rows(talk: Dialogue) -> int:
    talk.begin(writes=False)
    (((count,),), _) = talk.ask(COUNT, [])
    talk.commit()
    return int(count)


def test_what_was_told_is_done_when_the_next_answer_comes(talk: Dialogue) -> None:
    talk.begin(writes=True)
    for number in range(3):
        talk.tell(ADD, [number, "x"])
    assert talk.ask(COUNT, []) == ([(3,)], 1)
    talk.commit()
    assert rows(talk) == 3


def test_an_answer_says_how_many_rows_were_changed(talk: Dialogue) -> None:
    talk.begin(writes=True)
    talk.tell(ADD, [1, "x"])
    talk.tell(ADD, [2, None])
    assert talk.ask(b"UPDATE t SET text = $1", ["y"]) == ([], 2)
    assert talk.ask(b"SELECT id, text FROM t ORDER BY id", []) == ([(1, "y"), (2, "y")], 2)
    talk.commit()


@pytest.mark.parametrize("told_by", ["the next answer", "the commit", "nobody: it is rolled back"])
def test_an_error_is_told_later_and_nothing_stays(talk: Dialogue, told_by: str) -> None:
    for turn in range(2):  # the connection is as good as before
        talk.begin(writes=True)
        talk.tell(ADD, [turn, "x"])
        talk.tell(ADD, [turn, "again"])
        talk.tell(ADD, [turn + 10, "behind it"])
        if told_by == "the next answer":
            with pytest.raises(psycopg.errors.UniqueViolation):
                talk.ask(COUNT, [])
            talk.roll_back()
        elif told_by == "the commit":
            with pytest.raises(psycopg.errors.UniqueViolation):
                talk.commit()
        else:
            talk.roll_back()
        assert rows(talk) == 0


def test_who_goes_on_after_an_error_does_not_commit(talk: Dialogue) -> None:
    talk.begin(writes=True)
    talk.tell(ADD, [1, "x"])
    with pytest.raises(psycopg.errors.UniqueViolation):
        talk.ask(ADD, [1, "x"])
    with pytest.raises(psycopg.errors.PipelineAborted):
        talk.commit()
    assert rows(talk) == 0


@pytest.mark.parametrize("ended_by", ["the commit", "rolling it back"])
def test_a_statement_that_was_passed_over_is_prepared_when_it_comes_again(
    talk: Dialogue, ended_by: str
) -> None:
    late = b"INSERT INTO t (id) VALUES ($1)"
    talk.begin(writes=True)
    talk.tell(b"INSERT INTO nowhere VALUES ($1)", [1])
    talk.tell(late, [1])
    if ended_by == "the commit":
        with pytest.raises(psycopg.errors.UndefinedTable):
            talk.commit()
    else:
        talk.roll_back()
    talk.begin(writes=True)
    talk.tell(late, [1])
    talk.commit()
    assert rows(talk) == 1


def test_who_says_nothing_has_no_transaction(talk: Dialogue, empty_postgres: str) -> None:
    talk.begin(writes=True)
    talk.commit()
    talk.begin(writes=True)
    talk.roll_back()
    with psycopg.connect(empty_postgres, autocommit=True) as other:
        found = other.execute(
            "SELECT state, query FROM pg_stat_activity WHERE application_name = 'rota-talk'"
            " AND datname = current_database()"
        ).fetchall()
    assert [(state, "BEGIN" in query) for state, query in found] == [("idle", False)]


def test_more_statements_than_are_kept_prepared_are_no_trouble(
    talk: Dialogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "MOST_PREPARED", 5)
    for _ in range(2):
        for number in range(12):
            talk.begin(writes=False)
            assert talk.ask(b"SELECT $1 + %d" % number, [1])[0] == [(number + 1,)]
            talk.commit()
    talk.begin(writes=False)
    kept = b"SELECT count(*) FROM pg_prepared_statements"
    assert talk.ask(kept, [])[0] == [(5,)]
    talk.commit()


def test_values_of_other_types_are_other_statements(talk: Dialogue) -> None:
    talk.begin(writes=True)
    for value in (1, 10**6, 10**12, "7", None):
        talk.tell(b"INSERT INTO t (id, text) VALUES ((SELECT count(*) FROM t), $1)", [str(value)])
        assert talk.ask(b"SELECT CAST($1 AS bigint)", [value])[1] == 1
    talk.commit()
    assert rows(talk) == 5


def test_a_lot_is_told_at_once_and_nobody_waits_for_the_other(talk: Dialogue) -> None:
    """More than the buffers between them hold, in both directions."""
    long = "x" * 200_000
    talk.begin(writes=True)
    for number in range(100):
        talk.tell(b"INSERT INTO t (id, text) VALUES ($1, $2) RETURNING text", [number, long])
    talk.commit()
    assert rows(talk) == 100


def test_a_value_that_cannot_be_sent_leaves_the_rest_to_be_rolled_back(talk: Dialogue) -> None:
    talk.begin(writes=True)
    talk.tell(ADD, [1, "x"])
    with pytest.raises(psycopg.DataError):
        talk.tell(ADD, [2, "nul \x00"])
    talk.roll_back()
    assert rows(talk) == 0


def test_several_questions_are_asked_in_one_breath_and_answered_in_any_order(
    talk: Dialogue,
) -> None:
    talk.begin(writes=True)
    questions = [talk.inquire(b"SELECT $1::int + %d" % number, [1]) for number in range(3)]
    talk.tell(ADD, [1, "x"])
    counted = talk.inquire(COUNT, [])
    assert talk.heard(questions[1]) == ([(2,)], 1)
    assert talk.heard(questions[0]) == ([(1,)], 1)
    assert talk.heard(counted) == ([(1,)], 1)
    assert talk.heard(questions[2]) == ([(3,)], 1)
    talk.commit()
    assert rows(talk) == 1


def test_a_question_behind_an_error_is_never_answered_with_nothing(talk: Dialogue) -> None:
    talk.begin(writes=True)
    wrong = talk.inquire(b"SELECT 1 / $1::int", [0])
    behind = talk.inquire(COUNT, [])
    with pytest.raises(psycopg.errors.DivisionByZero):  # the cause of the others
        talk.heard(talk.inquire(COUNT, []))
    for question in (wrong, behind):
        with pytest.raises((psycopg.errors.DivisionByZero, psycopg.errors.PipelineAborted)):
            talk.heard(question)
    talk.roll_back()
    assert rows(talk) == 0


def test_a_statement_that_was_passed_over_behind_an_answer_is_prepared_when_it_comes_again(
    talk: Dialogue,
) -> None:
    late = b"INSERT INTO t (id) VALUES ($1)"
    talk.begin(writes=True)
    first = talk.inquire(COUNT, [])
    talk.tell(b"INSERT INTO nowhere VALUES ($1)", [1])
    talk.tell(late, [1])
    assert talk.heard(first) == ([(0,)], 1)
    with pytest.raises(psycopg.errors.UndefinedTable):
        talk.commit()
    talk.begin(writes=True)
    talk.tell(late, [1])
    talk.commit()
    assert rows(talk) == 1


def known_to_the_server(talk: Dialogue) -> int:
    talk.begin(writes=False)
    [(count,)], _ = talk.ask(b"SELECT count(*) FROM pg_prepared_statements", [])
    talk.commit()
    return int(count)


def test_errors_leave_no_statements_behind_on_the_server(talk: Dialogue) -> None:
    """As on a standby, which prepares every statement and refuses to run it."""
    for number in range(20):
        talk.begin(writes=True)
        talk.tell(COUNT, [])
        talk.tell(b"SELECT 1 / $1::int", [0])
        talk.tell(b"SELECT $1::int + %d" % (number % 3), [1])
        with pytest.raises(psycopg.errors.DivisionByZero):
            talk.commit()
    assert known_to_the_server(talk) <= 6


def test_a_statement_that_could_not_be_dropped_behind_an_error_is_dropped_later(
    talk: Dialogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "MOST_PREPARED", 3)
    for turn in range(10):
        talk.begin(writes=True)
        talk.tell(b"SELECT 1 / $1::int", [0])
        for number in range(4):
            talk.tell(b"SELECT $1::int + %d" % (10 * turn + number), [1])
        with pytest.raises(psycopg.errors.DivisionByZero):
            talk.commit()
        talk.begin(writes=True)
        for number in range(4):
            assert talk.ask(b"SELECT $1::int - %d" % (10 * turn + number), [0])[1] == 1
        talk.commit()
    assert known_to_the_server(talk) <= 4
