"""`claim_mode: strict`: epochs as git references."""

from typing import Any

import pytest

from rota.claims.comments import Entry, Kind, marker
from rota.claims.fold import Standing
from rota.claims.labels import LabelSet
from rota.claims.pickup import Obstacle
from rota.claims.port import Ref
from rota.claims.protocol import CommentClaims, Grant, Refusal
from rota.claims.strict import RefLog
from rota.claims.sweep import Deed
from rota.model.errors import AnswerUnknown, TrackerError
from rota.testing.simulation.stories import Parts, World
from rota.testing.simulation.tracker import SimulatedTracker
from tests.unit.claim_scene import (
    BOT,
    OPERATOR,
    OTHER_BOT,
    STRANGER,
    claimant,
    kinds,
    labels_of,
    lose_answer,
    post,
    posts,
    quiet_world,
)

LABELS = LabelSet()


def strict_world(**changes: Any) -> World:
    return quiet_world(parts=Parts(log=RefLog), **changes)


def grant_to(world: World, name: str = "ann", fleet: int = 0) -> tuple[CommentClaims, Grant]:
    claims, who = claimant(world, name, world.fleets[fleet])
    [grant] = world.time.play(claims.claim(1, who))
    assert isinstance(grant, Grant), grant
    return claims, grant


def refs(world: World) -> list[str]:
    return [name.removeprefix("refs/rota/claims/1/") for name in sorted(world.repository.refs)]


def standing(world: World, claims: CommentClaims) -> Standing:
    [found] = world.time.play(claims.standing(1))
    assert isinstance(found, Standing)
    return found


class Stale(SimulatedTracker):
    """Does not list the references that the test hides, for so many listings."""

    __slots__ = ("hidden", "listings")

    hidden: str
    listings: int

    async def refs(self, prefix: str) -> list[Ref]:
        self.listings -= 1
        found = await SimulatedTracker.refs(self, prefix)
        return [ref for ref in found if self.listings < 0 or not ref.name.endswith(self.hidden)]


def make_stale(claims: CommentClaims, hidden: str, listings: int) -> None:
    was = claims.log.tracker
    assert isinstance(was, SimulatedTracker)
    tracker = Stale(was.repository, was.me, was.player)
    tracker.hidden, tracker.listings = hidden, listings
    claims.log.tracker = claims._tracker = tracker


# claims


def test_a_claim_is_a_reference_of_its_own_epoch() -> None:
    world = strict_world()
    _, grant = grant_to(world)
    assert grant.claim_id == 1
    assert refs(world) == ["000001/claim"]
    assert labels_of(world) == {"bug", LABELS.in_flight, LABELS.managed}
    assert posts(world) == []


def test_nobody_has_to_wait() -> None:
    world = strict_world()
    grant_to(world)
    assert world.time.now == 0.0


def test_of_two_at_once_one_creates_it_and_the_other_touches_nothing() -> None:
    world = strict_world()
    ann, first = claimant(world, "ann")
    bob, second = claimant(world, "bob", world.fleets[1])
    won, lost = world.time.play(ann.claim(1, first), bob.claim(1, second))
    assert isinstance(won, Grant)
    assert isinstance(lost, Refusal)
    assert lost.obstacle is Obstacle.CLAIMED
    assert refs(world) == ["000001/claim"]
    assert {one.by for one in world.repository.journal} == {"ann"}


def test_the_next_time_is_the_next_epoch() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    assert world.time.play(ann.release(grant, "gave-up")) == [True]
    _, again = grant_to(world, "bob", 1)
    assert again.claim_id == 2
    assert refs(world) == ["000001/claim", "000001/end", "000002/claim"]
    assert labels_of(world) == {"bug", LABELS.in_flight, LABELS.managed}


def test_an_epoch_begun_between_two_reads_is_not_jumped_over() -> None:
    """Whoever sees that the last is over, and is then overtaken, must not begin one more."""
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.release(grant, "gave-up"))
    bob, first = claimant(world, "bob", world.fleets[1])
    eve, second = claimant(world, "eve")
    answers = world.time.play(bob.claim(1, first), eve.claim(1, second))
    assert [isinstance(one, Grant) for one in answers].count(True) == 1
    assert refs(world) == ["000001/claim", "000001/end", "000002/claim"]


