"""One transaction on PostgreSQL: how it runs a statement, and the verbs that differ there."""

from collections.abc import Iterable, Sequence
from itertools import islice

from rota.model.claims import ClaimRequest
from rota.model.events import NewEvent
from rota.model.signals import FiringRecord, Signal
from rota.storage.dialogue import Dialogue, Question
from rota.storage.port import Take, Topic
from rota.storage.primitives import Fields, Parameters, Row
from rota.storage.rows import encode, trimmed
from rota.storage.statements import numbered
from rota.storage.transaction import SqlTransaction

# Many rows are sent in pieces: while the server works on one piece, the next is encoded here.
PIECE = 250

_Said = tuple[bytes, tuple[object, ...]]  # a statement with its values


class PostgresTransaction(SqlTransaction):
    DIALECT = "postgres"
    SUBMIT = ("insert_items",)
    TAKE = ("take_items",)  # one statement writes items, claims, dispatches and events
    FINISH = ()

    def __init__(self, dialogue: Dialogue) -> None:
        super().__init__()
        self._dialogue = dialogue
        # Whether claimable items were locked. If this transaction is undone, the claims that passed
        # over those items must look again.
        self.has_locked = False
        self._claims_to_come: Sequence[ClaimRequest] = ()
        self._ahead: dict[_Said, Question] = {}

    def _text(self, statement: str, parameters: Parameters) -> list[Row]:
        return self._asked(statement, parameters)[0]

    def _changed(self, statement: str, /, **parameters: object) -> int:
        return self._asked(self._sql[statement], parameters)[1]

    def _asked(self, statement: str, parameters: Parameters) -> tuple[list[Row], int]:
        said = _said(statement, parameters)
        question = self._ahead.pop(said, None)
        if question is None:
            self.forget()
            question = self._dialogue.inquire(*said)
        return self._dialogue.heard(question)

    def _beside(self, statement: str, /, **parameters: object) -> list[Row]:
        said = _said(self._sql[statement], parameters)
        return self._dialogue.heard(self._dialogue.inquire(*said))[0]

    def _do(self, statement: str, /, **parameters: object) -> None:
        self.forget()
        self._dialogue.tell(*_said(self._sql[statement], parameters))

    def _each(
        self,
        statement: str,
        fields: Fields,
        rows: Sequence[Sequence[object]],
        /,
        **constants: object,
    ) -> list[Row]:
        said = _said(self._sql[statement], constants | {"rows": _encoded(rows)})
        question = self._dialogue.inquire(*said)
        self._look_ahead()
        return self._dialogue.heard(question)[0]

    def _run_all(
        self,
        names: Sequence[str],
        fields: Fields,
        rows: Iterable[Sequence[object]],
        **constants: object,
    ) -> None:
        left = iter(rows)
        while names and (piece := list(islice(left, PIECE))):
            for name in names:
                self._do(name, **constants, rows=_encoded(piece))

    def _search(
        self, take: Take | ClaimRequest, want: int, *, named: bool = False
    ) -> tuple[tuple[str, ...], dict[str, object]]:
        self.has_locked = True
        return super()._search(take, want, named=named)

    def hurry(self, seconds: float) -> None:
        self._do("hurry", milliseconds=int(seconds * 1000))

    # statements sent ahead

    def foresee(self, claims: Sequence[ClaimRequest]) -> None:
        """Saves a holder that completes one item and claims the next two round trips."""
        if len({(one.types, one.labels, one.project_id) for one in claims}) == 1:
            self._claims_to_come = claims

    def _look_ahead(self) -> None:
        """Send the statements that `take` will run, word for word, right after the statement that
        frees the slots."""
        claims, self._claims_to_come = self._claims_to_come, ()
        if not claims:
            return
        agents = encode(sorted({one.agent for one in claims}))
        statements, parameters = self._search(claims[0], sum(one.limit for one in claims))
        asked = [
            _said(self._sql["seats"], {"agents": agents}),
            *(_said(text, parameters) for text in statements),
        ]
        self._ahead = {said: self._dialogue.inquire(*said) for said in asked}

    def forget(self) -> None:
        """Drop the answers of statements sent ahead: any other statement may make them stale."""
        if self._ahead:
            self._ahead = {}
            self._leave()

    def _leave(self) -> None:
        """The items found are locked, and other claims may have passed over them: wake those."""
        self.topics.add(Topic.READY)

    def conclude_firing(
        self, signal: Signal, firing: FiringRecord, told: NewEvent, seq: int, *, last: bool
    ) -> bool:
        """One statement, because the result of a signal waits for every round trip."""
        self.topics.add(Topic.EVENTS)
        return bool(
            self._rows(
                "conclude_firing",
                signal_id=signal.id,
                fires=signal.fires,
                last=int(last),
                seq=seq,
                id=firing.id,
                owner=firing.lease_owner,
                status=firing.status,
                error=firing.error,
                result=encode(firing.result),
                type=told.type,
                now=told.occurred_at,
                actor=told.actor,
                work_item_id=told.work_item_id,
                project_id=told.project_id,
                data=encode(told.data),
            )
        )

    def clear_blockers(self, item_id: str) -> None:
        """Two transactions at once would each subtract the same links from `dependents`."""
        self._do("lock_links")
        super().clear_blockers(item_id)

    def reaches(self, start: str, target: str) -> bool:
        self._do("lock_links")
        return super().reaches(start, target)


def _said(statement: str, parameters: Parameters) -> _Said:
    text, names = numbered(statement)
    return text, tuple(parameters[name] for name in names)


def _encoded(rows: Sequence[Sequence[object]]) -> str:
    return encode([trimmed(row) for row in rows])
