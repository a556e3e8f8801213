"""Claiming, looking and ending, step by step on a quiet tracker."""

from dataclasses import replace
from typing import Any

import pytest

from rota.claims.comments import OPERATOR_FLEET, Kind, marker
from rota.claims.labels import LabelSet
from rota.claims.pickup import Asker, Obstacle
from rota.claims.protocol import Claimant, CommentClaims, Grant, Look, Refusal
from rota.claims.sweep import Deed, Sweep
from rota.model.errors import AnswerUnknown, IssueNotFound, TrackerError
from rota.testing.simulation.referee import Role
from rota.testing.simulation.stories import World
from rota.testing.simulation.tracker import Faults
from tests.unit.claim_scene import (
    BOT,
    OPERATOR,
    OTHER_BOT,
    STRANGER,
    claimant,
    direct,
    fail,
    kinds,
    labels_of,
    lose_answer,
    on,
    post,
    posts,
    quiet_world,
)

LABELS = LabelSet()
WORKED_ON = {"bug", LABELS.in_flight, LABELS.managed}


def granted(world: World, name: str = "ann") -> tuple[CommentClaims, Grant]:
    claims, who = claimant(world, name)
    [grant] = world.time.play(claims.claim(1, who))
    assert isinstance(grant, Grant)
    return claims, grant


# claim


def test_a_free_issue_is_granted_and_labelled() -> None:
    world = quiet_world()
    _, grant = granted(world)
    assert labels_of(world) == WORKED_ON
    assert grant.claim_id == world.truth(1)[0].id
    assert kinds(world) == ["claim"]


def test_the_claim_can_be_read_by_people_and_programs() -> None:
    world = quiet_world()
    granted(world)
    body = world.repository.comments[1][0].comment.body
    assert body == (
        "<!-- agent-claim:v=2 fleet=f0 codename=ann firing_id=20260501-120000-ann nonce=ann"
        " ts=2026-05-01T12:00:00Z grace=300 -->\n`ann` is working on this issue."
    )


def test_it_waits_until_every_smaller_id_can_be_read() -> None:
    world = quiet_world()
    granted(world)
    settle = world.setting.times.settle
    assert settle <= world.time.now <= settle + world.setting.times.settle_jitter


def test_the_claims_id_is_told_before_anything_else_happens() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    told: list[tuple[float, int]] = []

    async def entered(number: int) -> None:
        told.append((world.time.now, number))

    [grant] = world.time.play(claims.claim(1, who, entered=entered))
    assert told == [(0.0, grant.claim_id)]


def test_of_a_doubled_post_the_lower_copy_counts_and_is_told_too() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    told: list[int] = []

    async def entered(number: int) -> None:
        told.append(number)

    def copy() -> None:
        """The tracker keeps the post once more, before the copy it will answer with."""
        repository = world.repository
        fields = {"fleet": "f0", "codename": "ann", "firing_id": who.firing_id, "nonce": who.nonce}
        repository.post(1, BOT, marker(Kind.CLAIM, **fields), "ann")

    direct(claims, before_comment=on(1, copy))
    [grant] = world.time.play(claims.claim(1, who, entered=entered))
    first, second = (one.id for one in world.truth(1))
    assert grant.claim_id == first
    assert told == [second, first]


def test_an_issue_that_is_not_to_be_had_costs_no_comment() -> None:
    for change, why in (
        (lambda repo: repo.remove_label(1, LABELS.ready, "p"), Obstacle.NOT_READY),
        (lambda repo: repo.add_labels(1, [LABELS.hold], OPERATOR, "p"), Obstacle.HELD),
        (lambda repo: repo.set_open(1, False, "p"), Obstacle.CLOSED),
    ):
        world = quiet_world()
        claims, who = claimant(world, "ann")
        change(world.repository)
        [refused] = world.time.play(claims.claim(1, who))
        assert refused.obstacle is why
        assert posts(world) == []


def test_an_issue_that_does_not_exist_is_said_so() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    [error] = world.time.play(claims.claim(99, who))
    assert isinstance(error, IssueNotFound)


