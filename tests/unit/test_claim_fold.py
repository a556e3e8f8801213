"""Who holds an issue, by its log alone."""

import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.claims.comments import Believed, Entry, Kind, entries, marker
from rota.claims.fold import Standing, fold, grace_of, holds
from tests.unit.claim_scene import (
    BOT,
    GRACE,
    OPERATOR,
    OTHER_BOT,
    STRANGER,
    about,
    claim,
    comment,
    entry,
)

BELIEVED = Believed(frozenset({BOT.id, OTHER_BOT.id}), frozenset({OPERATOR.id}))


def stand(*log: Entry) -> Standing:
    return fold(log, GRACE)


def holder(*log: Entry) -> int | None:
    found = stand(*log).holder
    return found.id if found else None


# claims


def test_an_empty_log_is_free() -> None:
    assert stand() == Standing()
    assert stand().is_free


def test_the_first_claim_holds_and_the_second_is_void() -> None:
    assert holder(claim(5), claim(6, codename="b")) == 5


def test_a_void_claim_is_void_for_ever() -> None:
    assert holder(claim(5), claim(6), about(Kind.RELEASE, 7, of=5)) is None


def test_the_next_claim_after_a_release_holds() -> None:
    assert holder(claim(5), claim(6), about(Kind.RELEASE, 7, of=5), claim(8)) == 8


def test_ids_decide_whatever_the_stamps_say() -> None:
    assert holder(claim(5, at=1), claim(6, at=0)) == 5


# releases


def test_a_release_of_a_void_claim_changes_nothing() -> None:
    assert holder(claim(5), claim(6), about(Kind.RELEASE, 7, of=6)) == 5


def test_a_late_or_repeated_release_does_not_touch_the_next_holder() -> None:
    release = about(Kind.RELEASE, 6, of=5)
    log = [claim(5), release, claim(7), about(Kind.RELEASE, 8, of=5), about(Kind.RELEASE, 9, of=5)]
    assert holder(*log) == 7


def test_a_release_before_its_claim_changes_nothing() -> None:
    assert holder(about(Kind.RELEASE, 4, of=5), claim(5)) == 5


def test_what_set_the_issue_free_is_remembered() -> None:
    release = about(Kind.RELEASE, 6, of=5, outcome="failure")
    assert stand(claim(5), release).ended == release


def test_a_version_1_claim_is_released_by_its_version_1_release() -> None:
    made = claim(5, v=None, fleet=None)
    release = entry(7, Kind.RELEASE, v=None, codename="a", firing_id="x5", outcome="success")
    assert holder(made) == 5
    assert holder(made, release) is None


def test_a_version_1_loser_that_yields_does_not_release_the_winner() -> None:
    won, lost = claim(5, v=None), claim(6, codename="b", v=None)
    yielded = entry(7, Kind.RELEASE, v=None, codename="b", firing_id="x6", outcome="race-yielded")
    assert holder(won, lost, yielded) == 5


# done


def test_done_ends_the_work_for_good() -> None:
    done = about(Kind.DONE, 6, of=5, pr="u")
    standing = stand(claim(5), done, claim(7))
    assert (standing.holder, standing.done, standing.done_claim) == (None, done, 5)
    assert not standing.is_free


def test_done_by_anybody_but_the_holder_is_refused() -> None:
    assert stand(claim(5), claim(6), about(Kind.DONE, 7, of=6)).done is None


def test_done_after_the_claim_has_ended_is_refused() -> None:
    log = [claim(5), about(Kind.RELEASE, 6, of=5), claim(7), about(Kind.DONE, 8, of=5)]
    standing = stand(*log)
    assert standing.done is None
    assert holder(*log) == 7


def test_only_the_first_done_counts() -> None:
    first = about(Kind.DONE, 6, of=5)
    assert stand(claim(5), first, about(Kind.DONE, 7, of=5)).done == first


# suspicion


def test_a_suspicion_alone_ends_nothing() -> None:
    standing = stand(claim(5), about(Kind.SUSPECT, 6, of=5))
    assert standing.holder is not None
    assert [one.id for one in standing.suspects] == [6]


def test_an_unanswered_suspicion_may_expire_the_claim_after_the_grace() -> None:
    suspect = about(Kind.SUSPECT, 6, of=5, at=100)
    assert holder(claim(5), suspect, about(Kind.EXPIRE, 7, of=5, at=100 + GRACE, suspect=6)) is None


def test_to_expire_too_early_is_void_and_the_suspicion_stands() -> None:
    suspect = about(Kind.SUSPECT, 6, of=5, at=100)
    early = about(Kind.EXPIRE, 7, of=5, at=99 + GRACE, suspect=6)
    assert holder(claim(5), suspect, early) == 5
    again = about(Kind.EXPIRE, 8, of=5, at=100 + GRACE, suspect=6)
    assert holder(claim(5), suspect, early, again) is None


