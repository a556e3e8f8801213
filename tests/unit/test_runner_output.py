"""Bytes to lines, in bounded memory; and the words of secrets taken out."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.runner.logs import LONGEST_CALL, LONGEST_TEXT, RunLog, for_people
from rota.runner.output import LONGEST, LastLines, Lines, shortened
from rota.runner.redaction import HIDDEN, Redactor, variables_named_in
from rota.runner.runtimes.gemini import LONGEST_MESSAGE, GeminiRuntime
from rota.testing.clock import ManualClock


@given(st.text(alphabet="aé\n\U0001f600", max_size=50), st.integers(1, 7))
def test_lines_are_the_same_however_they_come(text: str, size: int) -> None:
    lines, data = Lines(), text.encode()
    heard = [
        line
        for start in range(0, len(data), size)
        for line in lines.feed(data[start : start + size])
    ]
    heard += lines.finish()
    expected = text.split("\n")
    assert heard == (expected if expected[-1] else expected[:-1])


def test_what_is_not_utf_8_is_replaced() -> None:
    assert list(Lines().feed(b"a\xff\xfeb\r\n\xc3\n")) == ["a\ufffd\ufffdb", "\ufffd"]


def test_of_an_endless_line_the_beginning_is_kept() -> None:
    lines = Lines()
    for _ in range(3):
        assert list(lines.feed(b"x" * LONGEST)) == []
    (line,) = lines.feed(b"\n")
    assert line.startswith("xxx")
    assert line.endswith(f"… {2 * LONGEST} characters left out")
    assert list(lines.feed(b"next\n")) == ["next"]


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
@pytest.mark.parametrize("length", [LONGEST_TEXT, 70_004, 3 * LONGEST // 2])
def test_a_long_line_is_marked_in_the_log_with_all_that_is_missing(
    tmp_path: Path, letter: str, length: int
) -> None:
    """It is cut twice: where it is heard, and where it is written."""
    lines, data = Lines(), ("-" + letter * length).encode()
    heard = [*lines.feed(data[:99]), *lines.feed(data[99:]), *lines.feed(b"\n")]
    with RunLog(tmp_path / "log", 10 * LONGEST, Redactor({}), ManualClock()) as log:
        log.open()
        log.write([{"text": line} for line in heard])
    written = json.loads((tmp_path / "log").read_bytes())
    missing = length + 1 - LONGEST_TEXT
    assert written["left_out"] == missing
    kept = "-" + letter * (LONGEST_TEXT - 1)
    assert written["text"] == f"{kept} … {missing} characters left out"


@pytest.mark.parametrize("at_once", [True, False])
def test_what_would_still_fit_does_not_go_before_what_did_not(
    tmp_path: Path, at_once: bool
) -> None:
    events = [{"text": "x" * 1000}, {"text": "short"}]
    with RunLog(tmp_path / "log", 500, Redactor({}), ManualClock()) as log:
        log.open()
        for part in [events] if at_once else [events[:1], events[1:]]:
            log.write(part)
    lines = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [line["text"] for line in lines if "type" not in line] == ["x" * 1000, "short"]


def test_of_what_a_tool_was_called_with_the_beginning_is_kept(tmp_path: Path) -> None:
    with RunLog(tmp_path / "log", 10 * LONGEST, Redactor({}), ManualClock()) as log:
        log.open()
        log.write([{"type": "tool", "tool": "write", "text": "x" * (LONGEST_CALL + 7)}])
    assert json.loads((tmp_path / "log").read_bytes())["left_out"] == 7


def test_a_line_that_fits_is_not_marked() -> None:
    assert shortened("x" * 10, 10) == ("x" * 10, 0)


def test_the_last_lines_are_bounded() -> None:
    last = LastLines(100)
    for n in range(1000):
        last.add(f"line {n}")
    assert last.text.endswith("line 998\nline 999")
    assert len(last.text) <= 100
    last.add("y" * 1000)
    assert last.text == "y" * 100


def test_a_message_of_gemini_that_grows_too_long_is_cut_between_its_pieces() -> None:
    listener = GeminiRuntime().listener()
    for piece in ("x" * (LONGEST_MESSAGE - 4), "secret", "more"):
        event = {"type": "message", "role": "assistant", "delta": True, "content": piece}
        assert list(listener.hear(json.dumps(event))) == []
    (told,) = listener.finish()
    assert told["text"].endswith("xsecret")


def test_people_see_no_control_characters() -> None:
    assert for_people("\x1b[31mred\x1b[0m\x07 a\tb\nc\x9b2J\x7f") == "red a\tb\nc2J"


SECRETS = {
    "GH_TOKEN": "ghp_canary0123",
    "aws_secret_access_key": "wJalr+XUtn/canary",
    "DB_PASSWORD": "short",
    "DEPLOY_KEY": "-----BEGIN KEY-----\nMIIcanary1\nMIIcanary2\n-----END KEY-----",
    "PATH": "/usr/bin:/bin",
}


def test_values_of_variables_that_sound_secret_are_hidden() -> None:
    redactor = Redactor(SECRETS)
    assert redactor.text("a ghp_canary0123 b wJalr+XUtn/canary") == f"a {HIDDEN} b {HIDDEN}"
    assert redactor.text("/usr/bin:/bin short") == "/usr/bin:/bin short"
    assert redactor.text("MIIcanary2") == HIDDEN
    assert redactor.text("postgresql://rota:hunter2@db/x") == f"postgresql://{HIDDEN}@db/x"


def test_values_of_variables_that_a_configuration_names_are_hidden() -> None:
    agent = {"work_source": {"auth": {"token_env": "GH_PAT"}}, "hooks": [{"secret_env": "SEAL"}]}
    names = variables_named_in({"agents": [agent], "url_env": None, "environment": "PLAIN"})
    assert names == {"GH_PAT", "SEAL"}
    redactor = Redactor({"GH_PAT": "canary-one", "PLAIN": "canary-two"}, names=names)
    assert redactor.text("canary-one canary-two") == f"{HIDDEN} canary-two"
    assert redactor.knowing({"SEAL": "canary-six"}).text("canary-six") == HIDDEN


def test_secrets_are_hidden_in_structures_too() -> None:
    redactor = Redactor({}).knowing(SECRETS)
    assert redactor.value({"k ghp_canary0123": ["x", ("ghp_canary0123",), 5, None]}) == {
        f"k {HIDDEN}": ["x", [HIDDEN], 5, None]
    }


def test_a_longer_secret_is_hidden_before_one_that_it_begins_with() -> None:
    redactor = Redactor({"A_TOKEN": "canary-1", "B_TOKEN": "canary-1-and-more"})
    assert redactor.text("canary-1-and-more") == HIDDEN