def test_a_held_issue_is_not_asked_for() -> None:
    world = quiet_world()
    granted(world)
    other, who = claimant(world, "bob", world.fleets[1])
    [refused] = world.time.play(other.claim(1, who))
    assert refused.obstacle is Obstacle.CLAIMED
    assert "'ann' holds it" in refused.message
    assert kinds(world) == ["claim"]


def test_of_two_at_the_same_moment_one_wins_and_the_other_touches_nothing() -> None:
    world = quiet_world()
    ann, first = claimant(world, "ann")
    bob, second = claimant(world, "bob", world.fleets[1])
    won, lost = world.time.play(ann.claim(1, first), bob.claim(1, second))
    assert isinstance(won, Grant)
    assert isinstance(lost, Refusal)
    assert lost.obstacle is Obstacle.CLAIMED
    assert kinds(world) == ["claim", "claim"]
    assert {one.by for one in world.repository.journal if one.what != "comment"} == {"ann"}


def test_a_claim_that_is_suspected_at_once_is_given_back() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")

    async def suspicious() -> None:
        await world.time.sleep(5)
        post(world, Kind.SUSPECT, OTHER_BOT, claim=world.truth(1)[0].id)

    refused, _ = world.time.play(claims.claim(1, who), suspicious())
    assert isinstance(refused, Refusal)
    assert kinds(world) == ["claim", "suspect", "release"]
    assert labels_of(world) == {"bug", LABELS.ready}


@pytest.mark.parametrize("happens", ["hold", "close"])
def test_a_hold_that_appears_meanwhile_wins(happens: str) -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")

    async def person() -> None:
        await world.time.sleep(5)
        if happens == "hold":
            world.repository.add_labels(1, [LABELS.hold], OPERATOR, "person")
        else:
            world.repository.set_open(1, False, "person")

    refused, _ = world.time.play(claims.claim(1, who), person())
    assert refused.obstacle is (Obstacle.HELD if happens == "hold" else Obstacle.CLOSED)
    assert "outcome=operator-hold" in posts(world)[-1]
    assert LABELS.in_flight not in labels_of(world)


def test_a_claim_that_is_never_seen_is_given_back() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    direct(claims, hides=lambda one: "agent-claim" in one.body)
    [refused] = world.time.play(claims.claim(1, who))
    assert isinstance(refused, Refusal)
    assert kinds(world) == ["claim", "release"]
    assert "outcome=claim-not-seen" in posts(world)[-1]
    waited = world.setting.times.settle * (1 + 5 / 2)
    assert waited <= world.time.now <= waited + world.setting.times.settle_jitter


@pytest.mark.parametrize("read", [1, 2])
def test_a_read_that_fails_is_never_taken_for_free(read: int) -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    broken = TrackerError("the tracker cannot be read")
    direct(claims, before_comments=lambda call: fail(broken)(call) if call >= read else None)
    [answer] = world.time.play(claims.claim(1, who))
    if read == 1:
        assert answer is broken
        assert posts(world) == []
    else:
        assert answer == Refusal(message=broken.message)
        assert kinds(world) == ["claim", "release"]


def test_labels_that_cannot_be_written_give_the_claim_back() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    direct(claims, before_add_labels=fail(TrackerError("refused")))
    [refused] = world.time.play(claims.claim(1, who))
    assert isinstance(refused, Refusal)
    assert kinds(world) == ["claim", "release"]


def test_a_lost_answer_is_looked_for_and_adopted() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    direct(claims, after_comment=lose_answer())
    [grant] = world.time.play(claims.claim(1, who))
    assert isinstance(grant, Grant)
    assert kinds(world) == ["claim"]


def test_a_post_that_never_arrived_is_given_up_after_twice_the_lag() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    direct(claims, before_comment=lose_answer())
    [refused] = world.time.play(claims.claim(1, who))
    assert isinstance(refused, Refusal)
    assert kinds(world) == []
    assert world.time.now >= 2 * world.setting.times.settle


