"""Tables on a terminal: what stays whole, what folds, and what is left out where it is narrow."""

from collections.abc import Sequence
from typing import Any

import pytest
from rich.cells import cell_len

from rota.cli import agents, follow_ups, outbox, runs, schedules, signals, tokens
from rota.cli.columns import ITEMS
from rota.cli.output import Column, column
from rota.cli.tables import print_table

ID, OTHER = "0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e5f", "0190b6f4-6a3e-7c1e-8d3f-5a1b2c3d4e60"
LONG = "a" * 64
TITLE = "Mend the gate of the north tower, and say afterwards what it was that broke it"
THEN = "2026-05-01T12:00:00.000000Z"

ITEM = {
    "id": ID, "priority": 3, "status": "in_progress", "type": "bug_fix", "assigned_agent": LONG,
    "created_at": THEN, "description": TITLE,
}  # fmt: skip
RUN = {
    "id": ID, "status": "timed_out", "agent": LONG, "schedule": LONG, "work_item_id": OTHER,
    "started_at": THEN, "seconds": 5_400.0, "cost_usd": 1.5, "item_title": TITLE,
    "error": "it took too long, so it was ended", "summary": "",
}  # fmt: skip
FOLLOW_UP = {
    "id": ID, "status": "open", "work_item_id": OTHER, "agent": LONG, "holder": LONG,
    "created_at": THEN, "title": TITLE,
}  # fmt: skip
SCHEDULE = {
    "agent": "smith", "name": "early-in-the-morning", "status": "disabled",
    "rhythm": "30 6 * * 1-5 (Europe/Berlin)", "last_run_at": THEN, "next_run_at": THEN,
    "last_skip_reason": "budget_exhausted", "last_error": "exit code 1: no such file or directory",
    "last_run": {"status": "succeeded", "started_at": THEN},
}  # fmt: skip
SIGNAL = {
    "id": ID, "name": LONG, "status": "active", "fires": 2, "max_fires": None,
    "work_item_id": OTHER, "created_at": THEN,
    "trigger": {"kind": "work_item.status.transition", "to": "failed"},
    "action": {"kind": "submit", "title": TITLE},
}  # fmt: skip
AGENT = {
    "name": "smith", "in_progress": 3, "dispatched": 2, "max_concurrent": 5, "paused": True,
    "running": 2, "in_review": 4, "max_in_review": 4, "usage_until": None, "breaker_until": None,
    "spent_today": {"runs": 12, "cost_usd": 3.5, "tokens": 123_456},
}  # fmt: skip
LETTER = {
    "id": f"report-{ID}", "agent": LONG, "subject": "github-42", "attempts": 7, "created_at": THEN,
    "next_attempt_at": THEN, "says": TITLE, "error": "the tracker does not answer: timed out",
}  # fmt: skip
TOKEN = {
    "id": ID, "name": "builder of the north", "scopes": ["work", f"agent:{LONG}"],
    "created_at": THEN, "expires_at": THEN, "revoked_at": None, "last_used_at": THEN,
}  # fmt: skip

LISTS = [
    pytest.param(ITEMS, ITEM, (ID[:13], "3", "in_progress", "Mend the gate"), id="list"),
    pytest.param(runs._COLUMNS, RUN, (ID, "timed_out", "aaa", "Mend the gate"), id="run list"),
    pytest.param(follow_ups._COLUMNS, FOLLOW_UP, (ID, "open", "Mend the"), id="follow-up list"),
    pytest.param(
        schedules._COLUMNS, SCHEDULE,
        ("smith/early-in-the-morning", "disabled", "budget_exhausted", "exit code 1"),
        id="schedule list",
    ),
    pytest.param(signals._COLUMNS, SIGNAL, (ID, "active", "submit"), id="signal list"),
    pytest.param(agents._COLUMNS, AGENT, ("smith", "paused", "its work waits"), id="agent list"),
    pytest.param(outbox._COLUMNS, LETTER, (f"report-{ID}", "the tracker"), id="outbox list"),
    pytest.param(tokens._COLUMNS, TOKEN, (ID, "builder of"), id="token list"),
]  # fmt: skip


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def printed(width: int, columns: Sequence[Column], *rows: dict[str, Any]) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(rows, columns)
        return capsys.readouterr().out.splitlines()

    return printed


@pytest.mark.parametrize(("columns", "row", "wanted"), LISTS)
@pytest.mark.parametrize("width", [80, 100, 200])
def test_what_matters_most_is_shown_in_few_lines_at_any_width(
    printed: Any, columns: list[Column], row: dict[str, Any], wanted: tuple[str, ...], width: int
) -> None:
    lines = printed(width, columns, row)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= 8, "\n".join(lines)
    text = "\n".join(lines)
    assert [one for one in wanted if one not in text] == []