# stale reads


@pytest.mark.parametrize("hidden", ["claim", "end", "000001/claim", "000002/claim"])
def test_a_stale_listing_is_read_again(hidden: str) -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.release(grant, "gave-up"))
    bob, second = grant_to(world, "bob", 1)
    make_stale(bob, hidden, listings=3)
    seen = standing(world, bob)
    if hidden in ("end", "000001/claim"):
        assert seen.holder is not None
        assert seen.holder.id == second.claim_id
    ann2, who = claimant(world, "ann2")
    make_stale(ann2, hidden, listings=3)
    [refused] = world.time.play(ann2.claim(1, who))
    assert isinstance(refused, Refusal)
    assert refs(world) == ["000001/claim", "000001/end", "000002/claim"]


def test_a_listing_that_stays_stale_is_an_error_and_no_answer() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.release(grant, "gave-up"))
    bob, _ = grant_to(world, "bob", 1)
    make_stale(bob, "000001/end", listings=99)
    [error] = world.time.play(bob.standing(1))
    assert isinstance(error, TrackerError)
    assert "not the end before it" in error.message


def test_a_reference_that_is_created_but_never_listed_is_given_up() -> None:
    world = strict_world()
    ann, who = claimant(world, "ann")
    make_stale(ann, "claim", listings=99)
    [refused] = world.time.play(ann.claim(1, who))
    assert isinstance(refused, Refusal)
    assert LABELS.in_flight not in labels_of(world)


# ends


def test_an_accepted_end_is_the_end() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    assert world.time.play(ann.finish(grant, "https://x/pulls/1")) == [True]
    assert world.time.play(ann.finish(grant, "https://x/pulls/1")) == [True]
    assert kinds(world) == ["claim", "done"]
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.pr_open}
    bob, who = claimant(world, "bob", world.fleets[1])
    [refused] = world.time.play(bob.claim(1, who))
    assert refused.obstacle is Obstacle.PR_OPEN
    assert refs(world) == ["000001/claim", "000001/end"]


def test_a_claim_beside_a_finish_begins_no_epoch() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    bob, who = claimant(world, "bob", world.fleets[1])
    finished, refused = world.time.play(ann.finish(grant, "u"), bob.claim(1, who))
    assert finished is True
    assert isinstance(refused, Refusal)
    assert refs(world) == ["000001/claim", "000001/end"]


def test_only_one_end_can_be_written() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    finished, released = world.time.play(ann.finish(grant, "u"), ann.release(grant, "gave-up"))
    assert (finished, released) in [(True, False), (False, True)]
    assert len(refs(world)) == 2


def test_an_end_that_another_end_came_before_is_refused_at_once() -> None:
    world = strict_world()
    ann, grant = grant_to(world)

    class Overtaken(SimulatedTracker):
        __slots__ = ()

        async def create_ref(self, name: str, message: str) -> bool:
            release = marker(Kind.RELEASE, claim=1, outcome="stale-swept")
            self.repository.create_ref(name, release, "sweep")
            return await SimulatedTracker.create_ref(self, name, message)

    ann.log.tracker = ann._tracker = Overtaken(world.repository, BOT, "ann")
    began = world.time.now
    assert world.time.play(ann.finish(grant, "u")) == [False]
    assert world.time.now == began
    assert kinds(world) == ["claim", "release"]


def test_an_operator_opens_a_finished_issue_again() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.finish(grant, "u"))
    world.time.play(ann.log.append(1, Kind.REVOKE, claim=grant.claim_id, by="owner"))
    assert refs(world) == ["000001/claim", "000001/end", "000001/reopen"]
    assert standing(world, ann).is_free
    world.repository.add_labels(1, [LABELS.ready], OPERATOR, "owner")
    world.repository.remove_label(1, LABELS.pr_open, "owner")
    _, again = grant_to(world, "bob", 1)
    assert again.claim_id == 2


def test_who_comes_after_a_revocation_waits_here_too() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.log.append(1, Kind.REVOKE, claim=grant.claim_id, by="owner"))
    world.repository.add_labels(1, [LABELS.ready], OPERATOR, "owner")
    world.repository.remove_label(1, LABELS.in_flight, "owner")
    grant_to(world, "bob", 1)
    assert world.time.now >= world.setting.times.grace - 1


