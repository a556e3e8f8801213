"""Channels that are web addresses: the format of each."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, assert_never
from urllib.parse import urlsplit

from rota.config.channels import DiscordChannel, NtfyChannel, SlackChannel, WebhookChannel
from rota.model.errors import DeliveryFailed
from rota.notify.messages import Message, Notice, fitting, how_many_fit, one_line
from rota.notify.secrets import Secrets
from rota.runner.addresses import Allowed
from rota.runner.webhooks import Posting, Reply, send, signature

DELIVERY = "X-Rota-Delivery"  # the message's id, the same at every attempt
WebChannel = WebhookChannel | SlackChannel | DiscordChannel | NtfyChannel

_TRY_AGAIN = frozenset({408, 425, 429})
_NTFY_PRIORITY = {"min": 1, "low": 2, "default": 3, "high": 4, "max": 5}
SLACK_ROOM = 2_800
DISCORD_ROOM = 1_900  # of 2,000
NTFY_ROOM = 1_000  # characters, which may be four bytes each, of 4,096 bytes
_MARKDOWN = re.compile(r"([\\`*_~|<>\[\](){}#+\-.!:@&])")


async def tell(channel: WebChannel, message: Message, secrets: Secrets, allowed: Allowed) -> str:
    url, content, headers = _made(channel, message, secrets)
    body = json.dumps(content, ensure_ascii=False).encode()
    if isinstance(channel, WebhookChannel):
        headers = {**headers, **signature(channel.secret_env, body, secrets.environ)}
    seconds = channel.timeout.total_seconds()
    headers = {**headers, DELIVERY: message.id}
    return judged(await send(Posting(url, body, headers, seconds), allowed))


async def post(url: str, facts: Mapping[str, Any], delivery: str, allowed: Allowed) -> str:
    """To an address that is no channel."""
    body = json.dumps(facts, ensure_ascii=False).encode()
    return judged(await send(Posting(url, body, {DELIVERY: delivery}), allowed))


def judged(reply: Reply) -> str:
    """An answer that will not change is final; a temporary one is not."""
    if reply.ok:
        return f"it answered {reply.status}"
    said = one_line(reply.text, 200)
    words = f"{reply.in_words}{f': {said}' if said else ''}"
    passing = reply.status >= 500 or reply.status in _TRY_AGAIN
    raise DeliveryFailed(words, final=not passing, after=_seconds(reply.retry_after))


def _seconds(said: str | None) -> float | None:
    """`Retry-After`: a number, or a date."""
    if said is None:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(said)
    except (TypeError, ValueError):
        return None
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (known - datetime.now(UTC)).total_seconds())


def _made(
    channel: WebChannel, message: Message, secrets: Secrets
) -> tuple[str, dict[str, Any], Mapping[str, str]]:
    match channel:
        case WebhookChannel():
            url = channel.url or secrets.value(channel.url_env or "")
            return _checked(url), message.facts(), channel.headers
        case SlackChannel():
            return _checked(secrets.value(channel.url_env)), slack(message), {}
        case DiscordChannel():
            return _checked(secrets.value(channel.url_env)), discord(message), {}
        case NtfyChannel():
            token = secrets.value(channel.token_env) if channel.token_env else None
            topic = channel.topic or secrets.value(channel.topic_env or "")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return channel.server, ntfy(message, channel, topic), headers
        case _:
            assert_never(channel)


def _checked(url: str) -> str:
    """The address may come from a variable, so the error shows nothing of it."""
    try:
        fine = urlsplit(url).scheme in ("http", "https")
    except ValueError:  # its text may hold the address
        fine = False
    if not fine:
        raise DeliveryFailed("its variable does not hold an address like https://…", final=True)
    return url


# Slack


def slack(message: Message) -> dict[str, Any]:
    """Rich text is not parsed for markup or mentions. `text` is shown by phones, and understood by
    other programs with Slack's webhook format."""
    kept = _kept(message, SLACK_ROOM)
    head = [{"type": "text", "text": message.title, "style": {"bold": True}}]
    rows = [_rich(one, alone=message.single is not None) for one in kept]
    blocks: list[dict[str, Any]] = [{"type": "rich_text_section", "elements": head}]
    if message.single:
        blocks += rows
    else:
        blocks.append({"type": "rich_text_list", "style": "bullet", "elements": rows})
        if left := len(message.notices) - len(kept):
            more = [{"type": "text", "text": f"and {left} more"}]
            blocks.append({"type": "rich_text_section", "elements": more})
    return {
        "text": mrkdwn(message.title),
        "blocks": [{"type": "rich_text", "elements": blocks}],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _rich(notice: Notice, *, alone: bool) -> dict[str, Any]:
    text = f"\n{notice.why}\n" if alone and notice.why else "\n" if alone else f"{notice.title} "
    elements: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if notice.url:
        elements.append({"type": "link", "url": notice.url, "text": "Open"})
    return {"type": "rich_text_section", "elements": elements}


def _kept(message: Message, room: int) -> tuple[Notice, ...]:
    lines = [f"{one.title} {one.url}" for one in message.notices]
    return message.notices[: max(1, how_many_fit(lines, room))]


def mrkdwn(text: str) -> str:
    """Escapes Slack's three entities, and defuses mentions."""
    for letter, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(letter, entity)
    return unmentioned(text)


def unmentioned(text: str) -> str:
    """A zero-width space after each @ keeps it from mentioning anybody."""
    return text.replace("@", "@\u200b")


# Discord


def discord(message: Message) -> dict[str, Any]:
    if notice := message.single:
        lines = [f"**{markdown(notice.title)}**", markdown(notice.why)]
        lines = [_cut(line, DISCORD_ROOM // 2) for line in lines if line]
        content = "\n".join([*lines, *([f"<{notice.url}>"] if notice.url else [])])
    else:
        told = [f"- {markdown(one.title)} <{one.url}>" for one in message.notices]
        content = "\n".join([f"**{markdown(message.title)}**", *fitting(told, DISCORD_ROOM - 100)])
    return {"content": content, "allowed_mentions": {"parse": []}, "flags": 1 << 2}


def markdown(text: str) -> str:
    """Escapes everything that could be markup."""
    return unmentioned(_MARKDOWN.sub(r"\\\1", text))


def _cut(line: str, room: int) -> str:
    """Never after a backslash that escapes the next character."""
    return line if len(line) <= room else line[:room].rstrip("\\") + "…"


# ntfy


def ntfy(message: Message, channel: NtfyChannel, topic: str) -> dict[str, Any]:
    """Published as JSON, so that nothing goes into a header. Without `markdown` it is plain
    text."""
    made = {
        "topic": topic,
        "title": message.title[:200],
        "message": message.text(NTFY_ROOM),
        "priority": _NTFY_PRIORITY[channel.priority],
        "tags": list(channel.tags),
    }
    return made | {"click": message.url} if message.url else made