def test_a_strangers_post_in_the_same_words_is_not_taken_for_ours() -> None:
    world = quiet_world()
    claims, _ = claimant(world, "ann")
    post(world, Kind.SUSPECT, STRANGER, claim=7, by="ann")
    direct(claims, before_comment=lose_answer())
    assert world.time.play(claims.log.append(1, Kind.SUSPECT, claim=7, by="ann")) == [None]


def test_somebody_elses_claim_is_not_adopted_for_ours() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    fields = {"fleet": "f0", "codename": "ann", "firing_id": who.firing_id, "nonce": "another"}
    direct(
        claims,
        before_comment=on(1, lambda: post(world, Kind.CLAIM, BOT, **fields)),
        hides=lambda one: "nonce=ann" in one.body,
    )
    [refused] = world.time.play(claims.claim(1, who))
    assert isinstance(refused, Refusal)


def test_a_stranger_who_copies_our_marker_is_not_adopted_either() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")

    def copied(_call: int) -> None:
        body = "<!-- agent-claim:v=2 fleet=f0 codename=ann firing_id=20260501-120000-ann nonce=ann"
        world.repository.post(1, STRANGER, f"{body} ts=2026-05-01T12:00:00Z -->", "stranger")
        raise AnswerUnknown("no answer")

    direct(claims, before_comment=copied)
    [refused] = world.time.play(claims.claim(1, who))
    assert isinstance(refused, Refusal)
    assert kinds(world) == []


# how long a grant is good for


def test_a_grant_is_good_until_a_suspicion_it_did_not_show_could_end_it() -> None:
    world = quiet_world()
    _, grant = granted(world)
    times = world.setting.times
    assert grant.deadline == pytest.approx(
        world.time.now + times.grace - times.settle - times.margin, abs=0.01
    )


def test_who_was_held_up_while_it_wrote_labels_is_granted_nothing_of_use() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")

    def frozen() -> None:
        world.time.now += 1000.0

    direct(claims, before_add_labels=on(1, frozen))
    [grant] = world.time.play(claims.claim(1, who))
    assert isinstance(grant, Grant)
    assert grant.deadline < world.time.now


# after a revocation


def revoked_world() -> tuple[World, CommentClaims, Grant]:
    world = quiet_world()
    claims, grant = granted(world)
    post(world, Kind.REVOKE, OPERATOR, claim=grant.claim_id, by="owner")
    world.repository.add_labels(1, [LABELS.ready], OPERATOR, "person")
    world.repository.remove_label(1, LABELS.in_flight, "person")
    return world, claims, grant


def test_after_a_revocation_the_next_waits_until_the_last_must_have_stopped() -> None:
    world, _, former = revoked_world()
    bob, who = claimant(world, "bob", world.fleets[1])
    revoked_at = world.time.now
    [grant] = world.time.play(bob.claim(1, who))
    assert isinstance(grant, Grant)
    assert world.time.now >= revoked_at + world.setting.times.grace - 1  # stamps have seconds
    assert world.time.now > former.deadline


def test_the_wait_is_as_long_as_the_revoked_claim_allowed_itself() -> None:
    world, _, former = revoked_world()
    bob, who = claimant(world, "bob", world.fleets[1])
    bob.log.times = replace(bob.log.times, grace=50.0)
    [grant] = world.time.play(bob.claim(1, who))
    assert isinstance(grant, Grant)
    assert world.time.now > former.deadline


def test_the_wait_counts_from_the_revocation() -> None:
    world, _, _ = revoked_world()
    world.time.now += 200.0
    bob, who = claimant(world, "bob", world.fleets[1])
    began = world.time.now
    [grant] = world.time.play(bob.claim(1, who))
    assert isinstance(grant, Grant)
    assert world.time.now - began < 110


def test_who_revoked_it_himself_does_not_wait() -> None:
    world, _, _ = revoked_world()
    ada = world.claims("ada", OPERATOR, Role.PERSON)
    who = Claimant(OPERATOR_FLEET, "owner", "x", "n")
    began = world.time.now
    [grant] = world.time.play(ada.claim(1, who, asker=Asker(login="owner", needs_ready=False)))
    assert isinstance(grant, Grant)
    assert world.time.now - began < 15


