"""Programs and web addresses that are told how a run ended."""

import asyncio
import hashlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from rota.model.fleet import Hook
from rota.model.runs import RunEnd, RunStatus
from rota.runner.addresses import Allowed
from rota.runner.webhooks import LONGEST_REPLY, Posting, send
from rota.testing.receivers import black_hole
from tests.integration.runner_stage import ENVIRON, Stage

CANARY = "canary-41d7-secret"
CERTIFICATE = Path(__file__).parents[1] / "data" / "self-signed.pem"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, environ={**ENVIRON, "SIGNING_SECRET": CANARY}) as stage:
        yield stage


def hook(command: Any = None, **more: Any) -> Hook:
    return Hook("tell", command, **more)


# programs


async def test_a_hook_hears_how_the_run_ended(stage: Stage) -> None:
    end = await stage.run(
        "echo", "see https://github.com/o/r/pull/1",
        after_run=(hook(("tee", "told.json")),),
        context={"item": {"id": "42"}},
    )  # fmt: skip
    assert end.hook_errors == ()
    told = json.loads((stage.place / "told.json").read_text())
    assert (told["run_id"], told["agent"]) == ("run-1", "tester")
    assert told["context"] == {"item": {"id": "42"}}
    assert told["run"]["status"] == "succeeded"
    assert told["run"]["artifacts"] == ["https://github.com/o/r/pull/1"]
    assert stage.texts("rota", "hook") != []


async def test_a_line_of_shell_is_run_as_it_was_written(stage: Stage) -> None:
    nasty = "$(touch owned); `touch owned`"
    line = 'echo "$ROTA_HOOK_EVENT $ROTA_RUN_ID" > told && cat > context'
    await stage.run("cat", prompt=nasty, after_run=(hook(line),))
    assert (stage.place / "told").read_text() == "after_run run-1\n"
    assert nasty in json.loads((stage.place / "context").read_text())["run"]["summary"]
    assert not (stage.place / "owned").exists()


@pytest.mark.parametrize(("line", "told"), [("exit 0", ["after"]), ("exit 1", ["after", "error"])])
async def test_hooks_for_errors_hear_of_errors_only(
    stage: Stage, line: str, told: list[str]
) -> None:
    await stage.run(
        "sh", "-c", line,
        after_run=(hook("echo after >> told"),), on_error=(hook("echo error >> told"),),
    )  # fmt: skip
    assert (stage.place / "told").read_text().split() == told


async def test_hooks_for_errors_hear_of_runs_that_could_not_start(stage: Stage) -> None:
    await stage.run("no-such-program", on_error=(hook("cat > told"),))
    told = json.loads((stage.place / "told").read_text())
    assert "was not found" in told["run"]["error"]


async def test_a_hook_hears_of_the_statuses_that_it_asked_for(stage: Stage) -> None:
    hooks = (hook("touch partial", when=("partial",)), hook("touch good", when=("succeeded",)))
    await stage.run("true", after_run=hooks)
    assert [path.name for path in stage.place.iterdir()] == ["good"]


async def test_a_hook_that_fails_is_recorded_and_changes_nothing(stage: Stage) -> None:
    hooks = (hook("echo oh no >&2; exit 4"), hook("touch next"))
    end = await stage.run("true", after_run=hooks)
    assert end.status is RunStatus.SUCCEEDED
    assert end.hook_errors == ("hook tell: it exited with 4: oh no",)
    assert (stage.place / "next").exists()


async def test_a_hook_that_must_not_fail_makes_the_run_fail(stage: Stage) -> None:
    end = await stage.run("true", after_run=(hook("exit 4", continue_on_error=False),))
    assert end.status is RunStatus.FAILED
    assert end.error == "hook tell: it exited with 4"


async def test_a_hook_that_must_not_fail_leaves_a_failure_as_it_was(stage: Stage) -> None:
    strict = hook("exit 4", continue_on_error=False)
    end = await stage.run("sleep", "60", after_run=(strict,), timeout=timedelta(seconds=0.1))
    assert end.status is RunStatus.TIMED_OUT
    assert end.hook_errors == ("hook tell: it exited with 4",)


async def test_a_hook_that_takes_too_long_is_ended_with_all_it_started(stage: Stage) -> None:
    slow = hook(
        f"setsid sh -c 'sleep 60; : {stage.path}' & sleep 60", timeout=timedelta(seconds=0.3)
    )
    end = await stage.run("true", after_run=(slow,))
    assert end.hook_errors == ("hook tell: no end after 0.3 s",)
    assert stage.survivors() == []


