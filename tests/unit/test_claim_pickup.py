"""The one predicate: may this issue be picked up, by whom, and why not."""

from dataclasses import replace
from typing import Any

import pytest

from rota.claims.comments import OPERATOR_FLEET, Entry, Kind
from rota.claims.fold import Standing, fold
from rota.claims.labels import LIFECYCLE_LABELS, LabelSet
from rota.claims.pickup import AN_AGENT, Asker, Obstacle, objection, stage
from tests.unit.claim_scene import GRACE, about, claim, issue

LABELS = LabelSet()
READY, IN_FLIGHT = LABELS.ready, LABELS.in_flight

PERSON = Asker(login="ada", needs_ready=False)
ADAS = claim(5, codename="ada", fleet=OPERATOR_FLEET)


def log(*entries: Entry) -> Standing:
    return fold(entries, GRACE)


CLAIMED = log(claim(5))
DONE = log(claim(5), about(Kind.DONE, 6, of=5, pr="https://x/pulls/1"))
DISPUTED = log(claim(5, edited=True))


@pytest.mark.parametrize(
    ("labels", "changes", "told", "why"),
    [
        ([READY], {}, {}, None),
        ([READY, "bug"], {}, {}, None),
        ([READY.upper()], {}, {}, None),
        ([READY], {}, {"standing": log()}, None),
        ([], {}, {}, Obstacle.NOT_READY),
        (["bug"], {}, {}, Obstacle.NOT_READY),
        ([IN_FLIGHT], {}, {}, Obstacle.CLAIMED),
        ([LABELS.pr_open], {}, {}, Obstacle.PR_OPEN),
        ([LABELS.done], {}, {}, Obstacle.DONE),
        ([LABELS.failed], {}, {}, Obstacle.FAILED),
        # where several lifecycle labels stand, the furthest in life counts
        ([READY, IN_FLIGHT], {}, {}, Obstacle.CLAIMED),
        ([READY, IN_FLIGHT, LABELS.pr_open], {}, {}, Obstacle.PR_OPEN),
        ([READY, LABELS.pr_open, LABELS.done], {}, {}, Obstacle.DONE),
        ([READY, LABELS.failed], {}, {}, Obstacle.FAILED),
        # holds
        ([READY, LABELS.hold], {}, {}, Obstacle.HELD),
        ([READY, "Do-Not-Pickup"], {}, {}, Obstacle.HELD),
        ([READY, "needs:human-scope"], {}, {}, Obstacle.HELD),
        # the issue itself
        ([READY], {"is_open": False}, {}, Obstacle.CLOSED),
        ([READY], {"is_pull_request": True}, {}, Obstacle.PULL_REQUEST),
        ([READY], {"open_blockers": 1}, {}, Obstacle.WAITS),
        ([READY], {}, {"paused": True}, Obstacle.REPO_PAUSED),
        ([READY], {}, {"distrust": "its author is a stranger"}, Obstacle.UNTRUSTED),
        # the log
        ([READY], {}, {"standing": CLAIMED}, Obstacle.CLAIMED),
        ([READY], {}, {"standing": DONE}, Obstacle.PR_OPEN),
        ([READY], {}, {"standing": DISPUTED}, Obstacle.DISPUTED),
        ([READY], {}, {"standing": log(claim(5), about(Kind.RELEASE, 6, of=5))}, None),
        ([READY], {}, {"standing": log(claim(5), about(Kind.REVOKE, 6, of=5))}, None),
    ],
    ids=str,
)
def test_an_agent_picks_up_what_is_ready_and_nothing_else(
    labels: list[str], changes: dict[str, Any], told: dict[str, Any], why: Obstacle | None
) -> None:
    found = objection(issue(*labels, **changes), LABELS, **told)
    assert (found.obstacle if found else None) is why


@pytest.mark.parametrize(
    ("label", "advice"),
    [
        (IN_FLIGHT, "correct it if nobody has a claim: rota issue sweep"),
        (LABELS.pr_open, "take it off if no pull request"),
        (LABELS.done, "take it off"),
        (LABELS.failed, f"put the label '{READY}' on"),
    ],
)
def test_of_a_label_it_is_told_what_to_do_about_it(label: str, advice: str) -> None:
    found = objection(issue(label), LABELS)
    assert found is not None
    assert str(found).startswith(f"it carries the label '{label}'; {advice}")