def test_a_hold_that_comes_while_it_waits_is_seen() -> None:
    world, _, _ = revoked_world()
    bob, who = claimant(world, "bob", world.fleets[1])

    async def person() -> None:
        await world.time.sleep(100)
        world.repository.add_labels(1, [LABELS.hold], OPERATOR, "person")

    refused, _ = world.time.play(bob.claim(1, who), person())
    assert refused.obstacle is Obstacle.HELD


# look


def look(world: World, claims: CommentClaims, grant: Grant) -> Look:
    [seen] = world.time.play(claims.look(grant))
    assert isinstance(seen, Look), seen
    return seen


def test_a_clean_look_moves_the_deadline() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    world.time.now += 60
    seen = look(world, claims, grant)
    assert seen == Look(None, world.time.now + world.setting.times.trust_in_a_poll)
    assert seen.deadline > grant.deadline


def test_a_look_that_fails_says_nothing() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    direct(claims, before_comments=fail(TrackerError("unreadable")))
    [error] = world.time.play(claims.look(grant))
    assert isinstance(error, TrackerError)


@pytest.mark.parametrize(
    "happens", ["release", "revoke", "hold", "scope", "close"], ids=lambda one: one
)
def test_a_look_sees_that_the_claim_is_lost(happens: str) -> None:
    world = quiet_world()
    claims, grant = granted(world)
    repository, number = world.repository, grant.claim_id
    {
        "release": lambda: post(world, Kind.RELEASE, BOT, claim=number),
        "revoke": lambda: post(world, Kind.REVOKE, OPERATOR, claim=number),
        "hold": lambda: repository.add_labels(1, [LABELS.hold], OPERATOR, "p"),
        "scope": lambda: repository.add_labels(1, ["needs:human-scope"], OPERATOR, "p"),
        "close": lambda: repository.set_open(1, False, "p"),
    }[happens]()
    assert look(world, claims, grant).lost


def test_taking_a_lifecycle_label_off_does_not_stop_anybody() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    world.repository.remove_label(1, LABELS.in_flight, "person")
    assert look(world, claims, grant).lost is None


def test_a_suspicion_is_answered_and_the_answer_waited_for() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    began = world.time.now
    seen = look(world, claims, grant)
    assert kinds(world)[-1] == "alive"
    assert seen.lost is None
    assert world.time.now >= began + world.setting.times.settle
    assert seen.deadline > began + world.setting.times.trust_in_a_poll


def test_an_answer_that_came_after_the_expiry_is_seen_to_be_too_late() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    suspect = post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    world.time.now += world.setting.times.grace
    expire = {"claim": grant.claim_id, "suspect": suspect.id}
    direct(claims, before_comment=on(1, lambda: post(world, Kind.EXPIRE, OTHER_BOT, **expire)))
    assert look(world, claims, grant).lost


def test_a_look_is_good_by_the_grace_that_the_claim_was_made_with() -> None:
    """The fleet was set up anew while it held the issue."""
    world = quiet_world()
    claims, grant = granted(world)
    times = claims.log.times
    claims.log.times = replace(times, grace=10 * times.grace)
    assert look(world, claims, grant).deadline == world.time.now + times.trust_in_a_poll
    claims.log.times = replace(times, grace=100.0)
    assert look(world, claims, grant).deadline == world.time.now + 100 - 10 - 20


def test_a_look_at_a_suspicion_that_stays_does_not_move_the_deadline() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    direct(claims, hides=lambda one: "agent-alive" in one.body)
    assert look(world, claims, grant) == Look(None, 0.0)


def test_an_entry_that_was_invisible_when_the_claim_was_granted_is_reported() -> None:
    world = quiet_world()
    claims, who = claimant(world, "ann")
    early = post(world, Kind.RELEASE, BOT, claim=1)
    tracker = direct(claims, hides=lambda one: one.id == early.id)
    [grant] = world.time.play(claims.claim(1, who))
    tracker.hides = lambda _one: False
    assert look(world, claims, grant).too_late == (early.id,)
    world.setting.times.slower()
    assert world.setting.times.slower().settle == 2 * world.setting.times.settle


