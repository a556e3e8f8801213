"""Talks to PostgreSQL without waiting for answers that nobody reads.

On a fast server, a transaction is mostly round trips. Statements are therefore sent in pipeline
mode: BEGIN goes with the first statement, a statement without an answer goes with the next one that
has an answer, and the rest goes with the commit. A statement is prepared in the same round trip in
which it is first sent, except behind a connection pool, where another server process may run the
next transaction.

An error ends the transaction, as always on PostgreSQL. But the error may surface at a later
statement than the one that caused it, or at the commit.
"""

import secrets
import select
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

from rota.storage.primitives import Row


class Connection(psycopg.Connection[Row]):
    pooled = False  # True: each transaction may be run by another server process


_Text = tuple[bytes, tuple[int, ...]]  # a statement, and the types of its values

# There are many texts that depend on filters; the least recently used one is deallocated.
MOST_PREPARED = 200
# A statement with this many bytes is sent at once, so that the server works on it meanwhile.
EARLY_BYTES = 500
# Not left to the default of the database: whoever waits for a lock reads what came before it.
_WRITES = b"BEGIN ISOLATION LEVEL READ COMMITTED"
_READS = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# How long a statement waits for a lock of another session, unless the address, the role or the
# database says it: then its caller gets an answer, as on SQLite.
LOCK_WAIT = """
CASE current_setting('lock_timeout') WHEN '0' THEN '10s' ELSE current_setting('lock_timeout') END
"""
# The settings that a connection of our own keeps (see `postgres_connection`); behind a pool they
# are set for one transaction.
_FOR_NOW = f"""
SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
  set_config('lock_timeout', {LOCK_WAIT}, true)
""".encode()


@dataclass(eq=False, slots=True)
class Question:
    """A statement that was sent, and its answer once that has arrived."""

    answer: PGresult | None = None

    def hear(self, answer: PGresult) -> None:
        self.answer = answer


def _unread(answer: PGresult) -> None:
    """For statements of which only an error matters."""