async def test_a_hook_gets_no_secrets_of_the_server(stage: Stage) -> None:
    await stage.run("true", after_run=(hook("env > told"),), env={"MINE": "1"})
    told = (stage.place / "told").read_text()
    assert "MINE=1" in told
    assert CANARY not in told


async def test_a_hook_is_not_told_secrets_either(stage: Stage) -> None:
    telling = (hook("cat > told"),)
    await stage.run("echo", CANARY, after_run=telling, context={"message": f"my key is {CANARY}"})
    told = (stage.place / "told").read_text()
    assert CANARY not in told
    assert "my key is [hidden]" in told


async def test_a_hook_without_a_program_says_so(stage: Stage) -> None:
    end = await stage.run("true", after_run=(hook(),))
    assert end.hook_errors == ("hook tell: it has neither a command nor a url",)


# web addresses


class Listener:
    """A server on loopback that keeps what it is told."""

    def __init__(self, status: int = 204, *, secure: bool = False) -> None:
        self.asked_for: list[str | None] = []
        self.heard: list[tuple[dict[str, str], bytes]] = []
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                heard.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(status)
                self.send_header("Location", "http://169.254.169.254/latest/meta-data")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        if secure:
            self._server.socket = self._encrypted(self._server.socket)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def _encrypted(self, plain: socket.socket) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        context.sni_callback = lambda _socket, name, _context: self.asked_for.append(name)
        return context.wrap_socket(plain, server_side=True)

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


async def told_by_web(path: Path, url: str, allowed: tuple[str, ...], **more: Any) -> RunEnd:
    environ = {**ENVIRON, "SIGNING_SECRET": CANARY}
    with Stage(path, environ=environ, allowed_hosts=allowed) as stage:
        end = await stage.run("true", after_run=(hook(url=url, **more),))
        assert CANARY not in stage.log.read_text() + repr(end)
        return end


async def test_a_webhook_is_a_signed_post(tmp_path: Path) -> None:
    with Listener() as listener:
        url = f"http://localhost:{listener.port}/path?x=1"
        end = await told_by_web(
            tmp_path, url, ("localhost",),
            secret_env="SIGNING_SECRET",
            headers={"X-Mine": "yes", "Authorization": CANARY, "X-Rota-Signature-256": "forged"},
        )  # fmt: skip
    assert end.hook_errors == ()
    ((headers, body),) = listener.heard
    assert json.loads(body)["run"]["status"] == "succeeded"
    digest = hmac.new(CANARY.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-rota-signature-256"] == f"sha256={digest}"
    assert headers["host"] == f"localhost:{listener.port}"
    assert headers["content-type"] == "application/json"
    assert headers["x-mine"] == "yes"


async def test_a_webhook_goes_by_no_proxy_and_shows_no_password_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a proxy it would go wherever that finds the name; the address was vetted here."""
    with socket.socket() as nobody, Listener() as listener:
        nobody.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        url = f"http://me:{CANARY}@localhost:{listener.port}/"
        end = await told_by_web(tmp_path, url, ("localhost",))
    assert end.hook_errors == ()
    ((headers, _),) = listener.heard
    assert headers["host"] == f"localhost:{listener.port}"
    assert CANARY not in str(headers)


async def test_a_certificate_is_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    trusting = httpx2.AsyncHTTPTransport(verify=ssl.create_default_context(cafile=CERTIFICATE))
    with (
        Listener(secure=True) as listener,
        Stage(tmp_path, allowed_hosts=("localhost",), transport=trusting) as stage,
    ):
        url = f"https://localhost:{listener.port}/"
        end = await stage.run("true", after_run=(hook(url=url),))
    assert end.hook_errors == ()
    assert listener.asked_for == ["localhost"]
    assert len(listener.heard) == 1


async def test_a_certificate_that_nobody_vouches_for_is_not_accepted(tmp_path: Path) -> None:
    with Listener(secure=True) as listener:
        end = await told_by_web(tmp_path, f"https://localhost:{listener.port}/", ("localhost",))
    assert "certificate" in end.hook_errors[0].lower()
    assert listener.heard == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "[::1]", "10.0.0.1"])
async def test_a_webhook_to_an_address_inside_is_refused(tmp_path: Path, host: str) -> None:
    with Listener() as listener:
        end = await told_by_web(tmp_path, f"http://{host}:{listener.port}/", ())
    assert "not on the public internet" in end.hook_errors[0]
    assert listener.heard == []


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with Listener(status=307) as listener:
        url = f"http://127.0.0.1:{listener.port}/"
        end = await told_by_web(tmp_path, url, ("127.0.0.0/8",))
    assert end.hook_errors == (
        "hook tell: it answered 307; redirects are not followed: write the final address",
    )
    assert len(listener.heard) == 1


async def test_a_webhook_goes_to_the_address_that_was_vetted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads outside when it is looked up, and inside the next time."""
    answers = [["93.184.216.34"], ["127.0.0.1"]]

    async def lookup(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in answers.pop(0)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200)

    transport = httpx2.MockTransport(answer)
    with Stage(tmp_path, transport=transport) as stage:
        end = await stage.run("true", after_run=(hook(url="https://rebind.example/x"),))
    assert end.hook_errors == ()
    (request,) = asked
    assert request.url.host == "93.184.216.34"
    assert request.headers["host"] == "rebind.example"
    assert request.extensions["sni_hostname"] == "rebind.example"
    assert len(answers) == 1


async def test_a_webhook_goes_to_the_next_address_where_the_first_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a name with an address of IPv6 on a machine without."""
    found = ["::1", "127.0.0.2", "127.0.0.1"]
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up(found))
    with Listener() as listener:
        url = f"http://both.example:{listener.port}/"
        end = await told_by_web(tmp_path, url, ("both.example",))
    assert end.hook_errors == ()
    ((headers, _),) = listener.heard
    assert headers["host"] == f"both.example:{listener.port}"


async def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ["127.0.0.2", "127.0.0.1"]
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up(found))
    with Listener() as listener, black_hole("127.0.0.2", listener.port):
        url = f"http://both.example:{listener.port}/"
        end = await told_by_web(tmp_path, url, ("both.example",), timeout=timedelta(seconds=3))
    assert end.hook_errors == ()
    assert len(listener.heard) == 1


async def test_a_failed_webhook_says_what_each_address_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one says least, where this machine has no IPv6."""
    found = ["127.0.0.1", "127.0.0.2"]
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up(found))
    with Listener(secure=True) as listener:
        url = f"https://both.example:{listener.port}/"
        (error,) = (await told_by_web(tmp_path, url, ("both.example",))).hook_errors
    first, last = error.split("; ")
    assert "CERTIFICATE_VERIFY_FAILED" in first
    assert "All connection attempts failed" in last


