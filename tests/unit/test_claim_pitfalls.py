"""What breaks claims made of labels and stamps, each by its name; none of it breaks these.

Every scene can be played with parts that lack a guard: `test_claim_mutations` does.
"""

from collections.abc import Coroutine
from typing import Any

import pytest

from rota.claims.comments import OPERATOR_FLEET, Kind
from rota.claims.labels import LabelSet
from rota.claims.pickup import Asker, Obstacle
from rota.claims.protocol import Claimant, CommentClaims, Grant, Refusal
from rota.claims.timing import Times
from rota.model.errors import TrackerError
from rota.testing.simulation.chance import Mishaps
from rota.testing.simulation.referee import Role
from rota.testing.simulation.stories import Parts, Setting, World
from rota.testing.simulation.time import Fates
from rota.testing.simulation.tracker import Faults
from tests.unit.claim_scene import (
    BOT,
    OPERATOR,
    OTHER_BOT,
    STRANGER,
    claimant,
    direct,
    fail,
    hide_young,
    kinds,
    labels_of,
    on,
    post,
    quiet_world,
)

LABELS = LabelSet()
AT_ONCE = Times(settle_jitter=0.0, quiet=600.0)

Story = Coroutine[Any, Any, Any]


@pytest.fixture
def parts() -> Parts:
    """With every guard."""
    return Parts()


def later(world: World, seconds: float, story: Story) -> Story:
    async def wait() -> Any:
        await world.time.sleep(seconds)
        return await story

    return wait()


def two(world: World) -> tuple[CommentClaims, Claimant, CommentClaims, Claimant]:
    return *claimant(world, "ann"), *claimant(world, "bob", world.fleets[1])


def winners(*answers: Any) -> list[str]:
    return [one.claimant.codename for one in answers if isinstance(one, Grant)]


def grant_to(world: World, name: str = "ann", fleet: int = 0) -> tuple[CommentClaims, Grant]:
    claims, who = claimant(world, name, world.fleets[fleet])
    [grant] = world.time.play(claims.claim(1, who))
    assert isinstance(grant, Grant)
    return claims, grant


def expire(world: World, grant: Grant) -> None:
    """The holder was silent, was asked, and did not answer."""
    suspect = post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    world.time.now += world.setting.times.grace
    post(world, Kind.EXPIRE, OTHER_BOT, claim=grant.claim_id, suspect=suspect.id)
    world.repository.add_labels(1, [LABELS.ready], OTHER_BOT, "sweep")
    world.repository.remove_label(1, LABELS.in_flight, "sweep")


# ties and stamps


def test_of_claims_in_the_same_second_exactly_one_wins(parts: Parts) -> None:
    """By stamps both win, or all yield."""
    world = quiet_world(parts=parts, fleets=3, times=AT_ONCE)
    stories = []
    for fleet in world.fleets:
        claims, who = claimant(world, f"of-{fleet.name}", fleet)
        stories.append(claims.claim(1, who))
    answers = world.time.play(*stories)
    assert winners(*answers) == ["of-f0"]
    assert len({entry.created_at for entry in world.truth(1)}) == 1
    assert kinds(world) == ["claim"] * 3


def test_stamps_that_contradict_the_order_of_ids_do_not_decide(parts: Parts) -> None:
    """Ann came first, but her stamp is later; when she looks, Bob cannot be seen yet."""
    world = quiet_world(parts=parts, times=AT_ONCE)
    stamps = iter([1, 0])
    world.repository.skew = lambda: next(stamps, 0)
    ann, first, bob, second = two(world)
    direct(ann, hides=hide_young(world, AT_ONCE.settle))
    direct(bob, hides=hide_young(world, AT_ONCE.settle))
    answers = world.time.play(ann.claim(1, first), later(world, 0.9, bob.claim(1, second)))
    early, late = (entry.created_at for entry in world.truth(1))
    assert early > late
    assert winners(*answers) == ["ann"]


# what a read does not show


def test_a_log_without_our_own_comment_is_no_answer(parts: Parts) -> None:
    """The tracker is far slower than it should be: nothing younger than 25 s is shown."""
    world = quiet_world(parts=parts, times=AT_ONCE)
    ann, first, bob, second = two(world)
    direct(ann, hides=hide_young(world, 25.0))
    direct(bob, hides=hide_young(world, 25.0))
    answers = world.time.play(ann.claim(1, first), later(world, 0.5, bob.claim(1, second)))
    assert winners(*answers) == ["ann"]


def test_a_lower_id_that_becomes_visible_late_still_wins(parts: Parts) -> None:
    world = quiet_world(parts=parts, times=AT_ONCE)
    ann, first, bob, second = two(world)
    hidden = hide_young(world, AT_ONCE.settle)
    direct(bob, hides=lambda one: "codename=ann" in one.body and hidden(one))
    answers = world.time.play(ann.claim(1, first), bob.claim(1, second))
    assert winners(*answers) == ["ann"]