# suspicion


def suspect(world: World, grant: Grant) -> int:
    return post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id).id


def expire(world: World, claims: CommentClaims, grant: Grant, of: int) -> None:
    world.time.play(claims.log.append(1, Kind.EXPIRE, claim=grant.claim_id, suspect=of))


def test_an_unanswered_suspicion_ends_the_epoch() -> None:
    world = strict_world()
    _, grant = grant_to(world)
    sweep = world.sweep(world.fleets[1], "sweep")
    world.time.now += world.setting.times.quiet
    world.time.play(sweep.run())
    world.time.now += world.setting.times.grace
    [report] = world.time.play(sweep.run())
    assert [one.deed for one in report.findings] == [Deed.EXPIRED, Deed.RELABELLED]
    assert refs(world) == ["000001/claim", "000001/end"]
    assert grant_to(world, "bob", 1)[1].claim_id == grant.claim_id + 1


def test_an_answer_keeps_the_epoch_alive() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    said = suspect(world, grant)
    [seen] = world.time.play(ann.look(grant))
    assert seen.lost is None
    assert seen.deadline > 0
    world.time.now += world.setting.times.grace
    expire(world, ann, grant, said)
    assert refs(world) == ["000001/claim"]
    assert standing(world, ann).holder is not None


def test_an_expiry_that_comes_too_early_ends_nothing_for_ever() -> None:
    """If it were written as the end, nothing could take its place."""
    world = strict_world()
    ann, grant = grant_to(world)
    expire(world, ann, grant, suspect(world, grant))
    assert refs(world) == ["000001/claim"]
    assert world.time.play(ann.finish(grant, "u")) == [True]


def test_an_answer_that_comes_after_the_end_does_not_bring_the_epoch_back() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    said = suspect(world, grant)
    world.time.now += world.setting.times.grace
    expire(world, ann, grant, said)
    post(world, Kind.ALIVE, BOT, claim=grant.claim_id)
    assert standing(world, ann).is_free
    [seen] = world.time.play(ann.look(grant))
    assert seen.lost


def test_an_answer_before_the_expiry_that_cannot_be_seen_yet_counts() -> None:
    world = strict_world()
    _, grant = grant_to(world)
    said = suspect(world, grant)
    world.time.now += world.setting.times.grace
    alive = post(world, Kind.ALIVE, BOT, claim=grant.claim_id)
    settled = world.time.now + world.setting.times.settle

    class Late(SimulatedTracker):
        __slots__ = ()

        async def comments(self, number: int) -> Any:
            found = await SimulatedTracker.comments(self, number)
            return [one for one in found if one.id != alive.id or world.time.now >= settled]

    bob = world.sweep(world.fleets[1], "sweep").claims
    was = bob.log.tracker
    bob.log.tracker = Late(world.repository, OTHER_BOT, was.player)  # type: ignore[attr-defined]
    expire(world, bob, grant, said)
    assert refs(world) == ["000001/claim"]


def test_an_end_said_while_an_expiry_is_only_a_comment_is_the_end() -> None:
    """The expiry's author died before it could write it down."""
    world = strict_world()
    ann, grant = grant_to(world)
    said = suspect(world, grant)
    world.time.now += world.setting.times.grace
    post(world, Kind.EXPIRE, OTHER_BOT, claim=grant.claim_id, suspect=said)
    assert world.time.play(ann.finish(grant, "u")) == [False]  # it sees that it has expired
    world.time.play(ann.log.append(1, Kind.DONE, claim=grant.claim_id, pr="u"))
    assert standing(world, ann).done_claim == grant.claim_id


def test_who_comes_next_writes_down_an_expiry_that_nobody_has() -> None:
    world = strict_world()
    _, grant = grant_to(world)
    said = suspect(world, grant)
    world.time.now += world.setting.times.grace
    post(world, Kind.EXPIRE, OTHER_BOT, claim=grant.claim_id, suspect=said)
    world.repository.add_labels(1, [LABELS.ready], OPERATOR, "owner")
    world.repository.remove_label(1, LABELS.in_flight, "owner")
    _, again = grant_to(world, "bob", 1)
    assert again.claim_id == 2
    assert refs(world) == ["000001/claim", "000001/end", "000002/claim"]