@pytest.mark.parametrize("fault", [httpx2.ReadError, httpx2.WriteError, httpx2.ReadTimeout])
async def test_a_webhook_that_may_have_arrived_goes_to_no_other_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[httpx2.TransportError]
) -> None:
    found = ["93.184.216.34", "93.184.216.35"]
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up(found))
    asked: list[httpx2.Request] = []

    def fail(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        raise fault("cut", request=request)

    with Stage(tmp_path, transport=httpx2.MockTransport(fail)) as stage:
        end = await stage.run("true", after_run=(hook(url="https://both.example/x"),))
    assert fault.__name__ in end.hook_errors[0]
    assert [one.url.host for one in asked] == found[:1]


def looked_up(addresses: Sequence[str]) -> Callable[..., Awaitable[list[Any]]]:
    async def lookup(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in addresses]

    return lookup


async def test_one_private_address_among_public_ones_is_enough_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ("93.184.216.34", "10.0.0.1")
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up(both))
    end = await told_by_web(tmp_path, "https://both.example/", ())
    assert "10.0.0.1" in end.hook_errors[0]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "not an address on the web"),
        ("gopher://example.org/", "not an address on the web"),
        ("https://", "not an address on the web"),
        ("http://example.org:99999/", "cannot be sent"),
        ("http://[half/", "cannot be sent"),
        ("http://127.0.0.1:1/", "ConnectError"),
    ],
)
async def test_a_webhook_that_cannot_be_sent_says_why(tmp_path: Path, url: str, why: str) -> None:
    end = await told_by_web(tmp_path, url, ("127.0.0.1",))
    assert why in end.hook_errors[0]
    assert end.status is RunStatus.SUCCEEDED


async def test_a_webhook_whose_secret_is_not_set_is_not_sent(tmp_path: Path) -> None:
    with Listener() as listener:
        url = f"http://127.0.0.1:{listener.port}/"
        end = await told_by_web(tmp_path, url, ("127.0.0.1",), secret_env="NOT_SET")
    assert "NOT_SET is not set" in end.hook_errors[0]
    assert listener.heard == []


async def test_of_a_long_answer_only_the_beginning_is_read() -> None:
    pieces = 0

    async def told() -> AsyncIterator[bytes]:
        nonlocal pieces
        while pieces < 100:
            pieces += 1
            yield b"x" * 1000

    via = httpx2.MockTransport(lambda _: httpx2.Response(500, content=told()))
    posting = Posting("http://127.0.0.1/", b"{}", {})
    reply = await send(posting, Allowed.of(["127.0.0.1"]), via)
    assert (reply.status, reply.text) == (500, "x" * LONGEST_REPLY)
    assert pieces == LONGEST_REPLY // 1000 + 1
