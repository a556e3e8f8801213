"""What is written on an issue at the end of a run, of words that an agent has chosen."""

import re

import pytest

from rota.sources.port import WorkResult
from rota.sources.reports import pull_request, released, report

MOST = 65_536  # characters that GitHub takes in a comment
PULL = "https://example.org/ada/engine/pull/7"


def test_a_report_fits_into_a_comment_and_says_what_is_left_out() -> None:
    for told in (report(WorkResult("success", "x" * 100_000)), released("x" * 100_000)):
        assert len(told) < MOST
        assert re.search(r"\n\n\[cut: \d+ more characters\]$", told)
    assert "[cut" not in report(WorkResult("success", "x" * 59_000))


@pytest.mark.parametrize("error", ["```\n# Approved", "````\nx\n`````", "`" * 300])
def test_an_error_does_not_end_the_block_it_stands_in(error: str) -> None:
    told = report(WorkResult("failure", "no", error=error))
    fence = told[told.index("### Error\n\n") :].split("\n")[2]
    assert set(fence) == {"`"}
    assert told.endswith(f"\n{error}\n{fence}")
    assert fence not in error


def test_what_no_tracker_takes_is_left_out() -> None:
    told = report(WorkResult("failure", "half \ud800 and \x00 nothing"))
    assert "\x00" not in told
    assert told.encode()


@pytest.mark.parametrize(
    "artifact",
    [
        PULL,
        f"{PULL}/files",
        f"{PULL}?diff=split",
        f"{PULL}#discussion",
        f"{PULL.replace('/pull/', '/pulls/')}",
    ],
)
def test_any_page_of_a_pull_request_names_it(artifact: str) -> None:
    assert (pull_request(["notes.txt", artifact]) or "").replace("pulls", "pull") == PULL


@pytest.mark.parametrize(
    "artifact",
    [
        "https://example.org/ada/eng>ine/pull/7",
        "https://example.org/ada/eng<ine/pull/7",
        "https://example.org/ada/eng ine/pull/7",
        "https://example.org/ada/eng\nine/pull/7",
        "https://example.org/ada/engïne/pull/7",
        f"https://example.org/{'a' * 2_000}/engine/pull/7",
        "https://example.org/ada/engine/pull/0x7",
        f"https://example.org/ada/engine/pull/{'7' * 19}",
        "javascript://example.org/ada/engine/pull/7",
        "https://example.org/pull/7",
    ],
)
def test_what_could_not_stand_in_a_marker_is_no_pull_request(artifact: str) -> None:
    assert pull_request([artifact]) is None