def test_prose_has_room_and_what_is_spare_goes_in_its_order(printed: Any) -> None:
    columns = [
        column("id", whole=True),
        column("second", spare=2),
        column("first", spare=1),
        column("prose", folds=True),
    ]
    row = {"id": "i" * 10, "second": "s" * 10, "first": "f" * 10, "prose": "some words " * 5}
    seen = {width: printed(width, columns, row)[0].split() for width in (76, 70, 40)}
    assert seen == {
        76: ["id", "second", "first", "prose"],
        70: ["id", "second", "prose"],
        40: ["id", "prose"],
    }


COMMON = {**ITEM, "type": "code_review", "assigned_agent": "cleo"}


def test_an_id_becomes_short_before_a_column_is_left_out(printed: Any) -> None:
    head, row, *_ = printed(80, ITEMS, COMMON)
    assert head.split() == ["id", "pri", "status", "agent", "description"]
    assert row.split()[0] == "0190b6f4-6a3e"
    assert printed(120, ITEMS, COMMON)[1].split()[0] == ID  # all of them have room beside it
    assert printed(95, ITEMS, {**COMMON, "description": "Gate"})[1].split()[0] == ID


def test_an_id_is_whole_on_a_terminal_with_a_hundred_columns(printed: Any) -> None:
    head, row, *_ = printed(100, ITEMS, COMMON)
    assert "age" not in head
    assert row.split()[0] == ID


def test_a_short_id_tells_one_row_from_another(printed: Any) -> None:
    later = "0190b6f4-6a3e-7c1f-8d3f-5a1b2c3d4e60"
    lines = printed(80, ITEMS, COMMON, {**COMMON, "id": later})
    assert [line.split()[0] for line in lines if line[0] == "0"] == [ID[:18], later[:18]]
    lines = printed(80, ITEMS, COMMON, {**COMMON, "id": OTHER})
    assert [line.split()[0] for line in lines if line[0] == "0"] == [ID, OTHER]


def test_only_an_id_that_commands_take_by_its_beginning_is_short(printed: Any) -> None:
    assert printed(80, runs._COLUMNS, RUN)[1].split()[0] == ID
    assert printed(80, tokens._COLUMNS, TOKEN)[1].split()[0] == ID


def test_lines_instead_of_columns_have_the_whole_id(printed: Any) -> None:
    assert printed(20, ITEMS, COMMON)[0].split() == ["id", ID]


def test_what_is_narrow_comes_back_where_something_wide_was_left_out(printed: Any) -> None:
    row = {**RUN, "agent": "smith", "schedule": "early", "item_title": "Mend the gate"}
    head = printed(80, runs._COLUMNS, row)[0]
    assert head.split() == ["id", "status", "agent", "item", "age"]


def test_when_a_schedule_looks_next_is_shown_longer_than_how_its_last_run_ended(
    printed: Any,
) -> None:
    row = {**SCHEDULE, "name": "often", "last_skip_reason": None, "rhythm": "every 2s"}
    assert "last run" in printed(200, schedules._COLUMNS, row)[0]
    head = printed(80, schedules._COLUMNS, row)[0]
    assert ("next" in head, "last error" in head, "last run" in head) == (True, True, False)


def test_a_long_name_is_cut_and_says_so(printed: Any) -> None:
    row = {"id": ID, "agent": LONG, "prose": "some words " * 9}
    columns = [column("id", whole=True), column("agent"), column("prose", folds=True)]
    text = "\n".join(printed(80, columns, row))
    assert "aaaaaaaaaaa…" in text
    assert LONG not in text
    assert ID in text


def test_a_name_that_serves_as_an_id_is_never_cut(printed: Any) -> None:
    """There is no room for columns beside it, so each has a line."""
    lines = printed(80, agents._COLUMNS, {**AGENT, "name": LONG}, AGENT)
    assert lines[0].split() == ["name", LONG]
    words = [" ".join(line.split()) for line in lines]
    assert words.count("kept its work waits for reviews") == 2
    assert words.count("tokens today 123456") == 2
    assert lines.count("") == 1  # between one and the next


def test_a_wide_letter_counts_twice(printed: Any) -> None:
    lines = printed(40, [column("id", whole=True), column("prose", folds=True)],
                    {"id": "日本" * 5, "prose": "some words " * 5})  # fmt: skip
    assert max(map(cell_len, lines)) <= 40
    assert "日本" * 5 in lines[1]


def test_of_nothing_nothing_is_printed(printed: Any) -> None:
    assert printed(80, ITEMS) == []