def test_an_answer_clears_every_suspicion() -> None:
    log = [
        claim(5),
        about(Kind.SUSPECT, 6, of=5, at=0),
        about(Kind.SUSPECT, 7, of=5, at=1),
        about(Kind.ALIVE, 8, of=5, at=2),
    ]
    assert stand(*log).suspects == ()
    for suspect in (6, 7):
        expire = about(Kind.EXPIRE, 9, of=5, at=999, suspect=suspect)
        assert holder(*log, expire) == 5


def test_an_answer_is_the_last_sign_of_life() -> None:
    alive = about(Kind.ALIVE, 8, of=5, at=50)
    assert stand(claim(5), alive).heard == alive
    assert stand(claim(5)).heard == claim(5)


def test_an_answer_that_comes_too_late_does_not_bring_the_claim_back() -> None:
    log = [
        claim(5),
        about(Kind.SUSPECT, 6, of=5, at=0),
        about(Kind.EXPIRE, 7, of=5, at=GRACE, suspect=6),
        about(Kind.ALIVE, 8, of=5, at=GRACE),
    ]
    assert holder(*log) is None


def test_an_expiry_must_name_a_suspicion_that_stands_against_the_holder() -> None:
    for suspect in (None, 4, 9):
        expire = about(Kind.EXPIRE, 8, of=5, at=999, suspect=suspect)
        assert holder(claim(5), about(Kind.SUSPECT, 6, of=5), expire) == 5


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("60", 60),
        ("0.5", 0.5),
        (None, GRACE),
        ("soon", GRACE),
        ("-1", GRACE),
        ("1e9", GRACE),
        ("٣", GRACE),
        ("", GRACE),
    ],
)
def test_a_claim_says_its_own_grace(said: str | None, seconds: float) -> None:
    made = claim(5, grace=said)
    assert grace_of(made, GRACE) == seconds
    suspect = about(Kind.SUSPECT, 6, of=5, at=0)
    early, late = (about(Kind.EXPIRE, 7, of=5, at=at, suspect=6) for at in (seconds - 0.1, seconds))
    for setting in (1.0, GRACE, 1e6) if said in ("60", "0.5") else (GRACE,):
        assert fold([made, suspect, early], setting).holder == made
        assert fold([made, suspect, late], setting).holder is None


def test_suspicions_against_the_last_holder_do_not_count_against_the_next() -> None:
    log = [
        claim(5),
        about(Kind.SUSPECT, 6, of=5, at=0),
        about(Kind.RELEASE, 7, of=5),
        claim(8),
        about(Kind.EXPIRE, 9, of=8, at=999, suspect=6),
    ]
    assert holder(*log) == 8
    assert stand(*log).suspects == ()


def test_a_suspicion_against_a_void_claim_is_forgotten() -> None:
    assert stand(claim(5), claim(6), about(Kind.SUSPECT, 7, of=6)).suspects == ()


# operators


def test_a_revoked_claim_is_over_and_remembered_as_taken() -> None:
    revoke = about(Kind.REVOKE, 6, of=5)
    standing = stand(claim(5), revoke)
    assert (standing.holder, standing.ended, standing.revoked) == (None, revoke, revoke)


def test_a_revocation_is_remembered_while_others_hold_the_issue() -> None:
    revoke = about(Kind.REVOKE, 6, of=5)
    log = [claim(5), revoke, claim(7), about(Kind.RELEASE, 8, of=7), claim(9)]
    assert stand(*log).revoked == revoke


def test_to_revoke_what_is_done_opens_it_again() -> None:
    log = [claim(5), about(Kind.DONE, 6, of=5), claim(7), about(Kind.REVOKE, 8, of=5)]
    standing = stand(*log)
    assert standing.is_free
    assert standing.revoked is None  # nobody was working
    assert holder(*log, claim(9)) == 9


@pytest.mark.parametrize("of", [6, 4, "None"])
def test_to_revoke_any_other_claim_changes_nothing(of: Any) -> None:
    assert holder(claim(5), claim(6), about(Kind.REVOKE, 7, of=of)) == 5
    assert stand(about(Kind.REVOKE, 7, of=of)) == Standing()


@pytest.mark.parametrize("of", [7, 6, 4, "None"])
def test_to_revoke_another_claim_than_the_one_it_was_done_under_opens_nothing(of: Any) -> None:
    log = [claim(5), about(Kind.DONE, 6, of=5), claim(7)]
    assert stand(*log, about(Kind.REVOKE, 8, of=of)) == stand(*log)
    assert holder(*log, about(Kind.REVOKE, 8, of=of), claim(9)) is None


def test_a_revocation_by_somebody_who_is_no_operator_is_not_in_the_log() -> None:
    made = comment(5, marker(Kind.CLAIM, codename="a"))
    for author in (BOT, OTHER_BOT, STRANGER):
        log = entries([made, comment(6, marker(Kind.REVOKE, claim=5), author)], BELIEVED)
        assert holder(*log) == 5


