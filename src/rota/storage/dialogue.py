"""Talks with PostgreSQL so that nobody waits for an answer that nobody reads.

A transaction on a fast server is mostly round trips. Here statements are sent in pipeline mode: the
beginning goes with the first statement, what has no answer goes with the next one that has, and the
rest goes with the commit. A statement is prepared in the same breath in which it is first sent,
unless a pool stands between: there the next transaction may be another server process's.

An error ends the transaction, as everywhere on PostgreSQL; only that it may be told by a later
statement than the one that caused it, or by the commit.
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
    pooled = False  # it may be another server process that answers each transaction


_Text = tuple[bytes, tuple[int, ...]]  # a statement, and the types of its values

# Texts that depend on filters are many; the one that was not asked for longest is forgotten.
MOST_PREPARED = 200
# What keeps the server busy for a while is sent at once: it works while we go on here.
EARLY_BYTES = 500
_WRITES = b"BEGIN"
_READS = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# What a connection has for good (see `postgres_connection`), for as long as a pool lends one.
_FOR_NOW = b"SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"


@dataclass(eq=False, slots=True)
class Question:
    """What was asked, and its answer once it was heard."""

    answer: PGresult | None = None

    def hear(self, answer: PGresult) -> None:
        self.answer = answer


def _unread(answer: PGresult) -> None:
    """Of most of what is sent, only an error is of interest."""


class Dialogue:
    """One connection, used by one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        self._libpq.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._libpq.socket)
        self._names: OrderedDict[_Text, bytes] = OrderedDict()
        # Names of its own: behind a pool that does not show itself, a name that two have made would
        # stand for the statement of one of them.
        self._mark = secrets.token_hex(4).encode()
        self._made = 0  # so many names
        self._there: set[bytes] = set()  # names that the server knows
        self._to_drop: list[bytes] = []  # of those, what is not to stay
        self._unanswered: deque[Callable[[PGresult], None]] = deque()  # who hears each answer
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
        """Raises where the other side has gone already: nothing that is sent now would reach it, so
        nothing need be unknown later."""
        self._poll.modify(self._libpq.socket, select.POLLIN)
        while self._poll.poll(0):  # behind its last words comes the end
            self._libpq.consume_input()

    def tell(
        self, statement: bytes, values: Sequence[object], question: Question | None = None
    ) -> None:
        """Send it. How it went is heard with the next answer, at the latest with the commit's."""
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
        """Its rows, and how many there are, or how many it changed."""
        return self.heard(self.inquire(statement, values))

    def inquire(self, statement: bytes, values: Sequence[object]) -> Question:
        """Send it, and hear the answer later: what is asked behind it is asked in one breath."""
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
        if fault := _fault([answer]):  # it was told to somebody who went on all the same
            raise fault
        if not answer.nfields:
            return [], answer.command_tuples or 0
        transformer = Transformer(self._connection)
        transformer.set_pgresult(answer)
        rows: list[Any] = transformer.load_rows(0, answer.ntuples, tuple)
        return rows, len(rows)

    def commit(self) -> None:
        """Who has said nothing has nothing to commit. After an error it is rolled back."""
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
            # What follows an error is passed over until both sides have agreed to go on.
            self._command(b"ROLLBACK")
            self._believed(self._synchronised())

    def _is_silent(self) -> bool:
        silent, self._beginning = self._beginning is not None, None
        return silent

    # what is sent

    def _command(self, text: bytes, heard: Callable[[PGresult], None] = _unread) -> None:
        self._libpq.send_query_params(text, None)
        self._unanswered.append(heard)

    def _drop(self, name: bytes) -> None:
        """Behind an error it is passed over: then it is said again with the next transaction."""

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
            """What an error has passed over is not there, and is prepared when it comes again."""
            if answer.status == ExecStatus.COMMAND_OK:
                self._there.add(name)
            else:
                self._names.pop(key, None)

        self._unanswered.append(heard)
        return name

    # what is heard

    def _synchronised(self) -> list[PGresult]:
        """All answers up to here. Then both sides go on, also where an error was among them."""
        self._libpq.pipeline_sync()
        answers = self._answers()
        self._result()  # that it is in step
        return answers

    def _answers(self, last: Question | None = None) -> list[PGresult]:
        """All that are still to come, or those up to the one to this question."""
        while self._libpq.flush():
            self._wait(select.POLLIN | select.POLLOUT)
            self._libpq.consume_input()
        answers = []
        while self._unanswered and (last is None or last.answer is None):
            heard = self._unanswered.popleft()
            answer = self._result()
            self._result()  # the end of this one
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
    """The first, which is the cause of the others."""
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            return errors.error_from_result(answer)
        if answer.status == ExecStatus.PIPELINE_ABORTED:
            return errors.PipelineAborted("an error before it was passed over")
    return None