def hidden_for_a_moment(world: World, claims: CommentClaims, grant: Grant) -> None:
    """Reads miss the claim, as they did when it was young."""
    shown = world.time.now + world.setting.times.settle
    direct(claims, hides=lambda one: one.id == grant.claim_id and world.time.now < shown)


def test_a_log_that_lacks_our_claim_for_a_moment_has_not_lost_it() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    hidden_for_a_moment(world, claims, grant)
    assert look(world, claims, grant).lost is None


def test_a_claim_that_stays_away_is_lost() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    direct(claims, hides=lambda one: one.id == grant.claim_id)
    assert look(world, claims, grant).lost


# the end


@pytest.mark.parametrize("end", ["finish", "release"])
def test_an_end_is_accepted_though_the_claim_is_hidden_for_a_moment(end: str) -> None:
    world = quiet_world()
    claims, grant = granted(world)
    hidden_for_a_moment(world, claims, grant)
    said = claims.finish(grant, "u") if end == "finish" else claims.release(grant, "released")
    assert world.time.play(said) == [True]
    assert world.truth(1)[-1].fields["claim"] == str(grant.claim_id)


def test_an_accepted_end_is_shown_by_the_labels() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    [accepted] = world.time.play(claims.finish(grant, "https://x/pulls/1", "All done."))
    assert accepted is True
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.pr_open}
    assert "pr=https://x/pulls/1" in posts(world)[-1]
    assert world.repository.comments[1][-1].comment.body.endswith("\nAll done.")


def test_an_end_without_a_pull_request_is_an_end() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    assert world.time.play(claims.finish(grant, None)) == [True]
    assert "pr=none" in posts(world)[-1]


def test_an_end_said_twice_stands_once() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    assert world.time.play(claims.finish(grant, "u")) == [True]
    assert world.time.play(claims.finish(grant, "u")) == [True]
    assert kinds(world) == ["claim", "done"]


def test_an_end_whose_answer_was_lost_stands_once() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    direct(claims, after_comment=lose_answer())
    assert world.time.play(claims.finish(grant, "u")) == [True]
    assert kinds(world) == ["claim", "done"]


def test_an_end_that_cannot_be_said_is_not_taken_for_refused() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    direct(claims, before_comment=fail(AnswerUnknown("no answer")))
    [error] = world.time.play(claims.finish(grant, "u"))
    assert isinstance(error, AnswerUnknown)
    assert kinds(world) == ["claim"]


def test_an_end_that_is_said_but_not_seen_is_not_taken_for_refused() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    direct(claims, hides=lambda one: "agent-done" in one.body)
    [error] = world.time.play(claims.finish(grant, "u"))
    assert isinstance(error, AnswerUnknown)


def test_the_end_of_a_claim_that_was_lost_is_refused_and_not_even_said() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    post(world, Kind.REVOKE, OPERATOR, claim=grant.claim_id)
    before = len(world.repository.journal)
    assert world.time.play(claims.finish(grant, "u")) == [False]
    assert len(world.repository.journal) == before


def test_an_end_behind_an_expiry_that_cannot_be_seen_yet_is_refused() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    suspect = post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    world.time.now += world.setting.times.grace
    expire = {"claim": grant.claim_id, "suspect": suspect.id}
    direct(claims, before_comment=on(1, lambda: post(world, Kind.EXPIRE, OTHER_BOT, **expire)))
    assert world.time.play(claims.finish(grant, "u")) == [False]
    assert labels_of(world) == WORKED_ON


def test_asking_again_at_once_does_not_take_a_half_seen_log_for_an_answer() -> None:
    """The end is there and the expiry before it still hidden."""
    world = quiet_world()
    claims, grant = granted(world)
    suspect = post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    world.time.now += world.setting.times.grace
    expire = post(world, Kind.EXPIRE, OTHER_BOT, claim=grant.claim_id, suspect=suspect.id)
    post(world, Kind.DONE, BOT, claim=grant.claim_id, pr="u")
    settled = world.time.now + world.setting.times.settle
    direct(claims, hides=lambda one: one.id == expire.id and world.time.now < settled)
    assert world.time.play(claims.finish(grant, "u")) == [False]


