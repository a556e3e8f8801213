"""What the runtimes' streams are understood to say. The samples are written after their
documentation."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.fleet import RuntimeKind
from rota.model.runs import Usage
from rota.runner.runtimes import RUNTIMES
from rota.runner.runtimes.port import Report, number

DATA = Path(__file__).parents[1] / "data" / "runtimes"
STREAMS = (RuntimeKind.CLAUDE, RuntimeKind.CODEX, RuntimeKind.GEMINI)


def heard(sample: str) -> tuple[list[tuple[Any, str]], Report]:
    kind = RuntimeKind(sample.partition("-")[0])
    listener = RUNTIMES[kind].listener()
    events = []
    for line in (DATA / f"{sample}.jsonl").read_text().splitlines():
        events.extend(listener.hear(line))
    events.extend(listener.finish())
    return [(event["type"], event["text"]) for event in events], listener.report


def test_claude_tells_texts_tools_session_usage_cost_and_turns() -> None:
    events, report = heard("claude-success")
    assert events == [
        ("text", "I will look at the failing test."),
        ("tool", '{"command": "pytest -x", "description": "Run tests"}'),
        ("text", "A helper says something."),
        ("text", "Fixed in https://github.com/acme/shop/pull/31."),
        ("result", "Fixed in https://github.com/acme/shop/pull/31."),
    ]
    assert report.session_id == "5b1f4c62-7c1e-4d0a-9f58-1d2b3c4d5e6f"
    assert report.usage == Usage(20020, 75, 0.1234, 3)
    assert report.said == report.result == "Fixed in https://github.com/acme/shop/pull/31."
    assert not report.failed
    assert not report.refused


def test_claudes_tokens_are_counted_while_it_works_and_each_message_once() -> None:
    listener = RUNTIMES[RuntimeKind.CLAUDE].listener()
    for line in (DATA / "claude-success.jsonl").read_text().splitlines()[:-1]:
        list(listener.hear(line))
    assert listener.report.usage == Usage(10004 + 10 + 10006, 40 + 5 + 30)


@pytest.mark.parametrize("usage", [{}, {"usage": None}])
def test_a_message_of_claude_without_usage_is_heard(usage: dict[str, Any]) -> None:
    listener = RUNTIMES[RuntimeKind.CLAUDE].listener()
    message = {"id": "1", "content": [{"type": "text", "text": "Hello."}], **usage}
    (event,) = listener.hear(json.dumps({"type": "assistant", "message": message}))
    assert (event["type"], event["text"]) == ("text", "Hello.")


def test_claude_that_used_up_its_turns_has_failed() -> None:
    _, report = heard("claude-max-turns")
    assert report.failed
    assert report.error == "it used up its 2 turns; raise max_turns"
    assert report.said == "Still looking."


def test_claude_that_is_refused_says_until_when() -> None:
    _, report = heard("claude-usage-limit")
    assert report.failed
    assert report.refused
    assert report.resets_at is not None
    assert report.resets_at.isoformat() == "2026-05-01T19:00:00+00:00"


@pytest.mark.parametrize("subtype", ["success", "error_during_execution"])
def test_a_result_of_claude_that_is_no_text_is_told_as_one(subtype: str) -> None:
    listener = RUNTIMES[RuntimeKind.CLAUDE].listener()
    event = {"type": "result", "subtype": subtype, "result": {"fixed": ["é"]}}
    (told,) = listener.hear(json.dumps(event))
    assert told["text"] == listener.report.result == '{"fixed": ["é"]}'
    assert listener.report.error == (None if subtype == "success" else '{"fixed": ["é"]}')


def test_codex_tells_texts_tools_session_and_usage() -> None:
    events, report = heard("codex-success")
    assert events == [
        ("tool", "bash -lc 'pytest -x'"),
        ("tool", '{"q": "retry"}'),
        ("tool", '["src/shop.py"]'),
        ("error", "Reconnecting... 1/5"),
        ("text", "Fixed: https://git.example.org/acme/shop/pulls/8"),
    ]
    assert report.session_id == "019a2b3c-4d5e-7f60-8192-a3b4c5d6e7f8"
    assert report.usage == Usage(24763, 122, None, 1)
    assert report.error is None  # it came back
    assert not report.failed


def test_codex_that_failed_says_why() -> None:
    _, report = heard("codex-usage-limit")
    assert report.failed
    assert report.error is not None
    assert report.error.startswith("You've hit your usage limit.")


def test_gemini_puts_its_messages_together() -> None:
    events, report = heard("gemini-success")
    assert events == [
        ("text", "I will look."),
        ("tool", '{"command": "ls"}'),
        ("error", "Loop detected"),
        ("text", "Merged as https://gitlab.com/acme/shop/-/merge_requests/5"),
        ("result", "Merged as https://gitlab.com/acme/shop/-/merge_requests/5"),
    ]
    assert report.session_id == "d3c2b1a0-0000-4000-8000-123456789abc"
    assert report.usage == Usage(1500, 20)
    assert not report.failed


def test_gemini_that_failed_says_why() -> None:
    _, report = heard("gemini-quota")
    assert report.failed
    assert "quota will reset after 2h15m30s" in (report.error or "")


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize(
    "line",
    ["", "   ", "plain words", "{broken", "[1]", '"text"', "null", '{"type": 5}', "[" * 9999],
)
def test_what_is_no_event_is_text(kind: RuntimeKind, line: str) -> None:
    events = list(RUNTIMES[kind].listener().hear(line))
    assert [event["text"] for event in events] == ([line] if line.strip() else [])


@pytest.mark.parametrize("kind", STREAMS)
def test_events_that_nobody_knows_are_passed_over(kind: RuntimeKind) -> None:
    assert list(RUNTIMES[kind].listener().hear('{"type": "of.next.year", "x": 1}')) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("sample", sorted(path.stem for path in DATA.glob("*.jsonl")))
@given(data=st.data())
def test_an_event_of_another_shape_stops_nobody(sample: str, data: st.DataObject) -> None:
    lines = (DATA / f"{sample}.jsonl").read_text().splitlines()
    event = json.loads(data.draw(st.sampled_from(lines)))
    _spoil(event, data)
    listener = RUNTIMES[RuntimeKind(sample.partition("-")[0])].listener()
    list(listener.hear(json.dumps(event)))
    list(listener.finish())
    assert listener.report.usage.tokens >= 0


def _spoil(event: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(event)))
    if isinstance(event[key], dict) and event[key] and data.draw(st.booleans()):
        _spoil(event[key], data)
    else:
        event[key] = data.draw(JSON)


@pytest.mark.parametrize(
    "session", ["--dangerously-skip-permissions", "-x", "a b", "", "x" * 200, 7]
)
def test_a_session_that_would_be_an_option_is_none(session: object) -> None:
    line = json.dumps({"type": "system", "subtype": "init", "session_id": session})
    listener = RUNTIMES[RuntimeKind.CLAUDE].listener()
    list(listener.hear(line))
    assert listener.report.session_id is None


# Of what a stream gives for a count or a price, nothing may upset a budget or a database.
NO_COUNT = (-1, 2**31, 10**30, 1.5, True, "12", None, float("nan"))
NO_PRICE = (-0.01, 1e9, float("inf"), float("nan"), 10**400, True, "1.5", None)


@pytest.mark.parametrize("given", NO_COUNT)
def test_a_count_that_cannot_be_one_is_none(given: object) -> None:
    usage = {"input_tokens": given, "output_tokens": 7, "cache_read_input_tokens": 0}
    for line, kind in (
        ({"type": "result", "subtype": "success", "usage": usage}, RuntimeKind.CLAUDE),
        ({"type": "turn.completed", "usage": usage}, RuntimeKind.CODEX),
        ({"type": "result", "status": "success", "stats": usage}, RuntimeKind.GEMINI),
    ):
        listener = RUNTIMES[kind].listener()
        list(listener.hear(json.dumps(line)))
        counted = listener.report.usage
        assert (counted.input_tokens, counted.output_tokens) == (0, 7)


def test_a_count_may_be_as_high_as_a_database_can_hold() -> None:
    assert [number(one) for one in (0, 1, 2**31 - 1)] == [0, 1, 2**31 - 1]


@pytest.mark.parametrize(
    ("given", "cost"), [*((one, None) for one in NO_PRICE), (0, 0.0), (12, 12.0), (0.1, 0.1)]
)
def test_a_price_that_cannot_be_one_is_unknown(given: object, cost: float | None) -> None:
    listener = RUNTIMES[RuntimeKind.CLAUDE].listener()
    list(listener.hear(json.dumps({"type": "result", "total_cost_usd": given})))
    assert listener.report.usage.cost_usd == cost
