"""The verbs about claims and the dispatch log; the statements are in sql/claims.sql."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from rota.model.claims import Claim, ClaimRequest, ClaimResult
from rota.model.status import Outcome
from rota.model.work import Dispatch, WorkItem
from rota.storage.port import Finish, Take, Topic
from rota.storage.primitives import Primitives
from rota.storage.rows import claim_of, encode, item_of
from rota.storage.select import candidates, line
from rota.storage.taking import (
    TAKEN_FIELDS,
    Party,
    Seat,
    by_filters,
    hand_out,
    in_order,
    rows_of,
    seat,
    seated,
)


class ClaimStatements(Primitives):
    # The statements that write a claim, in order, and those that follow `finish_items`.
    TAKE: ClassVar[tuple[str, ...]]
    FINISH: ClassVar[tuple[str, ...]]

    # claims

    def take(self, takes: Sequence[Take], now: str) -> list[ClaimResult]:
        answers: dict[int, ClaimResult] = {}
        for numbers in by_filters(takes).values():
            group = [takes[number] for number in numbers]
            for number, party in zip(numbers, self._take_group(group, now), strict=True):
                answers[number] = party.answer()
        return [answers[number] for number in range(len(takes))]

    def _take_group(self, takes: list[Take], now: str) -> list[Party]:
        seats = self._seats({take.agent for take in takes})
        parties = [seated(take, seats[take.agent]) for take in takes]
        wanted = sum(len(party.slots) for party in parties)
        if not wanted:
            return parties
        anyone = self._candidates(takes[0], wanted, named=False)
        named = self._named([one for one in parties if seats[one.take.agent].is_named])
        # Another node with another clock, or a faster transaction, may have changed an item later
        # than `now`: time must not go backwards on an item.
        seen = [item.updated_at for found in (anyone, *named.values()) for item in found]
        now = max([now, *seen])
        nothing: deque[WorkItem] = deque()
        for party in parties:
            hand_out(party, named.get(party.take.agent, nothing), anyone, now)
        if anyone or any(named.values()):
            self._leave()
        if rows := rows_of(parties):
            self._run_all(self.TAKE, TAKEN_FIELDS, rows, now=now)
            self.topics.add(Topic.EVENTS)
        return parties

    def _named(self, parties: list[Party]) -> dict[str, deque[WorkItem]]:
        """Items that name each agent; the claims of one agent share a search."""
        slots: dict[str, int] = {}
        takes = {party.take.agent: party.take for party in parties}
        for party in parties:
            slots[party.take.agent] = slots.get(party.take.agent, 0) + len(party.slots)
        return {
            agent: self._candidates(takes[agent], most, named=True)
            for agent, most in slots.items()
            if most
        }

    def _leave(self) -> None:
        """Called when some of the items found are not taken."""

    def _seats(self, agents: set[str]) -> dict[str, Seat]:
        asked = encode(sorted(agents))
        rows = self._rows("seats", agents=asked)
        limited = sorted(row[0] for row in rows if row[5] is not None)
        if limited:  # only agents with a review limit need an exact count under a lock
            self._beside("lock_agents", agents=encode(limited))
            rows = self._beside("seats", agents=asked)
        return {
            name: seat(slots, busy, bool(paused), bool(is_named), most, waiting)
            for name, slots, paused, busy, is_named, most, waiting in rows
        }

    def _candidates(self, take: Take, want: int, *, named: bool) -> deque[WorkItem]:
        statements, parameters = self._search(take, want, named=named)
        return in_order(item_of(row) for text in statements for row in self._text(text, parameters))

    def _search(
        self, take: Take | ClaimRequest, want: int, *, named: bool = False
    ) -> tuple[tuple[str, ...], dict[str, object]]:
        statements = candidates(
            self.DIALECT,
            named=named,
            types=len(set(take.types)),
            labels=len(take.labels),
            project=take.project_id is not None,
        )
        return statements, _parameters(take) | {"want": want}

    def foresee(self, claims: Sequence[ClaimRequest]) -> None:
        """Without round trips there is nothing to gain."""

    def ahead_in_line(self, item: WorkItem, claim: ClaimRequest) -> int:
        text = line(
            types=len(set(claim.types)),
            labels=len(claim.labels),
            project=claim.project_id is not None,
        )
        place = {"priority": item.priority, "id": item.id, "most": _MOST_AHEAD}
        (row,) = self._text(text, _parameters(claim) | place)
        return int(row[0])

    def lease(self, claim: Claim) -> WorkItem | None:
        row = self._one(
            "put_lease", id=claim.work_item_id, token=claim.token, expires_at=claim.expires_at
        )
        if row is None:
            return None
        self._do(
            "insert_claim",
            id=claim.work_item_id,
            epoch=claim.epoch,
            token=claim.token,
            agent=claim.agent,
            slot=claim.slot,
            now=claim.claimed_at,
            lease_seconds=claim.lease_seconds,
        )
        return item_of(row)

    def live_claim(self, item_id: str) -> Claim | None:
        row = self._one("live_claim", id=item_id)
        return claim_of(row) if row else None

    def find_claim(self, item_id: str, token: str) -> Claim | None:
        row = self._one("find_claim", id=item_id, token=token)
        return claim_of(row) if row else None

    def claim_at(self, item_id: str, epoch: int) -> Claim | None:
        row = self._one("claim_at", id=item_id, epoch=epoch)
        return claim_of(row) if row else None

    def extend_claim(
        self, item_id: str, token: str, now: str, expires_at: str, progress: str | None
    ) -> Claim | None:
        extended = self._rows(
            "extend_lease",
            id=item_id,
            token=token,
            now=now,
            expires_at=expires_at,
            progress=progress,
        )
        return self.live_claim(item_id) if extended else None

    def finish(self, entries: Sequence[Finish], now: str) -> list[WorkItem]:
        asked = {entry.item_id: _finish_row(entry) for entry in entries}
        rows = self._each("finish_items", _FINISH_FIELDS, list(asked.values()), now=now)
        done = {row[0]: item_of(row) for row in rows}
        if done:
            told = (
                [*asked[one], done[one].project_id, done[one].assigned_agent, done[one].epoch]
                for one in asked
                if one in done
            )
            self._run_all(self.FINISH, _FINISHED_FIELDS, told, now=now)
            self.topics.add(Topic.EVENTS)
        return list(done.values())

    def lapsed_items(self, now: str, limit: int) -> list[WorkItem]:
        return [item_of(row) for row in self._rows("lapsed_items", now=now, limit=limit)]

    def quiet_items(self, before: str, limit: int) -> list[WorkItem]:
        return [item_of(row) for row in self._rows("quiet_items", before=before, limit=limit)]

    def next_expiry(self) -> str | None:
        return self._value("next_expiry")

    # dispatch log

    def log_dispatch(self, dispatch_id: str, item_id: str, agent: str, now: str) -> None:
        self._do("log_dispatch", dispatch_id=dispatch_id, id=item_id, agent=agent, now=now)

    def close_dispatch(self, item_id: str, now: str, outcome: str) -> None:
        self._do("close_dispatch", id=item_id, now=now, outcome=outcome)

    def dispatches_of(self, item_id: str) -> list[Dispatch]:
        return [Dispatch(*row) for row in self._rows("dispatches_of", id=item_id)]


def _parameters(take: Take | ClaimRequest) -> dict[str, object]:
    """The filters of a claim, under the names that `candidates` uses."""
    named: dict[str, object] = {"agent": take.agent}
    named |= {f"type_{index}": kind for index, kind in enumerate(dict.fromkeys(take.types))}
    named |= {f"label_{index}": label for index, label in enumerate(take.labels)}
    if take.project_id is not None:
        named["project_id"] = take.project_id
    return named


_MOST_AHEAD = 1_000  # the exact number beyond this is of no use
_FINISH_FIELDS = ("id", "token", "notes", "actor", "data")
_FINISHED_FIELDS = (*_FINISH_FIELDS, "project_id", "agent", "epoch")


def _finish_row(entry: Finish) -> list[object]:
    """One entry of `:rows` for the statements of a batch completion."""
    told = _DONE if entry.notes is None else encode(_FACTS | {"notes": entry.notes})
    return [entry.item_id, entry.token, entry.notes, entry.actor, told]


_FACTS: dict[str, object] = {"outcome": Outcome.SUCCESS}
_DONE = encode(_FACTS)
