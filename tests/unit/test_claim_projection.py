"""Which labels should stand, and how they come to."""

from itertools import combinations
from typing import Any

import pytest

from rota.claims.comments import Entry, Kind
from rota.claims.fold import fold
from rota.claims.labels import LabelSet
from rota.claims.port import Issue
from rota.claims.projection import PARKED, Repair, project, repair, wanted
from rota.testing.simulation.referee import Role
from tests.unit.claim_scene import BOT, GRACE, about, claim, entry, issue, quiet_world

LABELS = LabelSet()
READY, IN_FLIGHT, PR_OPEN, DONE, FAILED = (
    LABELS.ready,
    LABELS.in_flight,
    LABELS.pr_open,
    LABELS.done,
    LABELS.failed,
)
CLOSED = {"is_open": False}


def release(outcome: str, **fields: Any) -> list[Entry]:
    return [claim(5), about(Kind.RELEASE, 6, of=5, outcome=outcome, **fields)]


HELD = [claim(5)]
RELEASED = release("released")
GIVEN_BACK = RELEASED[1:]
FINISHED = [claim(5), about(Kind.DONE, 6, of=5, pr="u")]
REVOKED = [claim(5), about(Kind.REVOKE, 6, of=5)]
REOPENED = [*FINISHED, about(Kind.REVOKE, 7, of=5)]
EXPIRED = [
    claim(5),
    about(Kind.SUSPECT, 6, of=5),
    about(Kind.EXPIRE, 7, of=5, at=GRACE, suspect=6),
]
YIELDED_WITH_PR = [
    claim(5, v=None),
    entry(6, Kind.RELEASE, v=None, codename="a", firing_id="x5", outcome="success", pr="u"),
]


@pytest.mark.parametrize(
    ("log", "labels", "changes", "label"),
    [
        # nobody has claimed it: the labels are people's
        ([], [], {}, None),
        ([], ["bug"], {}, None),
        ([], [READY], {}, READY),
        ([], [PR_OPEN], {}, PR_OPEN),
        ([], [FAILED], {}, FAILED),
        ([], [READY, PR_OPEN], {}, PR_OPEN),
        ([], [IN_FLIGHT], {}, READY),  # a label without a claim: somebody died in between
        ([], [READY, IN_FLIGHT], {}, READY),
        # held
        (HELD, [READY], {}, IN_FLIGHT),
        (HELD, [PR_OPEN, DONE], {}, IN_FLIGHT),
        # done
        (FINISHED, [IN_FLIGHT], {}, PR_OPEN),
        (FINISHED, [READY], {}, PR_OPEN),
        (FINISHED, [PR_OPEN], CLOSED, DONE),
        (REOPENED, [PR_OPEN], {}, READY),
        # given back
        (release("gave-up"), [IN_FLIGHT], {}, READY),
        (release("failure"), [IN_FLIGHT], {}, FAILED),
        (release("partial"), [IN_FLIGHT], {}, FAILED),
        (release("attempts-exhausted"), [], {}, FAILED),
        (release("failure"), [FAILED, READY], {}, READY),  # a person wants it tried again
        (release(PARKED), [IN_FLIGHT], {}, None),
        (release(PARKED), [READY], {}, READY),
        # a person had it, who took it though it was not offered to agents
        ([claim(5, ready="no"), *GIVEN_BACK], [IN_FLIGHT], {}, None),
        ([claim(5, ready="no"), *GIVEN_BACK], [IN_FLIGHT, READY], {}, READY),
        ([claim(5, ready="no"), about(Kind.REVOKE, 6, of=5)], [IN_FLIGHT], {}, None),
        ([claim(3, ready="no"), about(Kind.REVOKE, 4, of=3), *RELEASED], [IN_FLIGHT], {}, READY),
        ([*RELEASED, claim(7, ready="no"), about(Kind.REVOKE, 8, of=7)], [IN_FLIGHT], {}, READY),
        (EXPIRED, [IN_FLIGHT], {}, READY),
        (REVOKED, [IN_FLIGHT], {}, READY),
        # `label-state` says with a release that there is a pull request
        (YIELDED_WITH_PR, [PR_OPEN], {}, PR_OPEN),
        (YIELDED_WITH_PR, [IN_FLIGHT], {}, PR_OPEN),
        (YIELDED_WITH_PR, [PR_OPEN, READY], {}, PR_OPEN),
        (YIELDED_WITH_PR, [READY], {}, READY),
        # closed
        ([], [READY], CLOSED, None),
        (HELD, [IN_FLIGHT], CLOSED, None),
        (release("failure"), [FAILED], CLOSED, None),
        ([], [DONE], CLOSED, DONE),  # who merged it may have said so
    ],
    ids=str,
)
def test_one_label_tells_what_the_log_says(
    log: list[Entry], labels: list[str], changes: dict[str, Any], label: str | None
) -> None:
    assert wanted(fold(log, GRACE), issue(*labels, **changes), LABELS) == label


