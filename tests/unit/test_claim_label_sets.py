"""Agents that work one repository by labels of their own."""

from dataclasses import replace

import pytest

from rota.claims.comments import Kind
from rota.claims.fold import fold
from rota.claims.labels import LabelSet
from rota.claims.pickup import Obstacle, objection
from rota.claims.projection import repair
from tests.unit.claim_scene import GRACE, about, claim, issue

CODER = LabelSet(ready="ready", in_flight="coding")
POET = LabelSet(ready="poem", in_flight="writing", excluded=("prose",))
BOTH = replace(CODER, of_agents=(("coder", CODER), ("poet", POET)))
POETS = claim(5, codename="poet")
RELEASED = about(Kind.RELEASE, 6, of=5, codename="poet", outcome="released")


@pytest.mark.parametrize(
    ("carried", "holder", "last", "found"),
    [
        ([], None, None, CODER),
        (["POEM"], None, None, POET),
        (["writing"], None, None, POET),
        (["ready", "poem"], None, None, CODER),
        (["ready"], "poet", "poet", POET),
        ([], None, "poet", POET),
        (["agent:failed"], None, "poet", POET),
        # a person has handed it over
        (["ready"], None, "poet", CODER),
        (["poem"], None, "coder", POET),
        # people, and agents of another fleet
        (["writing"], "ada", "ada", POET),
        ([], None, "lucius", CODER),
    ],
)
def test_the_labels_are_those_of_the_holder_or_as_the_issue_says(
    carried: list[str], holder: str | None, last: str | None, found: LabelSet
) -> None:
    assert BOTH.of(carried, holder=holder, last=last) == found


def test_an_agent_may_have_several_by_its_schedules() -> None:
    odes = replace(POET, ready="ode", in_flight="rhyming")
    labels = replace(CODER, of_agents=(("poet", POET), ("poet", odes)))
    assert labels.of(["rhyming"], holder="poet") == odes
    assert labels.of(["writing"], holder="poet") == POET
    assert labels.of([], holder="poet") == POET


def test_where_all_agents_have_the_same_there_is_one_set() -> None:
    assert CODER.of(["poem"], holder="poet") is CODER
    assert CODER.all_ready == ("ready",)
    assert CODER.all_lifecycle == CODER.lifecycle


def test_labels_of_all_agents_are_looked_for_each_once() -> None:
    assert BOTH.all_ready == ("ready", "poem")
    assert BOTH.all_lifecycle == (*CODER.lifecycle, "writing", "poem")


@pytest.mark.parametrize(
    ("carried", "log", "add", "remove"),
    [
        # given back: to the agent that had it
        (["writing"], [POETS, RELEASED], ["poem"], ["writing"]),
        (["agent:managed"], [POETS, RELEASED], ["poem"], []),
        (["writing"], [POETS, about(Kind.REVOKE, 6, of=5)], ["poem"], ["writing"]),
        # handed over by a person
        (["ready"], [POETS, RELEASED], [], []),
        # meant for both
        (["ready", "poem"], [], [], []),
        (["ready", "poem"], [POETS, RELEASED], [], []),
        # held: no other label stands
        (["ready", "poem"], [POETS], ["writing"], ["ready", "poem"]),
        (["coding"], [POETS], ["writing"], ["coding"]),
        # done
        (["writing"], [POETS, about(Kind.DONE, 6, of=5)], ["agent:pr-open"], ["writing"]),
        # never claimed
        (["writing"], [], ["poem"], ["writing"]),
        (["coding"], [], ["ready"], ["coding"]),
    ],
    ids=str,
)
def test_labels_are_repaired_in_the_words_of_the_agent(
    carried: list[str],
    log: list,
    add: list[str],
    remove: list[str],  # type: ignore[type-arg]
) -> None:
    change = repair(fold(log, GRACE), issue(*carried), BOTH)
    assert ([one for one in change.add if one != "agent:managed"], [*change.remove]) == (
        add,
        remove,
    )


@pytest.mark.parametrize(
    ("carried", "why"),
    [
        (["poem"], None),
        (["ready"], None),
        (["poem", "prose"], Obstacle.HELD),
        (["ready", "prose"], None),
        (["writing"], Obstacle.CLAIMED),
        (["bug"], Obstacle.NOT_READY),
    ],
)
def test_what_is_ready_for_one_of_them_may_be_picked_up(
    carried: list[str], why: Obstacle | None
) -> None:
    found = objection(issue(*carried), BOTH)
    assert (found.obstacle if found else None) is why
