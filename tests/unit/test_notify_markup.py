"""What strangers write into a title commands no channel: no mention, link, markup, header."""

import json
import re
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest

from rota.config.channels import CommandChannel, EmailChannel, NtfyChannel
from rota.notify.mail import letter
from rota.notify.messages import Message
from rota.notify.program import arguments
from rota.notify.web import DISCORD_ROOM, discord, ntfy, slack

HOSTILE = [
    "@everyone @here <!channel> <!everyone> <@U024BE7LH> <@&123> <#42>",
    "<https://evil.example|Open in Rota> [Open](https://evil.example) [x]: https://e.example",
    "*bold* _it_ ~no~ `code` ```block``` ||spoiler|| # head > quote - list __u__",
    "&lt;!channel&gt; &amp; \\*\\\\",
    "line\r\nBcc: victim@example.org\r\n\r\nbody\x00\x1b[2J\u2028\u2029",
    "--help; rm -rf / $(id) `id` {text} {url} %s ${HOME}",
    "\u202egnihtemos\u2066 \u200bhidden\ufe0f <!-- comment -->",
    "\ud83d half of a pair".encode(errors="replace").decode(),
    "x" * 5_000,
    "*" * 5_000,
]
URL = "https://rota.example.org/items/1"


def facts(title: str) -> dict[str, Any]:
    return {"happening": "blocked", "title": f"Blocked: {title}", "why": title, "url": URL}


def one(title: str) -> Message:
    return Message.of("notice-1-r-c", [facts(title)])


def many(title: str, number: int = 60) -> Message:
    return Message.of("digest-1", [facts(title)] * number)


def texts(value: Any, of: str) -> list[dict[str, Any]]:
    """All parts of a type, wherever they stand."""
    if isinstance(value, list):
        return [found for part in value for found in texts(part, of)]
    if not isinstance(value, dict):
        return []
    return [*([value] if value.get("type") == of else []), *texts(list(value.values()), of)]


@pytest.mark.parametrize("title", HOSTILE)
@pytest.mark.parametrize("made", [one, many])
def test_slack_is_given_literal_text_and_our_links_alone(made: Any, title: str) -> None:
    told = slack(made(title))
    assert {part["url"] for part in texts(told["blocks"], "link")} == {URL}
    kinds = set(re.findall(r'"type": "(\w+)"', json.dumps(told["blocks"])))
    assert kinds <= {"rich_text", "rich_text_section", "rich_text_list", "text", "link"}
    assert not re.search(r"<|>|@[a-z]", told["text"])
    assert len(json.dumps(told)) < 12_000


@pytest.mark.parametrize("title", HOSTILE)
@pytest.mark.parametrize("made", [one, many])
def test_discord_is_given_no_markup_and_may_mention_nobody(made: Any, title: str) -> None:
    told = discord(made(title))
    assert told["allowed_mentions"] == {"parse": []}
    assert told["flags"] == 4
    assert not re.search(r"@\w", told["content"])
    assert len(told["content"]) <= 2_000 == DISCORD_ROOM + 100
    plain = re.sub(r"\\.", "", told["content"]).replace(f"<{URL}>", "")
    for line in plain.splitlines():
        ours = re.sub(r"^\*\*(.*)\*\*$", r"\1", line).removeprefix("- ")
        assert not re.search(r"[`*_~|<>\[\]#@]", ours), line


@pytest.mark.parametrize("title", HOSTILE)
@pytest.mark.parametrize("made", [one, many])
def test_ntfy_is_given_plain_text_that_fits(made: Any, title: str) -> None:
    channel = NtfyChannel.model_validate({"type": "ntfy", "topic": "t", "priority": "max"})
    told = ntfy(made(title), channel, "t")
    assert len(told["message"].encode()) <= 4_096
    assert "\n" not in told["title"]
    assert "markdown" not in told
    assert (told["topic"], told["priority"]) == ("t", 5)


@pytest.mark.parametrize("title", HOSTILE)
@pytest.mark.parametrize("made", [one, many])
def test_a_mail_has_our_headers_and_no_others(made: Any, title: str) -> None:
    channel = EmailChannel.model_validate(
        {"type": "email", "host": "h", "from": "rota@example.org", "to": ["a@example.org"]}
    )
    mail = message_from_bytes(letter(channel, made(title)).as_bytes(), policy=default)
    assert set(mail.keys()) == {
        "From", "To", "Subject", "Message-ID", "Auto-Submitted", "X-Rota-Delivery",
        "Content-Type", "Content-Transfer-Encoding", "MIME-Version",
    }  # fmt: skip
    assert mail["To"] == "a@example.org"
    assert mail["Message-ID"].startswith("<notice-1-r-c@" if made is one else "<digest-1@")


@pytest.mark.parametrize("title", HOSTILE)
@pytest.mark.parametrize("made", [one, many])
def test_a_program_gets_whole_arguments_and_never_an_option(made: Any, title: str) -> None:
    argv = ["show", "{title}", "{text}", "at {url}", "{id}"]
    channel = CommandChannel.model_validate({"type": "command", "argv": argv})
    told = arguments(channel, made(title))
    assert len(told) == len(argv)
    assert not any(argument.startswith("-") or "\x00" in argument for argument in told)
    assert told[0] == "show"
    assert "\n" not in told[1]


def test_a_value_is_not_looked_through_for_places() -> None:
    channel = CommandChannel.model_validate({"type": "command", "argv": ["x", "{title}"]})
    assert arguments(channel, one("{url} {id}"))[1] == "Blocked: {url} {id}"


def test_a_digest_says_how_much_it_leaves_out() -> None:
    told = many("Mend the gate")
    assert told.title == "60 notices: 60 blocked"
    assert re.search(r"and \d+ more$", told.text(1_000))
    assert len(told.text(1_000)) <= 1_000
    assert len(told.facts()["notices"]) == 60
