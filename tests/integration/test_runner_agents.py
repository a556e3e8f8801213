"""Claude, Codex and Gemini, played by programs that print what those would."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.model.clock import from_text
from rota.model.fleet import Limits, RuntimeKind
from rota.model.runs import RunStatus, Usage
from rota.runner.results import LONGEST_ERROR
from rota.testing.clock import ManualClock
from tests.integration.runner_stage import Stage

DATA = Path(__file__).parents[1] / "data" / "runtimes"
SESSION = "5b1f4c62-7c1e-4d0a-9f58-1d2b3c4d5e6f"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        stage.runner._clock = ManualClock()  # the samples are of its day
        yield stage


def player(stage: Stage, sample: str, exit_code: int = 0) -> str:
    """Also notes down how it was called."""
    return stage.program(
        f"""
        import json, os, sys
        called = {{"argv": sys.argv[1:], "stdin": sys.stdin.read()}}
        open({str(stage.path / "called.json")!r}, "w").write(json.dumps(called))
        sys.stdout.write(open({str(DATA / f"{sample}.jsonl")!r}).read())
        sys.exit({exit_code})
        """,
        sample.partition("-")[0],
    )


@pytest.mark.parametrize(
    ("sample", "summary", "artifact", "usage"),
    [
        (
            "claude-success",
            "Fixed in https://github.com/acme/shop/pull/31.",
            "https://github.com/acme/shop/pull/31",
            Usage(20020, 75, 0.1234, 3),
        ),
        (
            "codex-success",
            "Fixed: https://git.example.org/acme/shop/pulls/8",
            "https://git.example.org/acme/shop/pulls/8",
            Usage(24763, 122, None, 1),
        ),
        (
            "gemini-success",
            "Merged as https://gitlab.com/acme/shop/-/merge_requests/5",
            "https://gitlab.com/acme/shop/-/merge_requests/5",
            Usage(1500, 20),
        ),
    ],
)
async def test_a_run_of_each_is_understood(
    stage: Stage, sample: str, summary: str, artifact: str, usage: Usage
) -> None:
    runtime = RuntimeKind(sample.partition("-")[0])
    end = await stage.run(player(stage, sample), runtime=runtime, prompt="do it")
    assert end.status is RunStatus.SUCCEEDED
    assert (end.summary, end.artifacts, end.usage) == (summary, (artifact,), usage)
    assert end.session_id
    assert json.loads((stage.path / "called.json").read_text())["stdin"] == "do it"
    assert {"text", "tool"} <= {line.get("type") for line in stage.lines()}


async def test_a_session_is_gone_on_with(stage: Stage) -> None:
    program = player(stage, "claude-success")
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE)
    await stage.run(program, runtime=RuntimeKind.CLAUDE, session_id=end.session_id)
    argv = json.loads((stage.path / "called.json").read_text())["argv"]
    assert argv[-2:] == ["--resume", SESSION]


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ("claude", "No conversation found with session ID: s-1"),
        ("codex", "Error: thread/resume failed: no rollout found for thread id s-1 (code -32600)"),
        ("gemini", 'Error resuming session: Invalid session identifier "s-1".'),
    ],
)
async def test_a_session_that_is_gone_is_begun_anew(stage: Stage, runtime: str, said: str) -> None:
    program = stage.program(
        f"""
        import sys
        if "s-1" in sys.argv:
            sys.exit({said!r})
        print("began anew")
        """,
        runtime,
    )
    end = await stage.run(program, runtime=RuntimeKind(runtime), session_id="s-1")
    assert end.status is RunStatus.SUCCEEDED
    assert end.summary == "began anew"
    assert stage.texts("rota", "warning") == [f"it exited with 1: {said}; it begins a new session"]


async def test_another_failure_is_not_tried_again(stage: Stage) -> None:
    program = stage.program("import sys; sys.exit('not logged in')", "claude")
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE, session_id="s-1")
    assert end.error == "it exited with 1: not logged in"
    assert stage.texts("stderr") == ["not logged in"]


@pytest.mark.parametrize(
    ("sample", "until"),
    [
        ("claude-usage-limit", "2026-05-01T19:00:00.000000Z"),
        ("codex-usage-limit", "2026-05-04T05:14:00.000000Z"),
        ("gemini-quota", "2026-05-01T14:15:30.000000Z"),
    ],
)
@pytest.mark.parametrize("exit_code", [0, 1])
async def test_a_usage_limit_is_told_with_its_reset(
    stage: Stage, sample: str, until: str, exit_code: int
) -> None:
    runtime = RuntimeKind(sample.partition("-")[0])
    end = await stage.run(player(stage, sample, exit_code), runtime=runtime)
    assert end.status is RunStatus.FAILED
    assert end.usage_limit
    assert end.usage_limit_until == until
    assert from_text(until)


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "assistant",
            "message": {"content": [{"type": "text", "text": "429 Too Many Requests"}]},
        },
        {"type": "user", "message": {"content": "429 Too Many Requests"}},
    ],
)
async def test_who_works_on_limits_and_fails_has_not_met_one(
    stage: Stage, event: dict[str, object]
) -> None:
    result = {"type": "result", "subtype": "error_during_execution", "result": "tests fail"}
    program = (
        f"import sys\nprint({json.dumps(event)!r})\nprint({json.dumps(result)!r})\nsys.exit(1)"
    )
    end = await stage.run(stage.program(program, "claude"), runtime=RuntimeKind.CLAUDE)
    assert end.error == "it exited with 1: tests fail"
    assert not end.usage_limit


@pytest.mark.parametrize("days", [-1, 36, 30_000])
async def test_a_reset_that_a_stream_tells_and_nobody_can_believe_is_none(
    stage: Stage, days: int
) -> None:
    """Else its agent would stay away for that long."""
    at = int(ManualClock().now().timestamp()) + days * 86_400
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": at}}
    result = {"type": "result", "subtype": "error_during_execution", "is_error": True}
    program = f"print({json.dumps(limit)!r})\nprint({json.dumps(result)!r})"
    end = await stage.run(stage.program(program, "claude"), runtime=RuntimeKind.CLAUDE)
    assert (end.usage_limit, end.usage_limit_until) == (True, None)


async def test_of_a_long_complaint_the_end_is_kept(stage: Stage) -> None:
    why = "x" * 10_000 + " the end"
    result = {"type": "result", "subtype": "success", "is_error": True, "result": why}
    program = stage.program(f"print({json.dumps(result)!r})", "claude")
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE)
    assert len(end.error or "") == LONGEST_ERROR
    assert (end.error or "").endswith("the end")


async def test_a_runtime_that_only_complains_of_its_quota_is_understood(stage: Stage) -> None:
    program = stage.program("import sys; sys.exit('You have hit your usage limit')", "claude")
    assert (await stage.run(program, runtime=RuntimeKind.CLAUDE)).usage_limit


async def test_who_talks_about_limits_and_succeeds_has_not_met_one(stage: Stage) -> None:
    program = stage.program(
        """
        import json
        text = "I documented what happens when the usage limit reached|1777662000 is printed."
        print(json.dumps({"type": "result", "subtype": "success", "result": text}))
        """,
        "claude",
    )
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE)
    assert end.status is RunStatus.SUCCEEDED
    assert not end.usage_limit


async def test_a_stream_that_says_it_failed_has_failed_though_it_exits_with_zero(
    stage: Stage,
) -> None:
    end = await stage.run(player(stage, "claude-max-turns"), runtime=RuntimeKind.CLAUDE)
    assert end.status is RunStatus.FAILED
    assert end.error == "it used up its 2 turns; raise max_turns"


async def test_a_run_that_cost_too_much_has_failed_and_says_what(stage: Stage) -> None:
    end = await stage.run(
        player(stage, "claude-success"), runtime=RuntimeKind.CLAUDE, limits=Limits(usd=0.1)
    )
    assert end.status is RunStatus.FAILED
    assert end.error == "it cost 0.12 USD, and its limit is 0.1 (budget usd)"
    assert end.usage.cost_usd == 0.1234


async def test_what_is_told_in_a_last_line_without_an_end_counts_too(stage: Stage) -> None:
    """It is understood only when the program is gone."""
    result = {"type": "result", "subtype": "success", "result": "done", "total_cost_usd": 0.5}
    program = stage.program(f"print({json.dumps(result)!r}, end='')", "claude")
    end = await stage.run(program, runtime=RuntimeKind.CLAUDE, limits=Limits(usd=0.1))
    assert end.status is RunStatus.FAILED
    assert end.error == "it cost 0.50 USD, and its limit is 0.1 (budget usd)"


async def test_what_a_runtime_cannot_do_is_said_in_the_log(stage: Stage) -> None:
    await stage.run(player(stage, "codex-success"), runtime=RuntimeKind.CODEX, max_turns=3)
    assert stage.texts("rota", "warning") == ["codex has nothing like max_turns; it is not applied"]


async def test_a_runtime_that_is_not_installed_says_what_to_do(stage: Stage) -> None:
    end = await stage.run("no-such-claude", runtime=RuntimeKind.CLAUDE)
    assert "'no-such-claude' was not found; install it" in (end.error or "")