@pytest.mark.parametrize(
    ("asker", "labels", "standing", "why"),
    [
        # the holder of a claim is exempt from its own block
        (Asker(claim_id=5), [IN_FLIGHT], CLAIMED, None),
        (Asker(claim_id=5), [READY], CLAIMED, None),
        (Asker(claim_id=5), [], CLAIMED, None),
        (Asker(claim_id=6), [IN_FLIGHT], CLAIMED, Obstacle.CLAIMED),
        (Asker(claim_id=5), [IN_FLIGHT, LABELS.hold], CLAIMED, Obstacle.HELD),
        (Asker(claim_id=5), [IN_FLIGHT], DISPUTED, Obstacle.DISPUTED),
        # a person may take what nobody has marked
        (PERSON, [], log(), None),
        (PERSON, [READY], log(), None),
        (PERSON, [IN_FLIGHT], log(), Obstacle.CLAIMED),
        (PERSON, [], CLAIMED, Obstacle.CLAIMED),
        (PERSON, [], DONE, Obstacle.PR_OPEN),
        # the operator who holds an issue is exempt from his own block
        (PERSON, [IN_FLIGHT, LABELS.hold], log(ADAS), None),
        (Asker(login="bob", needs_ready=False), [LABELS.hold], log(ADAS), Obstacle.HELD),
        (Asker(login="bob", needs_ready=False), [], log(ADAS), Obstacle.CLAIMED),
        # an agent that is called like a person is not that person
        (PERSON, [], log(claim(5, codename="ada")), Obstacle.CLAIMED),
    ],
    ids=str,
)
def test_nobody_stands_in_his_own_way(
    asker: Asker, labels: list[str], standing: Standing, why: Obstacle | None
) -> None:
    found = objection(issue(*labels), LABELS, standing=standing, asker=asker)
    assert (found.obstacle if found else None) is why


def test_a_closed_issue_stays_closed_for_its_holder_too() -> None:
    shut = issue(IN_FLIGHT, is_open=False)
    found = objection(shut, LABELS, standing=CLAIMED, asker=Asker(claim_id=5))
    assert found is not None
    assert found.obstacle is Obstacle.CLOSED


def test_without_the_log_only_labels_are_looked_at() -> None:
    assert objection(issue(READY), LABELS, standing=None) is None


def test_every_objection_says_why_and_most_say_what_to_do() -> None:
    found = objection(issue(READY, "needs:human-scope"), LABELS)
    assert str(found) == "the label 'needs:human-scope' keeps agents away; take the label off"
    trust = objection(issue(READY), LABELS, distrust="the author is a stranger")
    assert str(trust) == "the author is a stranger"


def test_a_fleet_may_call_its_labels_otherwise() -> None:
    own = LabelSet(ready="ready", in_flight="agent-working", excluded=("blocked", "wip"))
    assert objection(issue("ready"), own) is None
    assert objection(issue(READY), own) is not None
    blocked = objection(issue("ready", "WIP"), own)
    assert blocked is not None
    assert blocked.obstacle is Obstacle.HELD
    working = objection(issue("ready", "Agent-Working"), own)
    assert working is not None
    assert working.obstacle is Obstacle.CLAIMED


def test_the_stage_is_the_furthest_label_in_life() -> None:
    assert stage(issue(), LABELS) is None
    for at, name in enumerate(LABELS.lifecycle):
        assert stage(issue(*LABELS.lifecycle[at:][::-1]), LABELS) == name


def test_the_public_list_of_labels_is_the_default_set_in_order_of_life() -> None:
    names = [name for name, _colour, _meaning in LIFECYCLE_LABELS]
    assert names == [LABELS.ready, LABELS.in_flight, LABELS.pr_open, LABELS.done]
    assert all(len(colour) == 6 and meaning for _name, colour, meaning in LIFECYCLE_LABELS)


def test_by_default_an_agent_asks() -> None:
    assert Asker() == AN_AGENT
    assert replace(AN_AGENT, claim_id=5).holds(claim(5))
    assert not AN_AGENT.holds(claim(5))