def test_an_issue_given_back_can_be_had_again() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    assert world.time.play(claims.release(grant, "gave-up", "Too hard.")) == [True]
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.ready}
    assert f"claim={grant.claim_id}" in posts(world)[-1]
    assert "outcome=gave-up" in posts(world)[-1]
    assert world.repository.comments[1][-1].comment.body.endswith("\nToo hard.")


@pytest.mark.parametrize(
    ("how", "label"),
    [
        ({"outcome": "failure"}, LABELS.failed),
        ({"outcome": "partial"}, LABELS.failed),
        ({"outcome": "released"}, LABELS.ready),
        ({"outcome": "released", "park": True}, None),
    ],
    ids=str,
)
def test_the_label_says_how_it_was_given_back(how: dict[str, Any], label: str | None) -> None:
    world = quiet_world()
    claims, grant = granted(world)
    world.time.play(claims.release(grant, **how))
    assert labels_of(world) == {"bug", LABELS.managed, *([label] if label else [])}


def test_who_has_lost_the_issue_leaves_even_wrong_labels_to_others() -> None:
    """What a former holder reads may be stale: only the holder and sweeps set labels."""
    world = quiet_world()
    claims, grant = granted(world)
    post(world, Kind.REVOKE, OPERATOR, claim=grant.claim_id, by="op")
    post(world, Kind.CLAIM, OTHER_BOT, fleet="f1", codename="bob", firing_id="x", nonce="bob")
    world.repository.remove_label(1, LABELS.in_flight, "person")
    assert world.time.play(claims.release(grant, "gave-up")) == [False]
    assert labels_of(world) == WORKED_ON - {LABELS.in_flight}
    assert kinds(world) == ["claim", "revoke", "claim"]


def test_a_release_said_twice_is_said_once() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    assert world.time.play(claims.release(grant, "gave-up")) == [True]
    assert world.time.play(claims.release(grant, "gave-up")) == [True]
    assert kinds(world) == ["claim", "release"]


def test_what_is_not_ours_cannot_be_given_back() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    other = replace(grant, claim_id=grant.claim_id + 1)
    assert world.time.play(claims.release(other, "gave-up")) == [False]
    assert kinds(world) == ["claim"]
    assert labels_of(world) == WORKED_ON


# people


def test_a_person_takes_what_nobody_has_marked_and_agents_stay_away() -> None:
    world = quiet_world()
    world.repository.remove_label(1, LABELS.ready, "person")
    ada = world.claims("ada", OPERATOR, Role.PERSON)
    who = Claimant(OPERATOR_FLEET, "owner", "x", "n")
    [grant] = world.time.play(ada.claim(1, who, asker=Asker(login="owner", needs_ready=False)))
    assert isinstance(grant, Grant)
    ann, agent = claimant(world, "ann")
    [refused] = world.time.play(ann.claim(1, agent))
    assert refused.obstacle is Obstacle.CLAIMED


# sweep


def sweep_of(world: World, fleet: int = 0, **changes: Any) -> Sweep:
    return replace(world.sweep(world.fleets[fleet], f"sweep{fleet}"), **changes)


def swept(world: World, sweep: Sweep, **how: Any) -> list[Deed]:
    [report] = world.time.play(sweep.run(**how))
    assert report.errors == {}
    return [one.deed for one in report.findings]


def test_a_sweep_gives_our_own_dead_runs_claim_back_at_once() -> None:
    world = quiet_world()
    granted(world)  # no lease in the ledger
    assert swept(world, sweep_of(world)) == [Deed.RELEASED, Deed.RELABELLED]
    assert "outcome=stale-swept" in posts(world)[-1]
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.ready}


def test_a_sweep_leaves_our_own_live_run_alone() -> None:
    world = quiet_world()
    _, grant = granted(world)
    world.fleets[0].ledger.take(1, grant.claimant.firing_id)
    assert swept(world, sweep_of(world)) == []


