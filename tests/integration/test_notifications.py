"""Every channel against a receiver that misbehaves, and a server that tells what happened."""

import asyncio
import hashlib
import hmac
import json
import os
import socket
import ssl
import sys
from base64 import b64decode
from collections.abc import Callable
from contextlib import closing
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from rota.app import open_store
from rota.cli.root import rota
from rota.config import StateDir
from rota.config.notify import NotifyConfig
from rota.model.errors import DeliveryFailed
from rota.model.notices import NOTIFICATION
from rota.model.runs import OutboxEntry
from rota.notify import Courier
from rota.notify.gathering import letter
from rota.notify.messages import Message
from rota.queue.ledger import Ledger
from rota.sources.manager import WorkSourceManager
from rota.sources.outbox import Outbox
from rota.sources.registry import SourceContext
from rota.testing.clock import ManualClock
from rota.testing.receivers import (
    Answer,
    WebReceiver,
    black_hole,
    mail_receiver,
    web_receiver,
)

CANARY = "canary-value-of-a-secret"
CERTIFICATE = Path(__file__).parents[1] / "data" / "self-signed.pem"
URL = "https://rota.example.org/items/1"
TOLD = {"happening": "blocked", "title": "Blocked: Mend the gate", "why": "no wood", "url": URL}
PATIENT = "20s"  # of a receiver that answers; only what fails waits that long
MESSAGE = Message.of("notice-7-people-c", [TOLD])


def courier(
    channel: dict[str, Any],
    environ: dict[str, str] | None = None,
    *,
    hosts: tuple[str, ...] = ("127.0.0.0/8",),
    **more: Any,
) -> Courier:
    config = NotifyConfig.model_validate({"channels": {"c": channel}, **more})
    given = {"PATH": os.environ["PATH"], **(environ or {})}
    return Courier(lambda: config, given, allowed_hosts=hosts, clock=ManualClock())


async def failure(one: Courier, message: Message = MESSAGE) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as failed:
        await one.send("c", message)
    return failed.value


def by_variable(kind: str, **more: Any) -> "ToReceiver":
    def to(receiver: WebReceiver, timeout: str = PATIENT) -> Courier:
        channel = {"type": kind, "url_env": "WEB_ADDRESS", "timeout": timeout, **more}
        return courier(channel, {"WEB_ADDRESS": f"{receiver.url}?k={CANARY}"})

    return to


def by_server(receiver: WebReceiver, timeout: str = PATIENT) -> Courier:
    server = receiver.url.removesuffix("/hook")
    channel = {"type": "ntfy", "server": server, "topic": "gate", "tags": ["door"]}
    return courier({**channel, "token_env": "T", "timeout": timeout}, {"T": CANARY})


class ToReceiver(Protocol):
    def __call__(self, receiver: WebReceiver, timeout: str = ...) -> Courier: ...


WEB: dict[str, ToReceiver] = {
    "webhook": by_variable("webhook"),
    "slack": by_variable("slack"),
    "discord": by_variable("discord"),
    "ntfy": by_server,
}


@pytest.fixture(params=WEB)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# what is sent


async def test_every_web_channel_delivers_with_the_stable_id(kind: str) -> None:
    async with web_receiver() as receiver:
        assert await WEB[kind](receiver).send("c", MESSAGE) == "it answered 200"
        [heard] = receiver.heard
    assert heard.headers["x-rota-delivery"] == MESSAGE.id
    assert heard.headers["content-type"] == "application/json"
    assert "Mend the gate" in json.dumps(heard.json)
    assert URL in json.dumps(heard.json)


async def test_a_webhook_is_signed_over_its_bytes_and_names_everything() -> None:
    async with web_receiver() as receiver:
        channel = {"type": "webhook", "url": receiver.url, "secret_env": "S"}
        await courier(channel, {"S": CANARY}).send("c", MESSAGE)
        [heard] = receiver.heard
    digest = hmac.new(CANARY.encode(), heard.body, hashlib.sha256).hexdigest()
    assert heard.headers["x-rota-signature-256"] == f"sha256={digest}"
    assert heard.json == {
        "id": MESSAGE.id,
        "type": "notification",
        "title": TOLD["title"],
        "notices": [TOLD],
    }


async def test_ntfy_gets_its_token_topic_tags_and_a_page_to_open() -> None:
    async with web_receiver() as receiver:
        await by_server(receiver).send("c", MESSAGE)
        [heard] = receiver.heard
    assert heard.headers["authorization"] == f"Bearer {CANARY}"
    assert heard.json["topic"] == "gate"
    assert heard.json["tags"] == ["door"]
    assert heard.json["click"] == URL


