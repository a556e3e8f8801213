"""The simulation itself: what its time, its tracker and its referee promise."""

from typing import Any

import pytest

from rota.claims.comments import Kind
from rota.claims.labels import LabelSet
from rota.claims.port import Tracker
from rota.model.errors import AnswerUnknown, IssueNotFound, TrackerError
from rota.testing.simulation.chance import Mishaps, Path, Seeded
from rota.testing.simulation.referee import Role, Violation
from rota.testing.simulation.time import Fates, VirtualTime, at_once
from rota.testing.simulation.tracker import Faults, SimulatedTracker
from tests.unit.claim_scene import BOT, claimant, post, quiet_world

LABELS = LabelSet()


def tracker(faults: Faults, chance: Any = None) -> SimulatedTracker:
    world = quiet_world()
    world.time.chance = chance or Mishaps()
    return SimulatedTracker(world.repository, BOT, "test", faults)


def play(of: SimulatedTracker, *stories: Any) -> list[Any]:
    return of.repository.time.play(*stories)


# time


def test_who_waits_less_runs_first_and_time_jumps() -> None:
    time = VirtualTime(Mishaps())
    heard: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await time.sleep(nap)
            heard.append((name, time.now))

    time.spawn("a", sleeper("a", 5, 5))
    time.spawn("b", sleeper("b", 7, 100_000))
    time.run()
    assert heard == [("a", 5), ("b", 7), ("a", 10), ("b", 100_007)]


def test_who_waits_for_the_same_moment_takes_turns_or_as_chance_will() -> None:
    def order(chance: Any) -> str:
        time, heard = VirtualTime(chance), []

        async def step(name: str) -> None:
            for _ in range(2):
                await time.sleep(0)
                heard.append(name)

        for name in "ab":
            time.spawn(name, step(name))
        time.run()
        return "".join(heard)

    assert order(Mishaps()) == "abab"
    assert len({order(Path((0, one, two), 3)) for one in (0, 1) for two in (0, 1)}) > 1


def test_the_dead_do_not_act_and_the_frozen_act_late() -> None:
    for fates, heard_at in ((Fates(death=0.5), None), (Fates(freeze=0.5), 1005.5)):
        time, heard = VirtualTime(Mishaps(2), fates), []

        async def speak(time: VirtualTime = time, heard: list[float] = heard) -> None:
            await time.sleep(5)
            heard.append(time.now)

        time.spawn("mortal", speak(), mortal=True)
        time.run()
        assert heard == ([heard_at] if heard_at else [])
        assert time.dead == ([] if heard_at else ["mortal"])


def test_an_error_of_ours_is_a_result_and_any_other_ends_the_story() -> None:
    time = VirtualTime(Mishaps())

    async def fails(error: Exception) -> None:
        raise error

    ours = TrackerError("x")
    assert time.play(fails(ours)) == [ours]
    with pytest.raises(ZeroDivisionError):
        time.play(fails(ZeroDivisionError()))


def test_what_has_to_wait_is_not_to_be_had_at_once() -> None:
    time = VirtualTime(Mishaps())
    with pytest.raises(AssertionError, match="waits"):
        at_once(time.sleep(1))


# the tracker


def test_it_is_a_tracker() -> None:
    checked: Tracker = tracker(Faults())
    assert checked.source == "simulated:o/r"


def test_a_young_comment_may_be_hidden_but_an_old_one_never_is() -> None:
    of = tracker(Faults(lag=10.0, hide=1.0))
    play(of, of.comment(1, "hello"))
    assert play(of, of.comments(1)) == [[]]
    of.repository.time.now += 10.0
    [[seen]] = play(of, of.comments(1))
    assert seen.body == "hello"


def test_each_young_comment_is_hidden_by_itself() -> None:
    of = tracker(Faults(lag=10.0, hide=0.5), Seeded(1))
    for number in range(20):
        of.repository.post(1, BOT, f"{number}", "test")
    [seen] = play(of, of.comments(1))
    ids = [one.id for one in seen]
    assert ids == sorted(ids)
    assert 0 < len(ids) < 20


