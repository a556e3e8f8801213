"""`rota mcp` as coding agents start it: a process, spoken to by the official client."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.client import SyncWorkQueueClient
from tests.acceptance.terminal import ThisProcess, environment
from tests.faults.processes import Process, Server, eventually, processes, serving

HERE = Path(__file__).parent
ROTA = [sys.executable, "-m", "rota"]
ITEMS = 12

Start = Callable[..., Process]


@pytest.fixture
def server(tmp_path: Path, database: str) -> Iterator[Server]:
    with serving(tmp_path / "server", database) as one:
        yield one


@pytest.fixture
def start() -> Iterator[Start]:
    with processes() as begin:
        yield begin


def heard(agent: Process, event: str) -> dict[str, Any]:
    said: dict[str, Any] = agent.hear()
    while said["event"] != event:
        said = agent.hear()
    return said


def test_two_agents_race_and_one_is_killed_and_nothing_is_lost_or_doubled(
    server: Server, start: Start, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    command = [*ROTA, "mcp", "--url", server.url, "--agent"]
    ann, bob = (
        start(str(HERE / "mcp_agent.py"), str(tmp_path), *command, name) for name in ("ann", "bob")
    )
    with SyncWorkQueueClient(server.url) as client:
        items = [client.work_add("chore", f"item {n}", max_attempts=9)["id"] for n in range(ITEMS)]
        last = client.work_add("chore", "WAIT here", agent="ann", priority=4)["id"]
        for agent in (ann, bob):
            heard(agent, "ready")
        for agent in (ann, bob):
            agent.say("go")
        said = [ann.hear()]
        while said[-1] != {"event": "claimed", "id": last}:
            said.append(ann.hear())
        theirs = _children(ann.pid)
        ann.signal(signal.SIGKILL)
        ann.join()
        items += [last, *(client.work_add("chore", f"later {n}")["id"] for n in range(ITEMS))]
        eventually(lambda: not any(map(_is_alive, theirs)), "its MCP server ends with it")
        eventually(lambda: client.work_get(last)["status"] == "queued", "its item comes back")
        client.edit(last, assigned_agent=None, description="now for anybody")
        said += bob.hear_all()
        assert said[-1] == {"event": "ended"}
        assert bob.join() == 0
        told = [one for one in said if one["event"] == "completed"]
        assert Counter(one["id"] for one in told) == Counter(items)
        assert not any(one["error"] for one in told)
        events = client.events(types=["work.completed"], limit=1000)
        assert Counter(one["work_item_id"] for one in events) == Counter(items)
        assert {one["status"] for one in client.work_list()} == {"completed"}
    assert httpx2.get(f"{server.url}/mcp").status_code == 405, "it is served there, too"
    figure(f"{len(items)} items × 2 agents by MCP, 1 killed: 0 lost, 0 completed twice")


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert found
    return [int(one) for one in found]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Raw:
    """The protocol letter by letter."""

    def __init__(self, place: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*ROTA, "mcp", *options],
            cwd=place,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def tell(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.tell(json.dumps(asked).encode())
        return self.answer(number)

    def call(self, number: int, tool: str, **given: Any) -> dict[str, Any]:
        answer = self.ask(number, "tools/call", name=tool, arguments=given)
        told: dict[str, Any] = answer["result"]["structuredContent"]
        return told

    def answer(self, number: int | None) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)  # nothing else may stand on standard output
            if "id" in found and found["id"] == number:
                return found
        raise EOFError

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Raw]:
    one = Raw(tmp_path, "--agent", "smith")
    yield one
    one.process.kill()
    assert one.process.stdin is not None
    if not one.process.stdin.closed:
        one.end()


UNREADABLE = {
    b"not json": -32700,
    b"\xff\xfe": -32700,
    b"[]": -32600,
    b"{}": -32600,
    b'{"jsonrpc": "2.0"}': -32600,
    b'{"jsonrpc": "2.0", "id": true, "method": "tools/list", "params": 5}': -32602,
}


def test_bad_messages_do_not_end_a_conversation_and_its_claims_are_kept_by_use_of_other_tools(
    raw: Raw, tmp_path: Path
) -> None:
    here = ThisProcess(tmp_path)
    item = here.type("add", "Mend the gate").strip()
    raw.tell(b'{"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": 5}')
    assert raw.answer(9)["error"]["code"] == -32602, "also before it has begun"
    began = raw.ask(
        1, "initialize", protocolVersion="2025-06-18", capabilities={},
        clientInfo={"name": "old", "version": "1"},
    )  # fmt: skip
    assert began["result"]["protocolVersion"] == "2025-06-18"
    raw.tell(b"")
    raw.tell(b'{"jsonrpc": "2.0", "id": 1, "result": 5}')
    for line, code in UNREADABLE.items():
        raw.tell(line)
        assert raw.answer(None)["error"]["code"] == code
    raw.tell(b'{"id": 8, "method": "tools/list"}')
    assert raw.answer(8)["error"]["code"] == -32600
    raw.tell(b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}')
    assert raw.answer(None)["error"]["code"] == -32600, "nobody waits for ever"
    assert raw.ask(2, "nope/nope")["error"]["code"] == -32601
    assert raw.ask(3, "tools/call", name="work_list", arguments=[1])["error"]["code"] == -32602
    assert raw.ask(4, "tools/call", name="rm_rf")["error"]["code"] == -32602
    huge = raw.call(5, "work_add", description="x" * (2 * 1024 * 1024))
    assert huge["error"]["code"] == "too_large"
    claim = raw.call(6, "work_claim", lease_seconds=6)["claim"]
    here.type("hook", "agent", "tool", "--agent", "smith")
    seen = tmp_path / ".rota/agents/smith.seen"

    def lease() -> str:
        os.utime(seen)  # what the hook does at every use of a tool
        return str(here.json("show", item)["lease_expires_at"])

    eventually(lambda: lease() > claim["expires_at"], "the claim is kept")
    assert raw.call(7, "work_complete", id=item)["item"]["status"] == "completed"
    raw.process.send_signal(signal.SIGINT)
    assert raw.process.wait(30) == -signal.SIGINT, "it ends though nobody has said anything more"


def test_without_the_package_it_is_said_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from rota.cli import main; sys.exit(main(['mcp', '--agent', 'smith']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'rota[mcp]'" in done.stderr
    assert not (tmp_path / ".rota").exists()