def test_an_expiry_that_did_not_become_an_end_begins_no_epoch() -> None:
    """The answer before it is shown only while it is looked at closely."""
    world = strict_world()
    _, grant = grant_to(world)
    said = suspect(world, grant)
    world.time.now += world.setting.times.grace
    alive = post(world, Kind.ALIVE, BOT, claim=grant.claim_id)
    post(world, Kind.EXPIRE, OTHER_BOT, claim=grant.claim_id, suspect=said)
    world.repository.add_labels(1, [LABELS.ready], OPERATOR, "owner")
    world.repository.remove_label(1, LABELS.in_flight, "owner")
    closely = iter([False, False, True])

    class Flickering(SimulatedTracker):
        __slots__ = ()

        async def comments(self, number: int) -> Any:
            shown = next(closely, False)
            found = await SimulatedTracker.comments(self, number)
            return [one for one in found if one.id != alive.id or shown]

    bob, who = claimant(world, "bob", world.fleets[1])
    bob.log.tracker = bob._tracker = Flickering(world.repository, OTHER_BOT, "bob")
    [refused] = world.time.play(bob.claim(1, who))
    assert isinstance(refused, Refusal)
    assert refs(world) == ["000001/claim"]


def test_suspicions_by_outsiders_are_not_believed() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    post(world, Kind.SUSPECT, STRANGER, claim=grant.claim_id)
    assert standing(world, ann).suspects == ()


# reports


def test_a_report_is_written_for_people_once() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.finish(grant, "u", "All done."))
    world.time.play(ann.log.append(1, Kind.DONE, "All done.", claim=1, pr="u", ts="later"))
    [said] = world.repository.comments[1]
    assert said.comment.body == "<!-- rota-report-done:v=2 claim=1 pr=u -->\nAll done."


def test_a_stranger_who_writes_the_report_before_us_does_not_suppress_it() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.repository.post(1, STRANGER, "<!-- rota-report-done:v=2 claim=1 pr=u -->", "mallory")
    world.time.play(ann.finish(grant, "u", "All done."))
    assert world.repository.comments[1][-1].comment.author == BOT


def test_a_report_whose_answer_was_lost_is_not_repeated() -> None:
    world = strict_world()
    ann, grant = grant_to(world)

    class Losing(SimulatedTracker):
        __slots__ = ()

        async def comment(self, number: int, body: str) -> Any:
            await SimulatedTracker.comment(self, number, body)
            lose_answer()(1)

    ann.log.tracker = ann._tracker = Losing(world.repository, BOT, "ann")
    assert world.time.play(ann.finish(grant, "u", "All done.")) == [True]
    assert len(posts(world)) == 1


# odds and ends


def test_an_unknown_answer_is_raised_and_leaves_a_claim_for_the_sweep() -> None:
    world = strict_world()
    ann, who = claimant(world, "ann")

    class Losing(SimulatedTracker):
        __slots__ = ()

        async def create_ref(self, name: str, message: str) -> bool:
            await SimulatedTracker.create_ref(self, name, message)
            raise AnswerUnknown("no answer")

    ann.log.tracker = Losing(world.repository, BOT, "ann")
    [error] = world.time.play(ann.claim(1, who))
    assert isinstance(error, AnswerUnknown)
    world.time.play(world.sweep(world.fleets[0], "sweep").run())
    assert refs(world) == ["000001/claim", "000001/end"]
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.ready}


def test_references_of_others_in_our_place_are_passed_over() -> None:
    world = strict_world()
    repository = world.repository
    repository.create_ref("rota/claims/1/notes/claim", "<!-- agent-claim:v=2 -->", "somebody")
    repository.create_ref("rota/claims/1/000007/claim", "not a marker", "somebody")
    _, grant = grant_to(world)
    assert grant.claim_id == 1


def test_an_end_that_cannot_be_read_yet_is_put_where_it_belongs() -> None:
    world = strict_world()
    ann, grant = grant_to(world)
    world.time.play(ann.release(grant, "gave-up"))
    log = world.truth(1)
    assert isinstance(ann.log, RefLog)
    talk = Entry(99, Kind.ALIVE, {"claim": "1"}, BOT, log[0].created_at)
    assert ann.log.merged([log[0], talk], log[1]) == [log[0], log[1], talk]
    assert ann.log.merged(log, log[1]) == log