@pytest.mark.parametrize(
    "log", [[], HELD, FINISHED, EXPIRED, release("failure"), release(PARKED)], ids=str
)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_repair_makes_it_so_whatever_stood_there_and_touches_nothing_else(
    log: list[Entry], is_open: bool
) -> None:
    standing = fold(log, GRACE)
    mine = (*LABELS.lifecycle, LABELS.managed)
    for many in range(len(mine) + 1):
        for some in combinations(mine, many):
            before = issue("bug", LABELS.hold, *some, is_open=is_open)
            change = repair(standing, before, LABELS)
            after = {*before.labels, *change.add} - {*change.remove}
            assert {"bug", LABELS.hold} <= after
            assert {*change.add, *change.remove} <= {*mine}
            lifecycle = [name for name in LABELS.lifecycle if name in after]
            want = wanted(standing, before, LABELS)
            assert lifecycle == ([want] if want else [])
            settled = issue(*sorted(after), is_open=is_open)
            assert not repair(standing, settled, LABELS)


def test_labels_are_compared_without_case_and_removed_as_they_are_spelt() -> None:
    change = repair(fold(HELD, GRACE), issue("Agent:Implement", "AGENT:in-flight"), LABELS)
    assert change == Repair((LABELS.managed,), ("Agent:Implement",))


def test_the_sticky_label_is_put_on_what_somebody_had_in_hand_and_never_taken_off() -> None:
    assert LABELS.managed not in repair(fold([], GRACE), issue(READY), LABELS).add
    for log in (HELD, FINISHED, EXPIRED):
        assert LABELS.managed in repair(fold(log, GRACE), issue(READY), LABELS).add
    assert not repair(fold([], GRACE), issue(READY, LABELS.managed), LABELS)


def test_labels_are_added_before_others_are_removed() -> None:
    world = quiet_world()
    claims = world.claims("sweep", BOT, Role.SWEEP)
    world.time.play(project(claims.log.tracker, 1, Repair((IN_FLIGHT, LABELS.managed), (READY,))))
    assert [(one.what, one.text) for one in world.repository.journal] == [
        ("label", IN_FLIGHT),
        ("label", LABELS.managed),
        ("unlabel", READY),
    ]


def test_nothing_is_written_when_nothing_is_to_be_changed() -> None:
    world = quiet_world()
    claims = world.claims("sweep", BOT, Role.SWEEP)
    world.time.play(project(claims.log.tracker, 1, Repair((), ())))
    assert world.repository.journal == []


def test_a_repair_is_false_when_there_is_nothing_to_do() -> None:
    def change(of: Issue) -> bool:
        return bool(repair(fold(HELD, GRACE), of, LABELS))

    assert change(issue(READY))
    assert not change(issue(IN_FLIGHT, LABELS.managed))
