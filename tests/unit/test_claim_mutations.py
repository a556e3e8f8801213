"""Each guard of the claim protocol taken away in turn: a scene that it guards then breaks.

So a scene that passes is known to be able to fail.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.claims.comments import Believed, Entry, Kind, entries
from rota.claims.fold import Standing, fold
from rota.claims.log import ClaimLog
from rota.claims.port import Tracker
from rota.claims.projection import Repair
from rota.claims.protocol import CommentClaims, Grant, Look, Refusal
from rota.claims.sweep import Sweep
from rota.model.errors import TrackerError
from rota.testing.simulation.referee import Violation
from rota.testing.simulation.stories import Parts
from rota.testing.simulation.time import Fates
from tests.unit import test_claim_pitfalls as pitfalls
from tests.unit import test_claim_protocol as steps
from tests.unit.claim_scene import STRANGER


class Hasty(ClaimLog):
    """Without the wait."""

    __slots__ = ()

    async def settle(self) -> None:
        return


class ByStamp(ClaimLog):
    """Ordered by what the clocks said."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        return sorted(await ClaimLog.read(self, number), key=lambda entry: entry.created_at)


class Gullible(ClaimLog):
    """Believes whoever writes."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        everybody = self.believed.fleets | self.believed.operators | {STRANGER.id}
        return entries(await self.tracker.comments(number), Believed(everybody, everybody))


class Unbound(ClaimLog):
    """Takes any release for one of whoever holds it."""

    __slots__ = ()

    def fold(self, log: list[Entry]) -> Standing:
        told: list[Entry] = []
        for one in log:
            holder = fold(told, self.times.grace).holder
            loose = one.kind is Kind.RELEASE and holder is not None
            about = {**one.fields, "claim": str(holder.id if holder else 0)}
            told.append(replace(one, fields=about) if loose else one)
        return fold(told, self.times.grace)


class Opinionated(ClaimLog):
    """Goes by its own grace, whatever a claim says."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        log = await ClaimLog.read(self, number)
        return [replace(one, fields={**one.fields, "grace": ""}) for one in log]