def test_labels_are_seen_as_they_were_a_while_ago() -> None:
    of = tracker(Faults(lag=10.0, hide=1.0))
    of.repository.time.now = 100.0
    play(of, of.add_labels(1, [LABELS.in_flight]))
    [before] = play(of, of.issue(1))
    of.repository.time.now += 10.0
    [after] = play(of, of.issue(1))
    assert LABELS.in_flight not in before.labels
    assert LABELS.in_flight in after.labels


@pytest.mark.parametrize(
    ("faults", "error", "stands"),
    [
        (Faults(write_error=1.0), TrackerError, False),
        (Faults(lost_before=1.0), AnswerUnknown, False),
        (Faults(lost_after=1.0), AnswerUnknown, True),
    ],
    ids=str,
)
def test_answers_are_lost_before_or_after_the_effect(
    faults: Faults, error: type[Exception], stands: bool
) -> None:
    of = tracker(faults)
    for story in (
        of.comment(1, "x"),
        of.add_labels(1, ["x"]),
        of.create_ref("rota/claims/1/x", "m"),
    ):
        [failed] = play(of, story)
        assert type(failed) is error
    repository = of.repository
    assert bool(repository.comments[1]) is stands
    assert ("x" in repository.issue(1).labels) is stands
    assert bool(repository.refs) is stands


def test_a_late_post_lands_after_its_answer_was_given_up() -> None:
    of = tracker(Faults(late=1.0, latest=30.0))
    [failed] = play(of, of.comment(1, "x"))
    assert isinstance(failed, AnswerUnknown)
    [posted] = of.repository.comments[1]
    assert posted.at == 15.0


def test_a_post_may_stand_twice() -> None:
    of = tracker(Faults(twice=1.0))
    play(of, of.comment(1, "x"))
    first, second = of.repository.comments[1]
    assert first.comment.body == second.comment.body
    assert first.comment.id < second.comment.id


def test_a_reference_is_created_once() -> None:
    of = tracker(Faults())
    assert play(
        of, of.create_ref("rota/claims/1/a", "m"), of.create_ref("rota/claims/1/a", "n")
    ) == [
        True,
        False,
    ]
    [[ref]] = play(of, of.refs("rota/claims/1/"))
    assert (ref.name, ref.message) == ("refs/rota/claims/1/a", "m")


def test_an_issue_that_is_not_there_is_not_found() -> None:
    of = tracker(Faults())
    assert all(isinstance(one, IssueNotFound) for one in play(of, of.issue(9), of.comment(9, "x")))


# the referee


def test_two_at_work_are_seen_but_not_one_after_the_other() -> None:
    referee = quiet_world().referee
    referee.begins("a", 1, until=10.0)
    referee.begins("b", 2, until=10.0)
    referee.repository.time.now = 10.0
    referee.begins("b", 1, until=20.0)
    with pytest.raises(Violation, match="a works while b does"):
        referee.goes_on("a", 1, until=20.0)


def test_an_end_that_the_log_refuses_is_seen() -> None:
    world = quiet_world()
    made = post(world, Kind.CLAIM, BOT, codename="a")
    with pytest.raises(Violation, match="the log refuses it"):
        world.referee.finished("a", 1, made.id)


def test_a_loser_that_writes_labels_is_seen() -> None:
    world = quiet_world()
    post(world, Kind.CLAIM, BOT, codename="b", nonce="bob")
    claimant(world, "ann")
    post(world, Kind.CLAIM, BOT, codename="a", nonce="ann")
    with pytest.raises(Violation, match="never held it"):
        world.repository.add_labels(1, [LABELS.in_flight], BOT, "ann")


def test_a_label_that_is_not_ours_is_seen() -> None:
    world = quiet_world()
    world.referee.roles["sweep"] = Role.SWEEP
    with pytest.raises(Violation, match="touched the label bug"):
        world.repository.remove_label(1, "bug", "sweep")


def test_a_release_in_anothers_name_is_seen() -> None:
    world = quiet_world()
    made = post(world, Kind.CLAIM, BOT, codename="b", nonce="bob")
    claims, _ = claimant(world, "ann")
    with pytest.raises(Violation, match="not its own"):
        world.time.play(claims.log.append(1, Kind.RELEASE, claim=made.id))


def test_an_issue_left_in_the_hands_of_the_dead_is_seen() -> None:
    world = quiet_world()
    post(world, Kind.CLAIM, BOT, codename="b", nonce="bob")
    with pytest.raises(Violation, match="stuck"):
        world.referee.check_rest()
