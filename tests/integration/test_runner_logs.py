"""The log of a run: what is in it, who may read it, and how it is followed while it grows."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.model.errors import InvalidInput
from rota.model.fleet import Hook, RuntimeKind
from rota.model.runs import RunStatus
from rota.runner import append, tail
from rota.runner.logs import LONGEST_LINE
from rota.runner.redaction import HIDDEN
from tests.integration.runner_stage import ENVIRON, Stage, until

CANARY = "canary-5f3a9c-value"
LONG = "ghp_0123456789abcdefghijklmnopqr"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


async def test_a_log_is_lines_of_json_for_its_owner_alone(stage: Stage) -> None:
    await stage.run("sh", "-c", "echo out; echo err >&2")
    assert stage.log.stat().st_mode & 0o777 == 0o600
    assert stage.log.parent.stat().st_mode & 0o777 == 0o700
    lines = sorted(stage.lines(), key=lambda line: line["stream"])
    assert [(line["stream"], line["text"]) for line in lines] == [
        ("stderr", "err"),
        ("stdout", "out"),
    ]
    assert all(line["ts"].endswith("Z") for line in lines)


async def test_whatever_an_agent_prints_the_log_is_json(stage: Stage) -> None:
    agent = stage.script(r"""
        import sys
        sys.stdout.buffer.write(b'\xff\xfe bad \xc3\x28\n\x00\x1b[2J\x07 bell\n')
        sys.stdout.buffer.write(b'"quote\\\n\xed\xa0\x80')
    """)
    end = await stage.run(*agent)
    assert stage.texts("stdout") == [
        "\ufffd\ufffd bad \ufffd(",
        "\x00\x1b[2J\x07 bell",
        '"quote\\',
        "\ufffd\ufffd\ufffd",
    ]
    end.summary.encode()


async def test_a_log_can_be_followed_while_it_grows(stage: Stage) -> None:
    go_on = stage.path / "go-on"
    agent = stage.script(f"""
        import os, time
        print("first", flush=True)
        while not os.path.exists({str(go_on)!r}):
            time.sleep(0.01)
        print("last")
    """)
    request = stage.request(*agent)
    run = asyncio.create_task(stage.runner.execute(request))
    seen: list[str] = []
    offsets: list[int] = []

    async def ended() -> bool:
        return run.done()

    async def follow() -> None:
        quick = asyncio.sleep
        lines = tail(request.log, follow=True, ended=ended, pause=lambda _: quick(0.01))
        async for offset, line in lines:
            seen.append(json.loads(line)["text"])
            offsets.append(offset)

    follower = asyncio.create_task(follow())
    await until(lambda: seen == ["first"], "the first line")
    assert not run.done()
    go_on.touch()
    await asyncio.wait_for(follower, 30)
    assert seen == ["first", "last"]
    again = [line async for _, line in tail(request.log, from_offset=offsets[0])]
    assert [json.loads(line)["text"] for line in again] == ["last"]
    await run


async def test_what_was_written_before_the_end_is_read_by_who_follows(tmp_path: Path) -> None:
    """The last words may come just before somebody is told that it has ended."""
    path = tmp_path / "log"

    async def ended() -> bool:
        path.write_text("the last words\n")
        return True

    assert [line async for _, line in tail(path, follow=True, ended=ended)] == [b"the last words"]


async def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert [line async for line in tail(tmp_path / "none")] == []


async def test_half_a_line_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"a":1}\n{"b":')
    assert [line async for line in tail(path)] == [(8, b'{"a":1}')]


async def test_secrets_do_not_reach_the_log_nor_the_result(tmp_path: Path) -> None:
    """Printed, complained about, written into the result, and cut in two by a flush."""
    agent = """
        import json, os, sys, time
        secret = os.environ["API_KEY"]
        print("my key is", secret)
        print(secret, file=sys.stderr)
        sys.stdout.write(secret[:9]); sys.stdout.flush(); time.sleep(0.05)
        print(secret[9:], os.environ.get("SERVER_TOKEN"))
        told = {"outcome": "failure", "summary": "used " + secret, "error": secret,
                "artifacts": ["https://github.com/o/r/pull/1?" + secret]}
        open(os.environ["ROTA_RESULT_FILE"], "w").write(json.dumps(told))
    """
    heard: list[str] = []
    environ = {**ENVIRON, "SERVER_TOKEN": "server-canary-77"}
    with Stage(tmp_path, environ=environ) as stage:
        end = await stage.run(
            *stage.script(agent),
            env={"API_KEY": CANARY},
            env_pass=("SERVER_TOKEN",),
            heard=heard.append,
        )
        everything = stage.log.read_text() + repr(end) + repr(heard)
    assert CANARY not in everything
    assert "server-canary" not in everything
    assert end.summary == "used [hidden]"
    assert heard


WORDS = """
import json, os, sys
key = os.environ["API_KEY"]
def told(**facts):
    open(os.environ["ROTA_RESULT_FILE"], "w").write(json.dumps(facts))
