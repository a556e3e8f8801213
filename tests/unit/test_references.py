"""How people name issues, and what a commit says it closes."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.claims.references import (
    IssueRef,
    closing_references,
    dependency_lines,
    host_of,
    parse_issue_ref,
)
from rota.model.errors import MalformedReference

OBSERVED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "observed.json").read_text()
)


def closed(text: str) -> list[str]:
    return [str(ref) for ref in closing_references(text, "octo/widgets", {"github.com"})]


# Naming one issue.


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("org/backend#42", IssueRef("org", "backend", 42)),
        ("backend#42", IssueRef(None, "backend", 42)),
        ("  org/.github#1 ", IssueRef("org", ".github", 1)),
        ("a-b/c_d.e#7", IssueRef("a-b", "c_d.e", 7)),
        ("https://github.com/o/r/issues/5", IssueRef("o", "r", 5, "github.com")),
        ("https://GitHub.com/o/r/issues/5/", IssueRef("o", "r", 5, "github.com")),
        ("https://github.com/o/r/issues/5#issuecomment-9", IssueRef("o", "r", 5, "github.com")),
        ("http://git.local:3000/o/r/issues/5?a=b", IssueRef("o", "r", 5, "git.local:3000")),
        ("https://github.com/o/r/pull/5", IssueRef("o", "r", 5, "github.com", is_pull=True)),
        ("https://git.local/o/r/pulls/5", IssueRef("o", "r", 5, "git.local", is_pull=True)),
        ("http://git.local:3000/our/git/o/r/issues/5", IssueRef("o", "r", 5, "git.local:3000")),
    ],
)
def test_an_issue_is_named_in_short_or_by_address(text: str, ref: IssueRef) -> None:
    assert parse_issue_ref(text) == ref


@pytest.mark.parametrize(
    "text",
    [
        *("", "#4", "4", "backend", "backend#", "backend#0", "backend#-1", "backend#4x"),
        *("a/b/c#4", "/backend#4", "org/#4", "back end#4", "backend #4", "backend#٤"),
        *("https://github.com/o/r", "https://github.com/o/r/issues/", "ftp://h/o/r/issues/5"),
        "https://github.com/o/r/tree/main/issues/5",
        *("x https://github.com/o/r/issues/5", "backend#1234567890123456789"),
    ],
)
def test_what_names_no_issue_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(MalformedReference, match="OWNER/REPO#NUMBER"):
        parse_issue_ref(text)


@pytest.mark.parametrize("case", OBSERVED["s002_issue_ref"], ids=lambda case: case["ref"])
def test_what_label_state_refuses_is_refused_except_that_we_take_owners(
    case: dict[str, Any],
) -> None:
    assert case["origin"] == "exit"
    if "/" in case["ref"]:
        assert str(parse_issue_ref(case["ref"])) == case["ref"]
    else:
        with pytest.raises(MalformedReference):
            parse_issue_ref(case["ref"])


# Closing.


@pytest.mark.parametrize(
    "keyword",
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"],
)
@pytest.mark.parametrize("spelled", [str.lower, str.upper, str.capitalize])
@pytest.mark.parametrize("gap", [" ", ": ", ":", "", "   ", "\t", " : ", "\n", ":\n  "])
def test_every_keyword_closes_however_it_is_spelled(keyword: str, spelled: Any, gap: str) -> None:
    assert closed(f"We {spelled(keyword)}{gap}#3 here") == ["octo/widgets#3"]


@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("this does not fix #3 yet", ["octo/widgets#3"]),
        ("Parse faster (closes #3)", ["octo/widgets#3"]),
        ("fixes GH-3 and closes gh-4", ["octo/widgets#3", "octo/widgets#4"]),
        ("closes acme/tools#3", ["acme/tools#3"]),
        ("closes https://github.com/acme/tools/issues/3.", ["acme/tools#3"]),
        ("Closes #3\n\nFixes #4\r\nResolves: #5\r\n", [f"octo/widgets#{n}" for n in (3, 4, 5)]),
        ("bug-fix #3", ["octo/widgets#3"]),
        ("fixes #3, fixes #3, fixes OCTO/Widgets#3", ["octo/widgets#3"]),
    ],
)
def test_a_reference_after_a_keyword_is_found_anywhere(text: str, refs: list[str]) -> None:
    assert closed(text) == refs


@pytest.mark.parametrize(
    "text",
    [
        "closes #1, #2 and #3",
        "closes #1, #2, and #3",
        "closes #1 #2 #3",
        "Closes: #1; #2 & octo/widgets#3",
        "closes #1,\n #2,\n #3",
        "closes #1 and closes #2, fixes #3",
        "closes #1, closes: #2 + #3",
    ],
)
def test_a_list_after_one_keyword_closes_all_of_it(text: str) -> None:
    assert closed(text) == ["octo/widgets#1", "octo/widgets#2", "octo/widgets#3"]


@pytest.mark.parametrize(
    "text",
    [
        *("prefix #3", "unfixes #3", "affixed #3", "enclosed #3", "disclose #3", "fixup #3"),
        *("closest #3", "fixer #3", "resolver #3", "closing #3", "fix_#3", "ünfix_fix#3"),
        *("Fix the parser (#3)", "see #3", "#3", "fixes- #3", "fixes 3", "fix C#8", "fix #3rd"),
        *("Fixes: 1a2b3c4d5e6f", "fix\n\n#3", "fixes #0", "fix a/b/c#3", "closes #"),
        "closes https://example.org/o/r/issues/3",
        "closes https://github.com/o/r/commit/3",
        "closes github.com/o/r/issues/3",
    ],
)
def test_what_does_not_close_is_left_alone(text: str) -> None:
    assert closed(text) == []


def test_what_stands_after_a_list_is_not_part_of_it() -> None:
    assert closed("fixes #3, see #4 and not #5") == ["octo/widgets#3"]


def test_addresses_count_on_every_configured_host_or_on_any() -> None:
    text = "closes https://git.local:3000/o/r/issues/1, https://github.com/o/r/issues/2"
    assert closing_references(text, "o/r", {"GIT.local:3000"}) == [
        IssueRef("o", "r", 1, "git.local:3000")
    ]
    assert [ref.number for ref in closing_references(text, "o/r")] == [1, 2]


def test_an_address_is_not_taken_for_an_issue_of_this_host() -> None:
    (ref,) = closing_references("closes https://[::1]:99999/o/r/issues/1", "o/r")
    assert ref.host is not None


@given(st.lists(st.sampled_from(["fixes", "#3", " ", "\n", ":", "a/b", "https://h/", "and", ","])))
def test_no_text_is_too_strange(words: list[str]) -> None:
    for ref in closing_references("".join(words), "o/r"):
        assert ref.number == 3


@pytest.mark.parametrize(
    "filling",
    [*(" ", "\n", "a", "fixes ", "fixes #3, ", "a/", "https://", "-"), "/a", "fixes https://h/a/"],
)
def test_a_hostile_message_is_read_in_one_go(filling: str) -> None:
    closing_references("fixes " + filling * 20_000 + "#3", "o/r")
    dependency_lines("Depends on: " + filling * 20_000 + "#3", "o/r")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://GitHub.com/o/r", "github.com"),
        ("https://www.github.com:443/o", "github.com"),
        ("http://git.local:80", "git.local"),
        ("https://git.local:80/o", "git.local:80"),
        ("https://me:secret@git.local:3000/o", "git.local:3000"),
    ],
)
def test_a_host_is_known_by_its_name_and_an_unusual_port(url: str, host: str) -> None:
    assert host_of(url) == host


# Waiting.


@pytest.mark.parametrize("case", OBSERVED["s002_dependency_lines"], ids=lambda case: case["body"])
def test_dependency_lines_are_read_as_label_state_reads_them(case: dict[str, Any]) -> None:
    refs = dependency_lines(case["body"], case["default_repo"])
    assert [[ref.full_name, ref.number] for ref in refs] == case["origin"]


def test_a_body_may_wait_for_several() -> None:
    body = "Do it.\r\nDepends on: #1, lib#2\r\nrequires: https://github.com/o/x/issues/3 and #1\n"
    assert [str(ref) for ref in dependency_lines(body, "o/r")] == ["o/r#1", "o/lib#2", "o/x#3"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<!--\r\nWrite what it waits for:\r\nDepends on: #1\r\n-->\r\nDepends on: #2", [2]),
        ("Depends on: #1 <!-- and not #2 -->, #3", [1, 3]),
        ("a --> b\nDepends on: #1", [1]),
        ("```text\nDepends on: #1\n```\nDepends on: #2", [2]),
        ("~~~~\nDepends on: #1\n~~~\n```\nDepends on: #2\n~~~~~ \nDepends on: #3", [3]),
        ("```\nDepends on: #1", []),
        ("```Depends on: #1```\nDepends on: #2", [2]),
        ("The parser stumbles over `<!--`.\n\nDepends on: #1", [1]),  # nothing is hidden here
    ],
)
def test_what_the_page_does_not_show_as_text_is_no_dependency(body: str, found: list[int]) -> None:
    assert [ref.number for ref in dependency_lines(body, "o/r")] == found


def test_a_megabyte_of_comments_and_fences_is_read_in_one_go() -> None:
    began = time.process_time()
    for piece in ("<!--", "-->", "<!---->", "```\n", "~~~\n", "`" * 7):
        assert dependency_lines(piece * (1_048_576 // len(piece)), "o/r") == []
    assert time.process_time() - began < 5


def test_a_dependency_in_code_or_in_a_sentence_is_none() -> None:
    assert dependency_lines("    Depends on: #1\nIt depends on: #2\n> Requires: #3", "o/r") == []
