"""What a run is said to have done: by its result file, or by its last words."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.model.fleet import Hook, RuntimeKind
from rota.model.runs import RunStatus
from rota.runner.redaction import Redactor
from rota.runner.results import (
    LONGEST_ARTIFACT,
    LONGEST_ERROR,
    LONGEST_SUMMARY,
    MOST_ARTIFACTS,
    artifacts_in,
    read_result,
)
from tests.integration.runner_stage import Stage

WRITE = 'cat > "$ROTA_RESULT_FILE"'


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


async def test_a_result_file_says_more_than_the_output(stage: Stage) -> None:
    result = {
        "outcome": "success",
        "summary": "fixed it",
        "details": "in two places, see https://github.com/o/r/pull/7",
        "artifacts": ["https://ci.example.org/1", "https://github.com/o/r/pull/7"],
    }
    end = await stage.run("sh", "-c", f"echo noise; {WRITE}", prompt=json.dumps(result))
    assert end.status is RunStatus.SUCCEEDED
    assert end.summary == "fixed it\n\nin two places, see https://github.com/o/r/pull/7"
    assert end.artifacts == ("https://ci.example.org/1", "https://github.com/o/r/pull/7")


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("success", "succeeded"), ("failure", "failed"), ("partial", "partial")],
)
async def test_the_outcome_is_the_agents(stage: Stage, outcome: str, status: str) -> None:
    told = json.dumps({"outcome": outcome, "error": "why"})
    end = await stage.run("sh", "-c", WRITE, prompt=told)
    assert end.status == status
    assert end.error == (None if outcome == "success" else "why")


async def test_who_exits_with_an_error_has_not_succeeded(stage: Stage) -> None:
    told = json.dumps({"outcome": "success", "summary": "all good"})
    end = await stage.run("sh", "-c", f"{WRITE}; exit 1", prompt=told)
    assert end.status is RunStatus.FAILED
    assert end.summary == "all good"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{not json", "does not hold a JSON object"),
        ("[1]", "does not hold a JSON object"),
        ("[" * 100_000, "does not hold a JSON object"),
        ('{"outcome": "great"}', "write success, failure or partial"),
        ('{"outcome": ["success"]}', "write success, failure or partial"),
        ('{"artifacts": "x"}', "a list of texts"),
        (json.dumps({"summary": "x" * 1_100_000}), "larger than"),
    ],
)
async def test_a_result_file_that_cannot_be_used_is_ignored_with_a_warning(
    stage: Stage, content: str, why: str
) -> None:
    end = await stage.run("sh", "-c", f"{WRITE}; echo said", prompt=content)
    assert end.status is RunStatus.SUCCEEDED
    assert end.summary == "said"
    assert any(why in text and "ignored" in text for text in stage.texts("rota", "warning"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('mkfifo "$ROTA_RESULT_FILE"', "is not a file"),
        ('ln -s /dev/zero "$ROTA_RESULT_FILE"', "cannot be read"),
        ('mkdir -p "$ROTA_RESULT_FILE/x"', "is not a file"),
    ],
)
async def test_what_is_no_file_is_no_result_and_is_removed(
    stage: Stage, line: str, why: str
) -> None:
    end = await asyncio.wait_for(stage.run("sh", "-c", f"{line}; echo said"), 50)
    assert end.status is RunStatus.SUCCEEDED
    assert end.summary == "said"
    assert any(why in text for text in stage.texts("rota", "warning"))
    assert list((stage.path / "state" / "scratch").iterdir()) == []


async def test_a_result_file_of_an_earlier_run_is_not_this_runs(stage: Stage) -> None:
    stale = stage.path / "state" / "scratch" / "run-1-result.json"
    stale.parent.mkdir(parents=True)
    stale.write_text('{"summary": "old"}')
    assert (await stage.run("echo", "new")).summary == "new"
    assert list(stale.parent.iterdir()) == []


async def test_the_summary_is_the_end_of_what_was_printed(stage: Stage) -> None:
    end = await stage.run("sh", "-c", "seq 1 5000; echo done")
    assert end.summary.endswith("\n4999\n5000\ndone")
    assert len(end.summary) <= 4000


async def test_words_that_no_database_can_hold_are_cleaned(stage: Stage) -> None:
    hook = Hook("noisy", command="printf 'hook\\0ed' >&2; exit 1")
    end = await stage.run("printf", "do\\0ne", after_run=(hook,))
    assert end.summary == "done"
    assert end.hook_errors == ("hook noisy: it exited with 1: hooked",)
    end = await stage.run("sh", "-c", "printf 'bo\\0om' >&2; exit 3")
    assert end.error == "it exited with 3: boom"


async def test_half_a_character_in_a_stream_is_replaced(stage: Stage) -> None:
    told = '{"type": "result", "subtype": "success", "result": "see https://g.test/\\ud83d/pull/3"}'
    end = await stage.run("sh", "-c", f"echo '{told}'", runtime=RuntimeKind.CLAUDE)
    assert end.status is RunStatus.SUCCEEDED
    assert end.summary == "see https://g.test/?/pull/3"
    assert end.artifacts == ("https://g.test/?/pull/3",)


async def test_artifacts_are_found_in_what_was_said(stage: Stage) -> None:
    text = (
        "Opened https://github.com/o/r/pull/12, and [it](https://git.example.org/o/r/pulls/3).\n"
        "See https://gitlab.com/g/s/p/-/merge_requests/9 and again https://github.com/o/r/pull/12\n"
        "commit https://github.com/o/r/commit/0123456789abcdef; not https://github.com/o/r/issues/1"
    )
    assert (await stage.run("cat", prompt=text)).artifacts == (
        "https://github.com/o/r/pull/12",
        "https://git.example.org/o/r/pulls/3",
        "https://gitlab.com/g/s/p/-/merge_requests/9",
        "https://github.com/o/r/commit/0123456789abcdef",
    )


async def test_a_command_that_ran_into_a_usage_limit_says_so(stage: Stage) -> None:
    said = "echo 'Claude AI usage limit reached|4102444800'"
    assert not (await stage.run("sh", "-c", said)).usage_limit  # it succeeded, and just talks
    end = await stage.run("sh", "-c", f"{said}; exit 1")
    assert end.usage_limit
    assert end.usage_limit_until is None  # the year 2100 was misread


def test_of_what_a_result_file_says_no_part_is_kept_without_end(tmp_path: Path) -> None:
    said = {
        "artifacts": ["a" * (LONGEST_ARTIFACT + 1)] * (MOST_ARTIFACTS + 1),
        "error": "e" * (LONGEST_ERROR + 1),
        "summary": "s" * (LONGEST_SUMMARY + 1),
    }
    (tmp_path / "result.json").write_text(json.dumps(said))
    told = read_result(tmp_path / "result.json", Redactor({}))
    assert told is not None
    assert told.artifacts == ("a" * LONGEST_ARTIFACT,) * MOST_ARTIFACTS
    assert told.error == "e" * LONGEST_ERROR
    assert len(told.summary) == LONGEST_SUMMARY


def test_of_the_addresses_in_an_output_no_more_are_kept_than_can_be_shown() -> None:
    addresses = [f"https://github.com/o/r/pull/{n}" for n in range(1, MOST_ARTIFACTS + 2)]
    endless = f"https://github.com/{'o' * LONGEST_ARTIFACT}/r/pull/1"
    assert artifacts_in(" ".join([endless, *addresses])) == tuple(addresses[:MOST_ARTIFACTS])