def result(subtype, text):
    print(json.dumps({"type": "result", "subtype": subtype, "result": text}))
def tool(text):
    used = {"type": "tool_use", "name": "sh", "input": text}
    print(json.dumps({"type": "assistant", "message": {"content": [used]}}))
"""


@pytest.mark.parametrize(
    ("runtime", "agent"),
    [
        # Each cut goes through the middle of the secret.
        ("command", "print(key + 'x' * 3983)"),
        ("command", "print('x' * (2**20 - 16) + key)"),
        ("command", "sys.exit(key + 'x' * 1783)"),
        ("command", "told(summary=key + 'x' * 3983)"),
        ("command", "told(outcome='failure', error='x' * 1984 + key)"),
        ("command", "told(artifacts=['x' * 1984 + key])"),
        ("claude", "result('success', key + 'x' * 3983)"),
        ("claude", "result('error', key + 'x' * 1983)"),
        ("claude", "result('error', key + 'x' * 1783); sys.exit(1)"),
        ("claude", "tool('x' * 484 + key)"),
    ],
)
async def test_a_secret_is_hidden_before_a_text_is_cut(
    stage: Stage, runtime: str, agent: str
) -> None:
    program = stage.script(WORDS + agent)
    end = await stage.run(*program, env={"API_KEY": LONG}, runtime=RuntimeKind(runtime))
    everything = stage.log.read_text() + repr(end)
    assert "xxx" in everything
    assert part_of(LONG, everything) == ""


@pytest.mark.parametrize("key", ['first-"half-second', "first-\\half-second", "first-hälf-second"])
@pytest.mark.parametrize(
    ("runtime", "agent"),
    [
        ("claude", "tool({'command': 'login ' + key})"),
        ("claude", "print(json.dumps({'type': 'result', 'result': {'key': key}}))"),
        ("claude", "print(json.dumps({'type': 'assistant', 'message': key}))"),  # unreadable
        ("command", "print(json.dumps({'key': key}))"),
    ],
)
async def test_a_secret_is_hidden_also_as_json_spells_it(
    stage: Stage, runtime: str, agent: str, key: str
) -> None:
    program = stage.script(WORDS + agent)
    end = await stage.run(*program, env={"API_KEY": key}, runtime=RuntimeKind(runtime))
    everything = stage.log.read_text() + repr(end)
    assert "[hidden]" in everything
    assert "first-" not in everything
    assert "lf-second" not in everything


async def test_a_secret_of_an_mcp_server_does_not_reach_the_log(stage: Stage) -> None:
    servers = {
        name: {"command": "docs-server", "env": {"DOCS_TOKEN": f"{CANARY}-{name}"}}
        for name in ("docs", "more")
    }
    agent = """
        import sys
        print(open(sys.argv[sys.argv.index("--mcp-config") + 1]).read())
    """
    await stage.run(*stage.script(agent), mcp_servers=servers, runtime=RuntimeKind.CLAUDE)
    said = stage.log.read_text()
    assert said.count("DOCS_TOKEN") == 2
    assert CANARY not in said


@pytest.mark.parametrize("size", [500, 2000])
async def test_the_words_of_a_hook_are_cut_without_its_secrets(stage: Stage, size: int) -> None:
    hook = Hook("loud", command=f"printf '%s%0{size - 16}d' $API_KEY 0; exit 1")
    end = await stage.run("true", env={"API_KEY": LONG}, after_run=(hook,))
    assert "it exited with 1: " in end.hook_errors[0]
    assert part_of(LONG, stage.log.read_text() + repr(end)) == ""


async def test_a_line_whose_beginning_is_passed_over_shows_no_half_of_a_secret(
    stage: Stage,
) -> None:
    agent = f"""
        import os, sys, time
        key = os.environ["API_KEY"]
        sys.stdout.write("full" * 1000 + "\\n" + key[:16]); sys.stdout.flush()
        while os.path.getsize({str(stage.path / "logs" / "1.jsonl")!r}) == 0:
            time.sleep(0.01)
        sys.stdout.write(key[16:] + "y" * 1000)
    """
    end = await stage.run(*stage.script(agent), env={"API_KEY": LONG}, output_limit=100)
    assert end.summary.endswith("y" * 900)
    assert part_of(LONG, stage.log.read_text() + repr(end)) == ""


def part_of(secret: str, text: str) -> str:
    """Eight characters of it that are to be seen there, if any are."""
    parts = (secret[at : at + 8] for at in range(len(secret) - 7))
    return next((part for part in parts if part in text), "")


@pytest.mark.parametrize(
    ("line", "more"),
    [
        pytest.param("echo $A_TOKEN", {"environ": {"A_TOKEN": CANARY}}, id="of the run"),
        pytest.param("echo $PLAIN", {"env_pass": ("PLAIN",)}, id="named by the configuration"),
    ],
)
async def test_a_secret_is_hidden_wherever_it_comes_from(
    tmp_path: Path, line: str, more: dict[str, Any]
) -> None:
    environ = {**ENVIRON, "PLAIN": CANARY}
    names = frozenset({"PLAIN"} if "env_pass" in more else ())
    with Stage(tmp_path, environ=environ, secret_names=lambda: names) as stage:
        end = await stage.run("sh", "-c", line, **more)
        assert end.summary == HIDDEN
        assert CANARY not in stage.log.read_text()


async def test_a_secret_is_not_put_together_by_what_is_taken_out(stage: Stage) -> None:
    """No database holds a NUL."""
    half = len(CANARY) // 2
    line = f"printf '{CANARY[:half]}\\000{CANARY[half:]}'"
    end = await stage.run("sh", "-c", line, env={"A_TOKEN": CANARY})
    assert CANARY not in end.summary


async def test_the_canary_would_be_seen(tmp_path: Path) -> None:
    """The twin: a variable whose name does not sound secret is not hidden."""
    with Stage(tmp_path) as stage:
        end = await stage.run("sh", "-c", "echo $PLAIN", env={"PLAIN": CANARY})
        assert end.summary == CANARY
        assert CANARY in stage.log.read_text()


async def test_a_log_that_cannot_be_written_is_said(stage: Stage) -> None:
    (stage.path / "logs").write_text("a file where a directory should be")
    end = await stage.run("true")
    assert end.status is RunStatus.FAILED
    assert "its log cannot be written" in (end.error or "")


async def test_who_listens_and_fails_does_not_leave_the_agent_waiting(stage: Stage) -> None:
    def deaf(_: str) -> None:
        raise LookupError("not my day")

    agent = stage.script("""
        import sys, time
        print("hello", flush=True)
        time.sleep(60)
    """)
    with pytest.raises(LookupError):
        await asyncio.wait_for(stage.run(*agent, heard=deaf), 50)
    assert stage.survivors() == []


# logs that are sent in by workers


def test_pieces_of_a_log_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log"
    assert append(path, 0, b'{"a":1}\n', limit=100) == 8
    assert append(path, 0, b'{"a":1}\n{"b":2}\n', limit=100) == 16  # sent again, and more
    assert append(path, 8, b'{"b":2}\n', limit=100) == 16
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_gap_in_a_log_is_refused_with_its_size(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        append(tmp_path / "log", 5, b"{}\n", limit=100)
    assert refused.value.details["size"] == 0


ENDLESS = b'{"text":"' + b"x" * LONGEST_LINE + b'"}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[]\n",
        b"not json\n",
        b"\n",
        b"[" * 9999 + b"\n",
        pytest.param(ENDLESS, id="endless"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InvalidInput):
        append(tmp_path / "log", 0, data, limit=10**7)
    assert (tmp_path / "log").read_bytes() == b""


def test_a_log_does_not_grow_beyond_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert append(path, 0, b'{"a":1}\n' * 10, limit=20) == 16
    assert append(path, 16, b'{"a":1}\n', limit=20) == 16
    assert append(path, 16, b'{"a":1}\n' * 9, limit=10) == 16, "the limit was larger before"
    assert path.stat().st_size == 16