def test_a_foreign_claim_is_suspected_only_when_it_was_silent_for_long() -> None:
    world = quiet_world()
    granted(world)
    sweep = sweep_of(world, 1)
    assert swept(world, sweep) == []
    world.time.now += world.setting.times.quiet
    assert swept(world, sweep) == [Deed.SUSPECTED]
    assert swept(world, sweep) == []
    world.time.now += world.setting.times.grace
    assert swept(world, sweep) == [Deed.EXPIRED, Deed.RELABELLED]
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.ready}


def test_how_long_is_long_can_be_told() -> None:
    world = quiet_world()
    granted(world)
    assert swept(world, sweep_of(world, 1), quiet=5.0) == [Deed.SUSPECTED]


def test_who_answers_is_not_expired_and_counts_as_heard() -> None:
    world = quiet_world()
    claims, grant = granted(world)
    sweep = sweep_of(world, 1)
    world.time.now += world.setting.times.quiet
    swept(world, sweep)
    world.time.play(claims.look(grant))
    world.time.now += world.setting.times.grace
    assert swept(world, sweep) == []
    assert kinds(world) == ["claim", "suspect", "alive"]


def test_a_persons_claim_has_no_end_of_life() -> None:
    world = quiet_world()
    ada = world.claims("ada", OPERATOR, Role.PERSON)
    who = Claimant(OPERATOR_FLEET, "owner", "x", "n")
    world.time.play(ada.claim(1, who, asker=Asker(login="owner", needs_ready=False)))
    world.time.now += 1000 * world.setting.times.quiet
    assert swept(world, sweep_of(world)) == []
    assert swept(world, sweep_of(world, 1)) == []


def test_a_dry_run_says_the_same_and_does_nothing() -> None:
    world = quiet_world()
    granted(world)
    before = len(world.repository.journal)
    assert swept(world, sweep_of(world), dry_run=True) == [Deed.RELEASED]
    assert len(world.repository.journal) == before


def test_a_disputed_issue_is_reported_and_left_alone() -> None:
    world = quiet_world()
    _, grant = granted(world)
    world.repository.edit_comment(1, grant.claim_id, posts(world)[0].replace("ann", "bob"))
    before = len(world.repository.journal)
    [report] = world.time.play(sweep_of(world).run())
    assert report.disputed == [1]
    assert len(world.repository.journal) == before


def test_one_issue_that_cannot_be_read_does_not_keep_the_others_from_being_swept() -> None:
    world = quiet_world(issues=2)
    claims, who = claimant(world, "ann")
    world.time.play(claims.claim(2, who))
    sweep = sweep_of(world)
    direct(sweep.claims, before_comments=on(1, lambda: fail(TrackerError("unreadable"))(1)))
    [report] = world.time.play(sweep.run())
    assert report.errors == {1: "unreadable"}
    assert [one.number for one in report.findings] == [2, 2]


def test_an_issue_that_is_gone_is_passed_over() -> None:
    world = quiet_world()
    [report] = world.time.play(sweep_of(world).run(also=[99]))
    assert report.errors == {}


def test_what_a_crash_left_without_a_label_is_found_by_the_sticky_one() -> None:
    world = quiet_world()
    granted(world)
    world.repository.remove_label(1, LABELS.in_flight, "crash")
    swept(world, sweep_of(world))
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.ready}


def test_labels_that_were_edited_by_hand_are_put_right() -> None:
    world = quiet_world()
    _, grant = granted(world)
    world.fleets[0].ledger.take(1, grant.claimant.firing_id)
    world.repository.remove_label(1, LABELS.in_flight, "person")
    world.repository.add_labels(1, [LABELS.done, LABELS.ready], OPERATOR, "person")
    assert swept(world, sweep_of(world, 1)) == [Deed.RELABELLED]
    assert labels_of(world) == WORKED_ON


def test_stale_labels_do_not_keep_anything_from_being_found() -> None:
    world = quiet_world(faults=Faults(lag=10.0))
    granted(world)
    assert swept(world, sweep_of(world))[0] is Deed.RELEASED