def test_a_claim_on_the_first_of_many_pages_counts(parts: Parts) -> None:
    world = quiet_world(parts=parts)
    _, grant = grant_to(world)
    for number in range(250):
        world.repository.post(1, STRANGER, f"me too {number}", "crowd")
    bob, who = claimant(world, "bob", world.fleets[1])
    [refused] = world.time.play(bob.claim(1, who))
    assert refused.obstacle is Obstacle.CLAIMED
    post(world, Kind.RELEASE, BOT, claim=grant.claim_id)
    assert world.truth(1)[-1].kind is Kind.RELEASE


def test_a_failed_read_is_not_taken_for_free(parts: Parts) -> None:
    world = quiet_world(parts=parts)
    ann, first, bob, second = two(world)
    unreadable = fail(TrackerError("the tracker cannot be read"))
    direct(bob, before_comments=lambda call: unreadable(call) if call > 1 else None)
    answers = world.time.play(ann.claim(1, first), bob.claim(1, second))
    assert winners(*answers) == ["ann"]
    assert isinstance(answers[1], Refusal)


# labels


def test_the_loser_leaves_the_winners_label_alone(parts: Parts) -> None:
    world = quiet_world(parts=parts)
    ann, first, bob, second = two(world)
    world.time.play(ann.claim(1, first), bob.claim(1, second))
    assert labels_of(world) == {"bug", LABELS.in_flight, LABELS.managed}
    assert all(one.by != "bob" for one in world.repository.journal if one.what != "comment")


@pytest.mark.parametrize("fates", [Fates(death=0.5), Fates(freeze=0.5)], ids=["death", "freeze"])
def test_a_crash_anywhere_leaves_nothing_stuck_unlabelled_or_haunted(
    fates: Fates, parts: Parts
) -> None:
    """Whoever dies between two calls: labels without a claim, a claim without labels, neither."""
    number, grants = 1, 0
    while True:
        chance = Mishaps(number)
        setting = Setting(agents=1, skew=0, seconds=100, faults=Faults(), fates=fates, parts=parts)
        world = World(setting, chance)
        world.populate()
        world.rest()
        grants += world.referee.grants
        if chance.passed < number:
            break
        number += 1
    assert number > 50
    assert grants > 50


# the sweep


def test_the_sweep_does_not_release_a_claim_that_is_just_being_made(parts: Parts) -> None:
    world = quiet_world(parts=parts)
    sweep = world.sweep(world.fleets[0], "sweep")
    fields = {"fleet": "f0", "codename": "ann", "firing_id": "x", "nonce": "n"}

    def ann() -> None:
        assert world.fleets[0].ledger.take(1, "x")
        post(world, Kind.CLAIM, BOT, **fields)

    direct(sweep.claims, before_comments=on(1, ann))
    world.time.play(sweep.run())
    assert kinds(world) == ["claim"]


def test_the_sweep_does_not_end_a_claim_whose_holder_answers(parts: Parts) -> None:
    """Suspected again and again, it answers every time; nobody else comes to work."""
    world = quiet_world(parts=parts, times=Times(quiet=30.0, poll=20.0))
    ann = world.agent(world.fleets[0], "ann")
    ann.longest_work = 2000.0
    bob = world.agent(world.fleets[1], "bob")
    world.time.spawn("ann", ann.attempt(1))
    for at in range(60):
        world.time.spawn(f"sweep{at}", later(world, 20.0 * at, _sweep(world)))
        world.time.spawn(f"bob{at}", later(world, 20.0 * at + 5, bob.attempt(1)))
    world.time.run()
    assert "alive" in kinds(world)
    given_back = next(one.at for one in world.repository.journal if "agent-release" in one.text)
    assert given_back > 1000  # it came to the end of its work


async def _sweep(world: World) -> None:
    await world.sweep(world.fleets[1], "sweep").run()


def test_the_sweep_does_not_reopen_an_issue_whose_pull_request_just_opened(
    parts: Parts,
) -> None:
    """The end cannot be seen yet, and its run has no lease any more."""
    world = quiet_world(parts=parts)
    _, grant = grant_to(world)
    done = post(world, Kind.DONE, BOT, claim=grant.claim_id, pr="u")
    sweep = world.sweep(world.fleets[0], "sweep")
    settled = world.time.now + world.setting.times.settle
    direct(sweep.claims, hides=lambda one: one.id == done.id and world.time.now < settled)
    world.time.play(sweep.run())
    assert labels_of(world) == {"bug", LABELS.managed, LABELS.pr_open}
    bob, who = claimant(world, "bob", world.fleets[1])
    [refused] = world.time.play(bob.claim(1, who))
    assert refused.obstacle is Obstacle.PR_OPEN