# faults


FAULTS = [
    (Answer(500, body=b"boom"), "it answered 500: boom", False, None),
    (Answer(503, {"Retry-After": "7"}), "it answered 503", False, 7.0),
    (Answer(429, {"Retry-After": "120"}), "it answered 429", False, 120.0),
    (Answer(429, {"Retry-After": "soon"}), "it answered 429", False, None),
    (Answer(404, body=b"no_service"), "it answered 404: no_service", True, None),
    (Answer(403, body=CANARY.encode()), "it answered 403: [hidden]", True, None),
    (Answer(500, drips=True), "it answered 500", False, None),
    (Answer(302, {"Location": "http://127.0.0.1:1/"}), "redirects are not followed", True, None),
    (Answer(hangs=True), "no answer within 1 s", False, None),
    (Answer(0, body=b""), "RemoteProtocolError", False, None),
]


async def test_a_fault_says_whether_another_attempt_is_worth_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.runner.webhooks.REPLY_SECONDS", 0.1)
    for answer, words, final, after in FAULTS:
        async with web_receiver(answer) as receiver:
            failed = await failure(WEB[kind](receiver, "1s" if answer.hangs else PATIENT))
            assert len(receiver.heard) == 1
        assert words in failed.message
        assert (failed.final, failed.after) == (final, after), words
        assert CANARY not in failed.message


async def test_what_a_receiver_says_is_one_short_line() -> None:
    said = b"no\x1b[31m\r\nservice \xe2\x80\xae" + b"x" * 2_000
    async with web_receiver(Answer(404, body=said)) as receiver:
        failed = await failure(WEB["webhook"](receiver))
    assert failed.message.startswith("it answered 404: no")
    assert failed.message.isprintable()
    assert len(failed.message) < 250


async def test_nobody_there_is_a_fault_that_may_pass(kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failed = await failure(WEB[kind](WebReceiver(taken.getsockname()[1])))
    assert failed.message.startswith("ConnectError")
    assert not failed.final


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "[::1]", "10.0.0.1"])
async def test_what_is_not_public_is_reached_only_when_it_is_allowed_by_name(host: str) -> None:
    channel = {"type": "slack", "url_env": "U", "timeout": "1s"}
    failed = await failure(courier(channel, {"U": f"http://{host}:1/{CANARY}"}, hosts=()))
    assert "not on the public internet" in failed.message
    assert failed.final
    assert CANARY not in failed.message


async def test_the_file_may_allow_a_host_for_notifications() -> None:
    async with web_receiver() as receiver:
        channel = {"type": "webhook", "url": receiver.url}
        one = courier(channel, hosts=(), allow_hosts=["127.0.0.1"])
        await one.send("c", MESSAGE)
        assert receiver.heard


async def test_a_variable_that_is_not_set_is_named_and_one_that_is_wrong_is_not_shown() -> None:
    channel = {"type": "slack", "url_env": "U"}
    missing = await failure(courier(channel))
    assert missing.message == "the environment variable U is not set"
    assert not missing.final
    wrong = await failure(courier(channel, {"U": CANARY}))
    assert "does not hold an address" in wrong.message
    assert CANARY not in wrong.message


@pytest.mark.parametrize("token", [f"{CANARY}\nmore", f"{CANARY}\x00", f"{CANARY}é"])
async def test_a_token_that_fits_no_header_is_not_shown(token: str) -> None:
    channel = {"type": "ntfy", "topic": "gate", "token_env": "T"}
    async with web_receiver() as receiver:
        server = receiver.url.removesuffix("/hook")
        failed = await failure(courier({**channel, "server": server}, {"T": token}))
        assert receiver.heard == []
    assert failed.message == "its url or one of its headers cannot be sent"


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "[::1", "127.0.0.1:99999", "nowhere.invalid", "ex\u2100mple.org", ""]
)
async def test_a_password_in_an_address_is_not_shown_whatever_is_wrong_with_it(
    address: str,
) -> None:
    url = f"http://ann:{CANARY}@{address}/x"
    one = courier({"type": "slack", "url_env": "U", "timeout": "1s"}, {"U": url})
    assert "canary" not in (await failure(one)).message


async def test_secrets_in_what_is_told_are_taken_out() -> None:
    leaky = Message.of("n", [{**TOLD, "why": f"the token {CANARY} was refused"}])
    async with web_receiver() as receiver:
        one = courier({"type": "webhook", "url": receiver.url, "secret_env": "S"}, {"S": CANARY})
        await one.send("c", leaky)
        [heard] = receiver.heard
    assert CANARY.encode() not in heard.body
    assert b"[hidden]" in heard.body


