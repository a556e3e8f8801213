"""The lines of the claim log: what is a marker, what it says, and whose counts."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.claims.comments import (
    CLAIM_COMMENT_PREFIX,
    RELEASE_COMMENT_PREFIX,
    Believed,
    Kind,
    entries,
    firing_id,
    marker,
    parse_comment,
)
from rota.claims.port import Account, Comment
from rota.model.errors import InvalidInput
from tests.unit.claim_scene import BOT, OPERATOR, OTHER_BOT, STRANGER, claim, comment, entry

OBSERVED = json.loads((Path(__file__).parents[1] / "data" / "observed.json").read_text())
BELIEVED = Believed(frozenset({BOT.id, OTHER_BOT.id}), frozenset({OPERATOR.id}))

values = st.text(min_size=1, max_size=30).filter(
    lambda text: text.split() == [text] and "-->" not in text
)


@pytest.mark.parametrize("case", OBSERVED["s002_parse_comment"], ids=lambda case: case["body"][:40])
def test_markers_of_label_state_are_read_as_it_reads_them(case: dict) -> None:
    found = parse_comment(case["body"])
    if case["origin"]["kind"] is None:
        assert found is None
    else:
        assert found is not None
        assert (found.kind, found.fields) == (case["origin"]["kind"], case["origin"]["fields"])


def test_the_public_prefixes_begin_our_own_markers() -> None:
    assert marker(Kind.CLAIM, codename="a").startswith(CLAIM_COMMENT_PREFIX)
    assert marker(Kind.RELEASE, claim=1).startswith(RELEASE_COMMENT_PREFIX)


def test_the_first_equals_sign_splits() -> None:
    found = parse_comment("<!-- agent-release:v=2 outcome=race-yielded-to=lucius:f1 -->")
    assert found is not None
    assert found.fields["outcome"] == "race-yielded-to=lucius:f1"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no marker",
        "text\n<!-- agent-claim:v=2 codename=a -->",  # not on the first line
        "> <!-- agent-claim:v=2 codename=a -->",  # quoted by somebody
        "`<!-- agent-claim:v=2 codename=a -->`",
        "<!-- agent-claim v=2 codename=a -->",  # no colon
        "<!-- Agent-Claim:v=2 codename=a -->",
        "<!-- agent-claimed:v=2 -->",
        "<!-- agent-pause:v=2 -->",  # no such kind
        "<!-- agent-claim:v=2 codename=a",  # never ends
        "<!-- agent-claim:v=2\ncodename=a -->",  # ends on another line
        "<!-- rota-report-done:v=2 claim=7 -->",
    ],
)
def test_anything_else_is_no_marker(body: str) -> None:
    assert parse_comment(body) is None


def test_words_without_an_equals_sign_are_passed_over() -> None:
    found = parse_comment("<!-- agent-claim: hello codename=a  world \t firing_id=b -->")
    assert found is not None
    assert found.fields == {"codename": "a", "firing_id": "b"}


def test_readable_text_may_follow_a_marker() -> None:
    found = parse_comment("<!-- agent-alive:v=2 claim=9 -->\n\nStill here. <!-- agent-done: -->")
    assert found is not None
    assert (found.kind, found.fields["claim"]) == (Kind.ALIVE, "9")


def test_a_megabyte_of_almost_a_marker_is_read_at_once() -> None:
    assert parse_comment("<!-- agent-claim:" + "- " * 500_000) is None
    assert parse_comment("<!-- agent-claim:" + "<!-- agent-claim:" * 60_000) is None


@given(
    st.sampled_from(Kind), st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values)
)
def test_what_is_written_is_read_back(kind: Kind, fields: dict[str, str]) -> None:
    fields.pop("kind", None)
    found = parse_comment(marker(kind, **fields))
    assert found is not None
    assert (found.kind, found.fields) == (kind, {"v": "2", **fields})


@pytest.mark.parametrize("value", ["", " ", "a b", "a\nb", " a", "a\u00a0b", "a-->b", "a\u2028b"])
def test_a_value_that_would_break_the_line_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="codename") as raised:
        marker(Kind.CLAIM, codename=value)
    assert raised.value.details["field"] == "codename"


def test_a_field_that_is_none_is_left_out() -> None:
    assert marker(Kind.DONE, claim=3, pr=None) == "<!-- agent-done:v=2 claim=3 -->"


@given(st.datetimes(datetime(2000, 1, 1)), st.integers(0, 2**64))  # noqa: DTZ001
def test_a_firing_id_is_a_time_and_four_hex_digits(moment: datetime, random: int) -> None:
    assert re.fullmatch(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}", firing_id(moment, random))


def test_firing_id_example() -> None:
    assert (
        firing_id(datetime(2026, 5, 1, 19, 42, 17, tzinfo=UTC), 0x1643A) == "20260501-194217-643a"
    )


# who is believed


@pytest.mark.parametrize(
    ("author", "kind", "counts"),
    [
        (BOT, Kind.CLAIM, True),
        (OTHER_BOT, Kind.RELEASE, True),
        (OPERATOR, Kind.CLAIM, True),
        (OPERATOR, Kind.REVOKE, True),
        (BOT, Kind.REVOKE, False),
        *((STRANGER, kind, False) for kind in Kind),
        (Account(667, BOT.login), Kind.CLAIM, False),  # took over the login
    ],
    ids=str,
)
def test_only_trusted_numbers_count_and_only_operators_revoke(
    author: Account, kind: Kind, counts: bool
) -> None:
    log = entries([comment(5, marker(kind, claim=1), author)], BELIEVED)
    assert bool(log) is counts


def test_a_renamed_account_is_still_believed() -> None:
    body = marker(Kind.CLAIM, codename="a")
    assert entries([comment(5, body, Account(BOT.id, "new-name"))], BELIEVED)


def test_the_log_is_in_the_order_of_ids_and_each_entry_stands_once() -> None:
    bodies = {number: marker(Kind.CLAIM, codename=f"c{number}") for number in (9, 3, 7)}
    given = [comment(number, body, at=-number) for number, body in bodies.items()]
    log = entries([*given, *given, comment(4, "chatter")], BELIEVED)
    assert [one.id for one in log] == [3, 7, 9]


def test_an_edited_comment_is_known_by_its_stamps() -> None:
    posted = comment(5, marker(Kind.CLAIM, codename="a"))
    later = posted.created_at + timedelta(seconds=1)
    edited = Comment(6, BOT, posted.body, posted.created_at, later)
    assert [one.edited for one in entries([posted, edited], BELIEVED)] == [False, True]


# naming


def test_an_entry_names_its_claim_by_id() -> None:
    release = entry(9, Kind.RELEASE, claim=5, codename="a", firing_id="x6")
    assert release.names(claim(5))
    assert not release.names(claim(6))  # though it says the same firing


def test_a_version_1_release_names_by_codename_and_firing() -> None:
    release = entry(9, Kind.RELEASE, v=None, codename="a", firing_id="x5")
    assert release.names(claim(5))
    assert not release.names(claim(6))
    assert not release.names(claim(5, codename="b"))


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.RELEASE])
def test_nothing_but_a_release_names_by_codename(kind: Kind) -> None:
    assert not entry(9, kind, v=None, codename="a", firing_id="x5").names(claim(5))


def test_a_version_2_release_without_a_claim_names_nothing() -> None:
    assert not entry(9, Kind.RELEASE, codename="a", firing_id="x5").names(claim(5))