def test_fleets_that_wait_differently_long_see_the_same_holder(parts: Parts) -> None:
    """One that would give up on a claim sooner must not do so alone."""
    world = quiet_world(parts=parts)
    ann, grant = grant_to(world)
    world.referee.begins("ann", 1, grant.deadline)
    bob = world.agent(world.fleets[1], "bob")
    bob.claims.log.times = Times(grace=60.0, quiet=30.0)
    sweep = world.sweep(world.fleets[1], "sweep")
    sweep.claims.log.times = bob.claims.log.times
    for _ in range(5):
        world.time.now += 40.0
        world.time.play(sweep.run())
        world.time.play(bob.attempt(1))
    assert kinds(world) == ["claim", "suspect"]
    [seen] = world.time.play(ann.look(grant))
    assert seen.lost is None


# people


def test_an_operator_and_an_agent_do_not_both_work(parts: Parts) -> None:
    world = quiet_world(parts=parts)
    ann, first = claimant(world, "ann")
    ada = world.claims("ada", OPERATOR, Role.PERSON)
    person = Claimant(OPERATOR_FLEET, "owner", "x", "n")
    asker = Asker(login="owner", needs_ready=False)
    answers = world.time.play(ada.claim(1, person, asker=asker), ann.claim(1, first))
    assert winners(*answers) == ["owner"]
    [again] = world.time.play(ann.claim(1, first))
    assert again.obstacle is Obstacle.CLAIMED


def test_who_comes_after_a_revocation_does_not_work_beside_the_revoked(
    parts: Parts,
) -> None:
    """The revoked agent learns it at its next look, or cannot look and stops at its deadline."""
    world = quiet_world(parts=parts)
    ann, grant = grant_to(world)
    world.referee.begins("ann", 1, grant.deadline)  # and is not seen to look again
    post(world, Kind.REVOKE, OPERATOR, claim=grant.claim_id, by="owner")
    world.repository.add_labels(1, [LABELS.ready], OPERATOR, "owner")
    world.repository.remove_label(1, LABELS.in_flight, "owner")
    bob = world.agent(world.fleets[1], "bob")
    world.time.play(bob.attempt(1))
    assert world.referee.grants == 2
    assert ann.times.grace > grant.deadline - world.setting.times.settle


# forgeries and the past


@pytest.mark.parametrize("kind", Kind)
def test_a_forged_entry_by_an_outsider_is_not_believed(kind: Kind, parts: Parts) -> None:
    world = quiet_world(parts=parts)
    forged = {"fleet": "f0", "codename": "mallory", "firing_id": "x", "nonce": "n"}
    post(world, Kind.CLAIM, STRANGER, **forged)
    ann, grant = grant_to(world)
    suspect = post(world, Kind.SUSPECT, OTHER_BOT, claim=grant.claim_id)
    world.time.now += world.setting.times.grace
    about = forged if kind is Kind.CLAIM else {"claim": grant.claim_id, "suspect": suspect.id}
    post(world, kind, STRANGER, **about)
    [standing] = world.time.play(ann.standing(1))
    assert standing.holder.id == grant.claim_id
    assert [one.id for one in standing.suspects] == [suspect.id]
    assert standing.done is None


def test_a_late_release_by_a_frozen_former_owner_changes_nothing(parts: Parts) -> None:
    """It has read the log, stands still until all is lost and won again, and goes on."""
    world = quiet_world(parts=parts)
    ann, grant = grant_to(world)
    bobs: list[Grant] = []

    def meanwhile() -> None:
        expire(world, grant)
        world.repository.add_labels(1, [LABELS.in_flight], OTHER_BOT, "bob")
        world.repository.remove_label(1, LABELS.ready, "bob")
        fields = {"fleet": "f1", "codename": "bob", "firing_id": "x", "nonce": "bob"}
        made = post(world, Kind.CLAIM, OTHER_BOT, **fields)
        bobs.append(Grant(1, made.id, Claimant("f1", "bob", "x", "bob")))

    direct(ann, after_comments=on(1, meanwhile))
    assert world.time.play(ann.release(grant, "gave-up")) == [False]
    assert kinds(world)[-1] == "release"
    bob = world.claims("bob", OTHER_BOT, Role.AGENT)
    [seen] = world.time.play(bob.look(bobs[0]))
    assert seen.lost is None
    assert labels_of(world) == {"bug", LABELS.in_flight, LABELS.managed}


def test_a_late_end_by_a_frozen_former_owner_is_refused(parts: Parts) -> None:
    world = quiet_world(parts=parts)
    ann, grant = grant_to(world)
    direct(ann, after_comments=on(1, lambda: expire(world, grant)))
    assert world.time.play(ann.finish(grant, "u")) == [False]
    assert labels_of(world) == {"bug", LABELS.ready, LABELS.managed}