class Dialogue:
    """One connection, used by one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        self._libpq.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._libpq.socket)
        self._names: OrderedDict[_Text, bytes] = OrderedDict()
        # Part of every name of a prepared statement. Behind a pool that was not detected, two
        # clients could otherwise use one name for different statements.
        self._mark = secrets.token_hex(4).encode()
        self._made = 0  # number of names made
        self._there: set[bytes] = set()  # names that the server knows
        self._to_drop: list[bytes] = []  # those of them that must be deallocated
        self._unanswered: deque[Callable[[PGresult], None]] = deque()  # the handler of each answer
        self._beginning: bytes | None = None  # still to be sent

    @property
    def is_broken(self) -> bool:
        return self._connection.closed or self._libpq.status != ConnStatus.OK

    def close(self) -> None:
        self._connection.close()

    # a transaction

    def begin(self, *, writes: bool) -> None:
        self.look()
        self._beginning = _WRITES if writes else _READS

    def look(self) -> None:
        """Raise if the server has already closed the connection. Nothing sent now would reach it,
        so the outcome of the commit is not unknown."""
        self._poll.modify(self._libpq.socket, select.POLLIN)
        while self._poll.poll(0):  # the end of the stream follows the server's last message
            self._libpq.consume_input()

    def tell(
        self, statement: bytes, values: Sequence[object], question: Question | None = None
    ) -> None:
        """Send a statement. An error shows with the next answer, at the latest with the commit."""
        if self._beginning is not None:
            self._command(self._beginning)
            self._beginning = None
            if self._connection.pooled:
                self._command(_FOR_NOW)
            while self._to_drop:
                self._drop(self._to_drop.pop())
        transformer = Transformer(self._connection)
        dumped = transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
        types, formats = transformer.types or (), transformer.formats
        if self._connection.pooled:
            self._libpq.send_query_params(statement, dumped, types, formats, Format.BINARY)
        else:
            name = self._prepared(statement, types)
            self._libpq.send_query_prepared(name, dumped, formats, Format.BINARY)
        self._unanswered.append(question.hear if question is not None else _unread)
        if sum(map(len, filter(None, dumped))) >= EARLY_BYTES:
            self._libpq.flush()

    def ask(self, statement: bytes, values: Sequence[object]) -> tuple[list[Row], int]:
        """The rows and their number, or no rows and the number of changed rows."""
        return self.heard(self.inquire(statement, values))

    def inquire(self, statement: bytes, values: Sequence[object]) -> Question:
        """Send a statement and read its answer later: further statements share the round trip."""
        question = Question()
        self.tell(statement, values, question)
        self._libpq.send_flush_request()
        return question

    def heard(self, question: Question) -> tuple[list[Row], int]:
        if question.answer is None:
            self._believed(self._answers(question))
        answer = question.answer
        if answer is None:
            raise AssertionError("what was asked is answered, or an error is raised")
        if fault := _fault([answer]):  # an earlier caller got the error and went on all the same
            raise fault
        if not answer.nfields:
            return [], answer.command_tuples or 0
        transformer = Transformer(self._connection)
        transformer.set_pgresult(answer)
        rows: list[Any] = transformer.load_rows(0, answer.ntuples, tuple)
        return rows, len(rows)

    def commit(self) -> None:
        """Does nothing if no statement was sent. After an error the transaction is rolled back."""
        if self._is_silent():
            return
        self._command(b"COMMIT")
        try:
            self._believed(self._synchronised())
        except errors.Error:
            if not self.is_broken:
                self.roll_back()
            raise

    def roll_back(self) -> None:
        if self._is_silent():
            return
        self._command(b"ROLLBACK")
        try:
            self._believed(self._synchronised())
        except errors.Error:
            if self.is_broken:
                raise
            # After an error the server skips everything up to the next sync, so send it again.
            self._command(b"ROLLBACK")
            self._believed(self._synchronised())

    def _is_silent(self) -> bool:
        silent, self._beginning = self._beginning is not None, None
        return silent

    # sending

    def _command(self, text: bytes, heard: Callable[[PGresult], None] = _unread) -> None:
        self._libpq.send_query_params(text, None)
        self._unanswered.append(heard)

    def _drop(self, name: bytes) -> None:
        """After an error the server skips it; it is then sent again with the next transaction."""

        def heard(answer: PGresult) -> None:
            if answer.status == ExecStatus.COMMAND_OK:
                self._there.discard(name)
            elif name in self._there:
                self._to_drop.append(name)

        self._command(b"DEALLOCATE " + name, heard)

    def _prepared(self, statement: bytes, types: tuple[int, ...]) -> bytes:
        key = statement, types
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
            return name
        if len(self._names) >= MOST_PREPARED:
            self._drop(self._names.popitem(last=False)[1])
        self._made += 1
        self._names[key] = name = b"rota_%b_%d" % (self._mark, self._made)
        self._libpq.send_prepare(name, statement, types)

        def heard(answer: PGresult) -> None:
            """A statement that was skipped after an error is prepared when it is next used."""
            if answer.status == ExecStatus.COMMAND_OK:
                self._there.add(name)
            else:
                self._names.pop(key, None)

        self._unanswered.append(heard)
        return name

    # receiving

    def _synchronised(self) -> list[PGresult]:
        """All answers up to here. Both sides then go on, even if an error was among the answers."""
        self._libpq.pipeline_sync()
        answers = self._answers()
        self._result()  # the answer to the sync
        return answers

    def _answers(self, last: Question | None = None) -> list[PGresult]:
        """All outstanding answers, or those up to and including the answer to `last`."""
        while self._libpq.flush():
            self._wait(select.POLLIN | select.POLLOUT)
            self._libpq.consume_input()
        answers = []
        while self._unanswered and (last is None or last.answer is None):
            heard = self._unanswered.popleft()
            answer = self._result()
            self._result()  # None: the end of this answer
            heard(answer)
            answers.append(answer)
        return answers

    def _result(self) -> Any:
        while self._libpq.is_busy():
            self._wait(select.POLLIN)
            self._libpq.consume_input()
        return self._libpq.get_result()

    def _wait(self, events: int) -> None:
        self._poll.modify(self._libpq.socket, events)
        self._poll.poll()

    def _believed(self, answers: list[PGresult]) -> list[PGresult]:
        if fault := _fault(answers):
            raise fault
        return answers


def _fault(answers: list[PGresult]) -> errors.Error | None:
    """The first error, which caused the others."""
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            return errors.error_from_result(answer)
        if answer.status == ExecStatus.PIPELINE_ABORTED:
            return errors.PipelineAborted("an error before it was passed over")
    return None