@pytest.mark.parametrize("told", ["/hook/T0/B1/short", "hook/T0/B1/short is unknown"])
async def test_of_an_address_in_short_parts_nothing_is_repeated(told: str) -> None:
    async with web_receiver(Answer(404, body=told.encode())) as receiver:
        one = courier({"type": "slack", "url_env": "U"}, {"U": f"{receiver.url}/T0/B1/short"})
        failed = await failure(one)
    assert "it answered 404" in failed.message
    assert "T0/B1" not in failed.message


async def test_by_the_outbox_with_retry_dead_letter_and_no_secret_in_any_log(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with open_store(str(tmp_path / "rota.db"), clock) as store, web_receiver() as receiver:
        receiver.script = [Answer(500), Answer(429, {"Retry-After": "60"}), Answer(200)]
        receiver.script += [Answer(403, body=CANARY.encode())]
        ledger = Ledger.on(store)
        sources = WorkSourceManager(SourceContext(ledger=ledger, clock=clock))
        one = by_variable("slack")(receiver)
        outbox = Outbox(store, ledger, sources, {NOTIFICATION: one})
        with capture_logs() as logs:
            for number in (1, 2):
                entry = letter(f"notice-{number}", "c", [TOLD], clock.now())
                await store.transact(lambda tx, entry=entry: tx.post(entry))
                for _ in range(3):
                    await outbox.tick()
                    clock.advance(61)
        assert [one.headers["x-rota-delivery"] for one in receiver.heard] == [
            "notice-1", "notice-1", "notice-1", "notice-2",
        ]  # fmt: skip
        assert await ledger.post.list() == []
        [dead] = await ledger.post.list(buried=True)
    assert (dead.id, dead.error) == ("notice-2", "it answered 403: [hidden]")
    assert [one["event"] for one in logs] == [
        "notification waits", "notification waits", "notification given up",
    ]  # fmt: skip
    assert CANARY not in str(logs)


# mail


def mailing(port: int, **more: Any) -> Courier:
    channel = {
        "type": "email",
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "from": "rota@example.org",
        "to": ["ops@example.org", "ann@example.org"],
        "timeout": PATIENT,
    }
    return courier({**channel, **more}, {"USERNAME": "rota", "PASSWORD": CANARY})


async def test_a_mail_arrives_whole() -> None:
    async with mail_receiver() as receiver:
        said = await mailing(receiver.port).send("c", MESSAGE)
    assert said == "taken for ops@example.org, ann@example.org"
    [raw] = receiver.mails
    mail = message_from_bytes(raw, policy=default)
    assert mail["Subject"] == "[Rota] Blocked: Mend the gate"
    assert mail["X-Rota-Delivery"] == MESSAGE.id
    assert URL in mail.get_content()


async def test_a_mail_goes_to_the_next_address_where_the_first_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One refuses, one does not answer."""
    look_up(monkeypatch, "127.0.0.3", "127.0.0.2", "127.0.0.1")
    async with mail_receiver() as receiver:
        channel = mailing(receiver.port, host="localhost", timeout="4s")
        with black_hole("127.0.0.2", receiver.port):
            assert "taken for" in await channel.send("c", MESSAGE)


async def test_a_mail_that_reached_no_address_says_why_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up(monkeypatch, "127.0.0.2", "127.0.0.1")
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with black_hole("127.0.0.2", port), pytest.raises(DeliveryFailed) as failed:
            await mailing(port, host="localhost", timeout="1s").send("c", MESSAGE)
    assert failed.value.message == (
        "TimeoutError: timed out; ConnectionRefusedError: [Errno 111] Connection refused"
    )


def look_up(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    async def lookup(*_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 25)) for one in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)


@pytest.mark.parametrize(
    ("faults", "words", "final"),
    [
        ({"refuses": {"MAIL": "451 later"}}, "451 later", False),
        ({"refuses": {"MAIL": "550 never"}}, "550 never", True),
        ({"refuses": {"RCPT": "550 nobody"}}, "all recipients were refused", True),
        ({"refuses": {"RCPT": "450 full"}}, "all recipients were refused", False),
        ({"refuses": {"DATA": "554 spam"}}, "554 spam", True),
        ({"refuses": {"DATA": "554 \x1b[31mspam"}}, "554", True),
        ({"hangs": True}, "no answer within 1 s", False),
    ],
)
async def test_faults_of_a_mail_server(faults: dict[str, Any], words: str, final: bool) -> None:
    async with mail_receiver(**faults) as receiver:
        failed = await failure(
            mailing(receiver.port, timeout="1s" if "hangs" in faults else PATIENT)
        )
    assert words in failed.message
    assert failed.message.isprintable()
    assert failed.final is final


async def test_a_server_without_tls_gets_neither_password_nor_mail() -> None:
    login = {"username_env": "USERNAME", "password_env": "PASSWORD"}
    async with mail_receiver() as receiver:
        failed = await failure(mailing(receiver.port, security="starttls", **login))
        assert failed.final
        assert "STARTTLS" in failed.message
        assert not any(line.startswith(("AUTH", "MAIL")) for line in receiver.said)
    assert not receiver.mails


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_login_is_given_to_a_server_with_the_right_certificate_only(
    security: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(CERTIFICATE)
    within, offered = (own, None) if security == "tls" else (None, own)
    login = {"username_env": "USERNAME", "password_env": "PASSWORD", "security": security}
    async with mail_receiver(within, tls=offered, offers=("AUTH PLAIN",)) as receiver:
        stranger = await failure(mailing(receiver.port, **login))
        assert "CERTIFICATE_VERIFY_FAILED" in stranger.message
        assert not any(line.startswith(("AUTH", "MAIL")) for line in receiver.said)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        await mailing(receiver.port, **login).send("c", MESSAGE)
        [said] = [line for line in receiver.said if line.startswith("AUTH PLAIN")]
        assert b64decode(said.split()[-1]) == f"\0rota\0{CANARY}".encode()
        receiver.refuses["AUTH"] = f"535 not {CANARY}"
        wrong = await failure(mailing(receiver.port, **login))
        assert (wrong.message, wrong.final) == ("it said 535 not [hidden]", True)


async def test_mail_to_what_is_not_public_is_refused_too() -> None:
    one = courier(
        {"type": "email", "host": "127.0.0.1", "from": "a@example.org", "to": "b@example.org"},
        hosts=(),
    )
    assert "not on the public internet" in (await failure(one)).message


# programs


async def test_a_program_gets_arguments_and_json(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + '\\n' + sys.stdin.read())"
    argv = [sys.executable, "-c", code, str(tmp_path / "out"), "{title}; touch {id}"]
    one = courier({"type": "command", "argv": argv, "timeout": PATIENT}, {"PASSWORD": CANARY})
    assert await one.send("c", MESSAGE) == "it ended with exit code 0"
    one.close()
    first, _, rest = (tmp_path / "out").read_text().partition("\n")
    assert first == f"Blocked: Mend the gate; touch {MESSAGE.id}"
    assert json.loads(rest)["notices"] == [TOLD]


async def test_faults_of_a_program() -> None:
    says = "import os, sys; print(os.environ.get('PASSWORD')); print('" + CANARY + "'); sys.exit(3)"
    for argv, timeout, words in (
        ([sys.executable, "-c", says], PATIENT, "it exited with 3: None [hidden]"),
        (["/no/such/program"], PATIENT, "/no/such/program"),
        ([sys.executable, "-c", "import time; time.sleep(600)"], "1s", "no end after 1 s"),
    ):
        channel = {"type": "command", "argv": argv, "timeout": timeout}
        one = courier(channel, {"PASSWORD": CANARY})
        failed = await failure(one)
        one.close()
        assert words in failed.message
        assert CANARY not in failed.message


# signals that name a channel


async def test_a_signal_tells_a_channel_but_not_in_quiet_hours() -> None:
    payload = {"url": None, "channel": "c", "title": "It broke", "text": "again", "firing_id": "f"}
    entry = OutboxEntry("notify-f", NOTIFICATION, None, "c", payload, "")
    async with web_receiver() as receiver:
        channel = {"type": "webhook", "url": receiver.url}
        await courier(channel)(entry)
        [heard] = receiver.heard
        assert heard.json["id"] == "notify-f"
        assert heard.json["notices"][0]["title"] == "Signal: It broke"
        quiet = {"from": "11:00", "to": "13:00"}
        with pytest.raises(DeliveryFailed) as waits:
            await courier(channel, quiet_hours=quiet)(entry)
        assert waits.value.after == 3600.0
        await courier(channel, quiet_hours={**quiet, "except": ["signal_fired"]})(entry)
        assert len(receiver.heard) == 2


# signals that name an address


def to_address(url: str, text: str = "again") -> OutboxEntry:
    payload = {"url": url, "channel": None, "name": None, "title": "It broke", "text": text}
    return OutboxEntry("notify-f", "notify", None, "f", {**payload, "firing_id": "f"}, "")


async def test_a_signal_tells_an_address_what_happened_and_no_secret() -> None:
    environ = {"API_TOKEN": CANARY}
    async with web_receiver() as receiver:
        one = courier({"type": "command", "argv": ["true"]}, environ)
        await one.post(to_address(receiver.url, f"with {CANARY}"))
        [heard] = receiver.heard
    assert heard.headers["x-rota-delivery"] == "notify-f"
    told = {"id": "notify-f", "type": "work.signal.fired", "firing_id": "f"}
    assert heard.json == {**told, "title": "It broke", "text": "with [hidden]"}


@pytest.mark.parametrize(
    ("answer", "final", "after"),
    [
        (Answer(404), True, None),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), True, None),
        (Answer(503), False, None),
        (Answer(429, headers={"Retry-After": "3600"}), False, 3600.0),
    ],
    ids=["gone", "moved", "broken", "busy"],
)
async def test_an_address_that_will_never_accept_a_signal_is_given_up(
    answer: Answer, final: bool, after: float | None
) -> None:
    async with web_receiver(answer) as receiver:
        one = courier({"type": "command", "argv": ["true"]})
        with pytest.raises(DeliveryFailed) as failed:
            await one.post(to_address(receiver.url))
    assert (failed.value.final, failed.value.after) == (final, after)


async def test_hosts_that_channels_may_reach_are_not_open_to_signals() -> None:
    async with web_receiver() as receiver:
        one = courier({"type": "command", "argv": ["true"]}, hosts=(), allow_hosts=["127.0.0.0/8"])
        with pytest.raises(DeliveryFailed, match="not on the public internet") as failed:
            await one.post(to_address(receiver.url))
        assert failed.value.final
        assert receiver.heard == []


# the command


FILE = """\
version: 1
notify:
  channels:
    good: {{type: webhook, url: "http://127.0.0.1:{port}/"}}
    bad: {{type: webhook, url: "http://127.0.0.1:1/", secret_env: HOOK_SECRET}}
  rules:
    people: {{on: [blocked, failed], to: [good], label: urgent, digest: 15m}}
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTA_HOOK_HOSTS", "127.0.0.1")
    monkeypatch.setenv("HOOK_SECRET", CANARY)
    return lambda *words: CliRunner().invoke(rota, ["notify", *words])


async def test_the_command_tests_channels_and_says_what_they_said(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    async with web_receiver() as receiver:
        (tmp_path / "rota.yaml").write_text(FILE.format(port=receiver.port))
        done = await asyncio.to_thread(shell, "test", "--json")
        one = await asyncio.to_thread(shell, "test", "good")
        assert [one.json["notices"][0]["happening"] for one in receiver.heard] == ["test"] * 2
    told = {row["channel"]: row for row in json.loads(done.stdout)["data"]}
    assert done.exit_code == 1
    assert told["good"]["result"] == "ok"
    assert told["bad"]["result"] == "fail"
    assert "ConnectError" in told["bad"]["says"]
    assert CANARY not in done.output
    assert (one.exit_code, one.stdout) == (0, "good\twebhook\tok\tit answered 200\n")
    assert not (tmp_path / ".rota").exists(), "nothing is stored"


async def test_a_test_message_leads_to_the_server_of_this_directory(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    async with web_receiver() as receiver:
        file = FILE.format(port=receiver.port) + "web: {port: 8123}\n"
        (tmp_path / "rota.yaml").write_text(file)
        await asyncio.to_thread(shell, "test", "good")
        home = StateDir(tmp_path / ".rota")
        with home.occupied():
            home.announce("http://127.0.0.1:8097")
            await asyncio.to_thread(shell, "test", "good")
        links = [one.json["notices"][0]["url"] for one in receiver.heard]
    assert links == ["http://127.0.0.1:8123/", "http://127.0.0.1:8097/"]


def test_the_command_lists_who_is_told_of_what(shell: Callable[..., Any], tmp_path: Path) -> None:
    assert shell("test").exit_code == 1
    (tmp_path / "rota.yaml").write_text(FILE.format(port=1))
    listed = shell("list")
    assert listed.stdout.splitlines() == [
        "good\twebhook\tpeople\tblocked,failed\tlabel=urgent\t15m",
        "bad\twebhook\t\t\t\t",
    ]
    unknown = shell("test", "nobody")
    assert unknown.exit_code == 1
    assert "there are: good, bad" in str(unknown.exception or unknown.output)
