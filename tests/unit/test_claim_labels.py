"""`claim_mode: labels`: a plain swap, for a single fleet whose ledger decides."""

from typing import Any

import pytest

from rota.claims.labels import LabelSet
from rota.claims.pickup import Obstacle
from rota.claims.plain import LabelClaims
from rota.claims.protocol import Claimant, Grant, Look, Refusal
from rota.model.errors import AnswerUnknown
from rota.testing.simulation.stories import World
from rota.testing.simulation.tracker import SimulatedTracker
from tests.unit.claim_scene import BOT, OPERATOR, STRANGER, labels_of, posts, quiet_world

LABELS = LabelSet(ready="ready", in_flight="agent-working", failed="agent-failed")
ANN = Claimant("f0", "ann", "x1", "n")


def scene(tracker: type[SimulatedTracker] = SimulatedTracker) -> tuple[World, LabelClaims]:
    world = quiet_world()
    world.repository.open_issue(1, "bug", LABELS.ready)
    pace = world.time.pace(world.random)
    claims = LabelClaims(tracker(world.repository, BOT, "ann"), LABELS, world.setting.times, pace)
    return world, claims


def granted(world: World, claims: LabelClaims) -> Grant:
    [grant] = world.time.play(claims.claim(1, ANN))
    assert isinstance(grant, Grant)
    return grant


def test_a_claim_swaps_the_labels_and_says_nothing() -> None:
    world, claims = scene()
    grant = granted(world, claims)
    assert labels_of(world) == {"bug", LABELS.in_flight}
    assert posts(world) == []
    assert [one.what for one in world.repository.journal] == ["label", "unlabel"]
    assert grant.deadline == world.setting.times.trust_in_a_poll


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ([LABELS.in_flight], Obstacle.CLAIMED),
        ([LABELS.ready, LABELS.in_flight.upper()], Obstacle.CLAIMED),
        ([LABELS.ready, LABELS.hold], Obstacle.HELD),
        ([], Obstacle.NOT_READY),
    ],
    ids=str,
)
def test_what_is_not_ready_is_refused(labels: list[str], why: Obstacle) -> None:
    world, claims = scene()
    world.repository.open_issue(1, *labels)
    [refused] = world.time.play(claims.claim(1, ANN))
    assert isinstance(refused, Refusal)
    assert refused.obstacle is why
    assert world.repository.journal == []


def test_two_fleets_may_both_win_which_is_why_this_is_not_the_default() -> None:
    world, ann = scene()
    _, bob = ann, LabelClaims(ann.tracker, LABELS, ann.times, ann.pace)
    answers = world.time.play(ann.claim(1, ANN), bob.claim(1, ANN))
    assert all(isinstance(one, Grant) for one in answers)


@pytest.mark.parametrize("happens", ["nothing", "hold", "close", "unlabel"])
def test_a_look_sees_what_the_labels_say(happens: str) -> None:
    world, claims = scene()
    grant = granted(world, claims)
    repository = world.repository
    {
        "nothing": lambda: None,
        "hold": lambda: repository.add_labels(1, [LABELS.hold], OPERATOR, "p"),
        "close": lambda: repository.set_open(1, False, "p"),
        "unlabel": lambda: repository.remove_label(1, LABELS.in_flight, "p"),
    }[happens]()
    [seen] = world.time.play(claims.look(grant))
    assert isinstance(seen, Look)
    assert (seen.lost is None) is (happens == "nothing")


@pytest.mark.parametrize(
    ("outcome", "park", "label"),
    [
        ("released", False, LABELS.ready),
        ("failure", False, LABELS.failed),
        ("partial", False, LABELS.failed),
        ("released", True, None),
    ],
)
def test_the_label_says_how_it_was_given_back(outcome: str, park: bool, label: str | None) -> None:
    world, claims = scene()
    grant = granted(world, claims)
    assert world.time.play(claims.release(grant, outcome, "Sorry.", park=park)) == [True]
    assert labels_of(world) == {"bug", *([label] if label else [])}
    [said] = world.repository.comments[1]
    assert said.comment.body.endswith("\nSorry.")


@pytest.mark.parametrize(("pr", "label"), [("u", LABELS.pr_open), (None, None)])
def test_an_end_takes_the_label_off(pr: str | None, label: str | None) -> None:
    world, claims = scene()
    grant = granted(world, claims)
    assert world.time.play(claims.finish(grant, pr, "Done.")) == [True]
    assert labels_of(world) == {"bug", *([label] if label else [])}


def test_what_nobody_holds_cannot_be_ended() -> None:
    world, claims = scene()
    grant = granted(world, claims)
    world.repository.remove_label(1, LABELS.in_flight, "person")
    assert world.time.play(claims.finish(grant, "u", "Done.")) == [False]
    assert posts(world) == []


def test_an_end_said_again_is_told_once() -> None:
    world, claims = scene()
    grant = granted(world, claims)
    assert world.time.play(claims.finish(grant, "u", "Done.")) == [True]
    assert world.time.play(claims.finish(grant, "u", "Done.")) == [True]
    assert len(posts(world)) == 1


def test_a_stranger_cannot_tell_our_end_for_us() -> None:
    world, claims = scene()
    grant = granted(world, claims)
    note = "<!-- rota-report firing_id=x1 outcome=done -->"
    world.repository.post(1, STRANGER, note, "mallory")
    world.repository.remove_label(1, LABELS.in_flight, "person")
    assert world.time.play(claims.finish(grant, "u", "Done.")) == [False]


class Losing(SimulatedTracker):
    __slots__ = ()

    async def comment(self, number: int, body: str) -> Any:
        await SimulatedTracker.comment(self, number, body)
        raise AnswerUnknown("no answer")


class Silent(SimulatedTracker):
    __slots__ = ()

    async def comment(self, number: int, body: str) -> Any:
        raise AnswerUnknown("no answer")


def test_a_report_whose_answer_was_lost_is_not_repeated() -> None:
    world, claims = scene(Losing)
    grant = granted(world, claims)
    assert world.time.play(claims.finish(grant, "u", "Done.")) == [True]
    assert len(posts(world)) == 1


def test_a_report_that_cannot_be_made_is_an_error() -> None:
    world, claims = scene(Silent)
    grant = granted(world, claims)
    [error] = world.time.play(claims.finish(grant, "u", "Done."))
    assert isinstance(error, AnswerUnknown)
    assert LABELS.in_flight in labels_of(world)


def test_how_it_stands_is_what_the_labels_say() -> None:
    world, claims = scene()
    [free] = world.time.play(claims.standing(1))
    assert free.is_free
    granted(world, claims)
    [held] = world.time.play(claims.standing(1))
    assert held.holder is not None