@pytest.mark.parametrize("kind", Kind)
def test_what_an_outsider_writes_changes_nothing(kind: Kind) -> None:
    real = [
        comment(5, marker(Kind.CLAIM, codename="a")),
        comment(7, marker(Kind.SUSPECT, claim=5), at=10),
    ]
    forged = [
        comment(number, marker(kind, claim=5, suspect=7, codename="a"), STRANGER, at=9999)
        for number in (1, 6, 8)
    ]
    assert fold(entries([*real, *forged], BELIEVED), GRACE) == fold(entries(real, BELIEVED), GRACE)


# disputes


def test_an_edited_claim_puts_the_issue_in_dispute() -> None:
    edited = claim(5, edited=True)
    standing = stand(edited)
    assert standing.disputed == edited
    assert not standing.is_free
    assert not stand(edited, about(Kind.RELEASE, 6, of=5)).is_free


def test_an_edited_claim_that_is_void_is_disputed_too() -> None:
    assert stand(claim(5), claim(6, edited=True)).disputed is not None


# holding


def test_a_claim_holds_when_it_was_granted_and_stands() -> None:
    log = [claim(5), claim(6), about(Kind.RELEASE, 7, of=5), claim(8)]
    assert [number for number in (5, 6, 8, 9) if holds(log, number, GRACE)] == [8]


# properties, over logs that nobody would write


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Entries about each other in every combination, with stamps that wander."""
    many = draw(st.integers(0, 14))
    log, at = [], 0.0
    for number in range(1, many + 1):
        at += draw(st.sampled_from([-1.0, 0.0, 1.0, 100.0, GRACE]))
        kind = draw(st.sampled_from(Kind))
        of = draw(st.integers(1, many))
        suspect = draw(st.integers(1, many))
        fields: dict[str, Any] = {"claim": of, "suspect": suspect}
        if kind is Kind.CLAIM:
            fields = {"codename": draw(st.sampled_from("ab")), "firing_id": f"x{number}"}
        elif kind is Kind.RELEASE and draw(st.booleans()):
            fields = {"v": None, "codename": draw(st.sampled_from("ab")), "firing_id": f"x{of}"}
        log.append(entry(number, kind, at, **fields))
    return log


def is_granted(log: list[Entry], claim_id: int) -> bool:
    granted = fold([one for one in log if one.id <= claim_id], GRACE).holder
    return granted is not None and granted.id == claim_id


@settings(max_examples=300)
@given(logs())
def test_the_verdict_on_a_claim_depends_only_on_smaller_ids(log: list[Entry]) -> None:
    for end in range(len(log) + 1):
        for one in log[:end]:
            if one.kind is Kind.CLAIM:
                assert is_granted(log[:end], one.id) == is_granted(log, one.id)


@settings(max_examples=300)
@given(logs())
def test_a_holder_loses_its_claim_only_by_entries_that_name_it(log: list[Entry]) -> None:
    before = None
    for end in range(1, len(log) + 1):
        after = fold(log[:end], GRACE).holder
        if before is not None and after != before:
            assert log[end - 1].names(before)
        before = after


@settings(max_examples=200)
@given(logs())
def test_only_a_granted_claim_ever_holds_and_one_at_a_time(log: list[Entry]) -> None:
    held: set[int] = set()
    for end in range(1, len(log) + 1):
        now = fold(log[:end], GRACE).holder
        if now is not None and now.id not in held:
            assert now == log[end - 1]  # it holds from its own entry on, or never
            held.add(now.id)


@settings(max_examples=200)
@given(logs(), st.randoms(use_true_random=False))
def test_neither_the_order_of_comments_nor_duplicates_matter(
    log: list[Entry], chance: random.Random
) -> None:
    comments = [
        comment(
            one.id, _marker(one), OPERATOR, (one.created_at - log[0].created_at).total_seconds()
        )
        for one in log
    ]
    again = comments + [chance.choice(comments) for _ in comments]
    chance.shuffle(again)
    assert fold(entries(again, BELIEVED), GRACE) == fold(entries(comments, BELIEVED), GRACE)


def _marker(one: Entry) -> str:
    body = marker(one.kind, **{key: value for key, value in one.fields.items() if key != "v"})
    return body if "v" in one.fields else body.replace("v=2 ", "")


@settings(max_examples=200)
@given(logs(), st.integers(-(10**6), 10**6))
def test_only_differences_of_stamps_matter(log: list[Entry], seconds: int) -> None:
    def shape(of: list[Entry]) -> tuple[Any, ...]:
        now = fold(of, GRACE)
        return tuple(one.id if one else None for one in (now.holder, now.done, now.ended))

    moved = [
        Entry(one.id, one.kind, one.fields, one.author, one.created_at + timedelta(seconds=seconds))
        for one in log
    ]
    assert shape(moved) == shape(log)


@settings(max_examples=200)
@given(logs())
def test_at_most_one_end_is_accepted_until_an_operator_opens_it_again(log: list[Entry]) -> None:
    standing = Standing()
    for end in range(1, len(log) + 1):
        before, standing = standing, fold(log[:end], GRACE)
        if before.done is not None and standing.done != before.done:
            assert log[end - 1].kind is Kind.REVOKE
            assert standing.done is None