class Deaf(ClaimLog):
    """Does not hear answers to a suspicion."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        log = await ClaimLog.read(self, number)
        return [entry for entry in log if entry.kind is not Kind.ALIVE]


class Presuming(ClaimLog):
    """Takes a log without its own claim for a whole one."""

    own: Entry | None = None

    async def append(
        self, number: int, kind: Kind, text: str = "", **fields: str | int | None
    ) -> Entry | None:
        said = await ClaimLog.append(self, number, kind, text, **fields)
        self.own = said if kind is Kind.CLAIM else self.own
        return said

    async def read(self, number: int) -> list[Entry]:
        log = await ClaimLog.read(self, number)
        return self.merged(log, self.own) if self.own else log


class Carefree(Presuming):
    """Takes a read that fails for an empty log."""

    async def read(self, number: int) -> list[Entry]:
        try:
            return await Presuming.read(self, number)
        except TrackerError:
            return [self.own] if self.own else []


class Impatient(CommentClaims):
    """Does not wait until whoever was revoked has stopped."""

    def _until_stopped(self, *_: Any) -> float:
        return 0.0


class LedgerFirst(Sweep):
    """Asks who is alive, and then what was claimed."""

    __slots__ = ()

    async def _sweep_one(self, *args: Any) -> None:
        asked = await self.live(["x"])

        async def live(_firings: Any) -> set[str]:
            return asked

        await Sweep._sweep_one(replace(self, live=live), *args)


class Rash(CommentClaims):
    """Labels by what it read before it spoke."""

    async def release(
        self, grant: Grant, outcome: str, text: str = "", *, park: bool = False
    ) -> bool:
        log = await self.log.read(grant.number)
        said = await self.append_release(grant, outcome, text)
        await self._show(grant.number, self.log.fold(self.log.merged(log, said)))
        return True


_claim = CommentClaims.claim


async def claim_late(claims: CommentClaims, *args: Any, **named: Any) -> Grant | Refusal:
    """Counts its time from when it has done with the labels."""
    answer = await _claim(claims, *args, **named)
    if isinstance(answer, Refusal):
        return answer
    return replace(answer, deadline=claims._pace.elapsed() + claims.times.trust_in_a_poll)


async def look_once(claims: CommentClaims, grant: Grant) -> Look:
    """Answers a suspicion and takes the look for clean."""
    seen, suspected = await claims._look(grant)
    if suspected:
        await claims.log.append(grant.number, Kind.ALIVE, claim=grant.claim_id)
    return seen


async def remove_first(tracker: Tracker, number: int, change: Repair) -> None:
    for label in change.remove:
        await tracker.remove_label(number, label)
    if change.add:
        await tracker.add_labels(number, change.add)


Scene = Callable[[Parts], None]


def crashes(parts: Parts) -> None:
    pitfalls.test_a_crash_anywhere_leaves_nothing_stuck_unlabelled_or_haunted(
        Fates(death=0.5), parts
    )


def forged(kind: Kind) -> Scene:
    return lambda parts: pitfalls.test_a_forged_entry_by_an_outsider_is_not_believed(kind, parts)


GUARDS: dict[str, tuple[Parts, Scene]] = {
    "wait until smaller ids can be read": (
        Parts(log=Hasty),
        pitfalls.test_a_lower_id_that_becomes_visible_late_still_wins,
    ),
    "ids decide, not stamps": (
        Parts(log=ByStamp),
        pitfalls.test_stamps_that_contradict_the_order_of_ids_do_not_decide,
    ),
    **{
        f"the author of a {kind} is checked": (Parts(log=Gullible), forged(kind))
        for kind in (Kind.CLAIM, Kind.RELEASE, Kind.DONE, Kind.ALIVE, Kind.EXPIRE, Kind.REVOKE)
    },
    "a release names its claim": (
        Parts(log=Unbound),
        pitfalls.test_a_late_release_by_a_frozen_former_owner_changes_nothing,
    ),
    "a claim says its own grace": (
        Parts(log=Opinionated),
        pitfalls.test_fleets_that_wait_differently_long_see_the_same_holder,
    ),
    "an answer clears a suspicion": (
        Parts(log=Deaf),
        pitfalls.test_the_sweep_does_not_end_a_claim_whose_holder_answers,
    ),
    "our own claim must be seen": (
        Parts(log=Presuming),
        pitfalls.test_a_log_without_our_own_comment_is_no_answer,
    ),
    "a failed read is not free": (
        Parts(log=Carefree),
        pitfalls.test_a_failed_read_is_not_taken_for_free,
    ),
    "the ledger is asked after the log was read": (
        Parts(sweep=LedgerFirst),
        pitfalls.test_the_sweep_does_not_release_a_claim_that_is_just_being_made,
    ),
    "the sweep labels by what stands in the end": (
        Parts(log=Hasty),
        pitfalls.test_the_sweep_does_not_reopen_an_issue_whose_pull_request_just_opened,
    ),
    "after a revocation one waits": (
        Parts(claims=Impatient),
        pitfalls.test_who_comes_after_a_revocation_does_not_work_beside_the_revoked,
    ),
    "who gives back reads again before it labels": (
        Parts(claims=Rash),
        pitfalls.test_a_late_release_by_a_frozen_former_owner_changes_nothing,
    ),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_without_this_guard_its_scene_breaks(guard: str) -> None:
    parts, scene = GUARDS[guard]
    scene(Parts())
    with pytest.raises(AssertionError):
        scene(parts)


def test_without_adding_before_removing_a_crash_loses_the_issue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rota.claims.protocol.project", remove_first)
    monkeypatch.setattr("rota.claims.sweep.project", remove_first)
    with pytest.raises(Violation, match="is stuck"):
        crashes(Parts())


@pytest.mark.parametrize(
    ("what", "instead", "step"),
    [
        (
            "rota.claims.log.ClaimLog.settle",
            Hasty.settle,
            steps.test_asking_again_at_once_does_not_take_a_half_seen_log_for_an_answer,
        ),
        (
            "rota.claims.protocol.CommentClaims.look",
            look_once,
            steps.test_an_answer_that_came_after_the_expiry_is_seen_to_be_too_late,
        ),
        (
            "rota.claims.protocol.CommentClaims.claim",
            claim_late,
            steps.test_who_was_held_up_while_it_wrote_labels_is_granted_nothing_of_use,
        ),
    ],
    ids=["finish waits", "an answer is waited for", "a grant counts from the read"],
)
def test_without_this_care_its_step_breaks(
    what: str, instead: Any, step: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    step()
    monkeypatch.setattr(what, instead)
    with pytest.raises(AssertionError):
        step()
