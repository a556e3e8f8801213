"""`notify` in `rota.yaml`: all mistakes at once, with their places, and nothing given away."""

from pathlib import Path

import pytest

from rota.config.loading import Loaded, load_fleet
from rota.config.schema import json_schema
from rota.model.errors import InvalidInput
from rota.model.notices import Happening

GOOD = """\
version: 1
web: {public_url: "https://rota.example.org/"}
notify:
  channels:
    ops: {type: slack, url_env: SLACK_URL}
    hook: {type: webhook, url: "https://hooks.example.org/rota?x=1", secret_env: HOOK_SECRET}
    phone: {type: ntfy, topic: rota, priority: high, tags: robot, token_env: NTFY_TOKEN}
    mail:
      type: email
      host: smtp.example.org
      from: rota@example.org
      to: ops@example.org
      username_env: SMTP_USER
      password_env: SMTP_PASSWORD
    desk: {type: command, argv: [notify-send, "{title}", "{text}"]}
    chat: {type: discord, url_env: DISCORD_URL}
  rules:
    people: {on: [blocked, failed], to: [ops, mail], label: urgent, digest: 15m}
    all: {on: budget, to: phone}
  quiet_hours: {from: "22:00", to: "7:00", timezone: Europe/Berlin, except: [breaker_open]}
signals:
  tell:
    when: {kind: work_item.status.transition, to: failed}
    then: {kind: notify, channel: ops}
"""


def read(folder: Path, text: str) -> Loaded:
    (folder / "rota.yaml").write_text(text)
    return load_fleet(folder / "rota.yaml", {})


def test_what_is_written_is_what_holds(tmp_path: Path) -> None:
    loaded = read(tmp_path, GOOD)
    config = loaded.notify
    assert loaded.web.public_url == "https://rota.example.org"
    assert [one.type for one in config.channels.values()] == [
        "slack", "webhook", "ntfy", "email", "command", "discord",
    ]  # fmt: skip
    assert config.rules["people"].on == (Happening.BLOCKED, Happening.FAILED)
    assert config.rules["all"].to == ("phone",)
    assert config.quiet_hours is not None
    assert config.quiet_hours.exceptions == (Happening.BREAKER_OPEN,)
    shown = loaded.shown["notify"]
    assert shown["quiet_hours"]["from"] == "22:00"
    assert shown["channels"]["mail"]["from"] == "rota@example.org"
    assert shown["rules"]["people"]["digest"] == "15m"


def test_a_change_of_it_is_a_change_of_the_file(tmp_path: Path) -> None:
    before = read(tmp_path, GOOD).digest
    assert read(tmp_path, GOOD.replace("15m", "16m")).digest != before
    assert read(tmp_path, GOOD.replace("rota.example.org/", "x.example.org")).digest != before


def test_editors_know_its_keys() -> None:
    schema = json_schema()
    assert {"from", "to", "except"} <= set(schema["$defs"]["QuietHours"]["properties"])
    assert "notify" in schema["properties"]


MISTAKES = {
    ("url_env: SLACK_URL", "url_env: https://hooks.slack.com/services/T/B/canary"): (
        "5:24: notify.channels.ops.url_env: write the name of an environment variable"
    ),
    ("secret_env: HOOK_SECRET", "secret_evn: HOOK_SECRET"): "did you mean 'secret_env'?",
    ('url: "https://hooks.example.org/rota?x=1", ', ""): "name either url or url_env",
    ("https://hooks.example.org/rota?x=1", "https://me:canary@h/"): "holds a user name or password",
    ("topic: rota", "topic: a/b"): "is not a topic",
    ("priority: high", "priority: urgent"): "'urgent' is not known; write 'min', 'low'",
    ("from: rota@example.org", 'from: "rota@example.org\\nBcc: x@y"'): "is not a mail address",
    ("      username_env: SMTP_USER\n", ""): "username_env and password_env go together",
    ("      to: ops@example.org", "      to: ops@example.org\n      security: none"): (
        "a password is not sent in the clear"
    ),
    ('"{title}"', '"{titel}"'): "there is no field 'titel'; did you mean 'title'?",
    ("type: discord", "type: fax"): "its type is not known; write one of webhook",
    ("blocked, failed", "blocked, fialed"): "'fialed' is not known; did you mean 'failed'?",
    ("to: [ops, mail]", "to: [ops, mial]"): "18:47: notify.rules.people.to[1]: there is no channel",
    ("digest: 15m", "digest: 15x"): "Invalid time unit",
    ('from: "22:00"', "from: 22:00"): "",  # YAML 1.2 takes it for text
    ('from: "22:00"', "from: 24:00"): 'write a time of the day in quotes: "22:00"',
    ('to: "7:00"', 'to: "22:00"'): "from and to are the same",
    ("Europe/Berlin", "Europe/Belrin"): "Unknown time zone",
    ("channel: ops", "channel: opps"): "signals.tell.then.channel: there is no channel 'opps'",
    ('"https://rota.example.org/"', "rota.example.org"): "web.public_url: is not an address",
}


@pytest.mark.parametrize(("change", "words"), MISTAKES.items())
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    assert change[0] in GOOD
    if not words:
        assert read(tmp_path, GOOD.replace(*change)).notify.channels
        return
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, GOOD.replace(*change))
    assert words in refused.value.message
    assert len(refused.value.details["mistakes"]) == 1
    assert "canary" not in refused.value.message


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD
    for old, new in [
        ("topic: rota", "topic: a/b"),
        ("type: discord", "type: fax"),
        ("to: [ops, mail]", "to: [ops, mial]"),
        ("Europe/Berlin", "Europe/Belrin"),
        ("channel: ops", "channel: opps"),
    ]:
        text = text.replace(old, new)
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, text)
    assert [one["line"] for one in refused.value.details["mistakes"]] == [7, 16, 18, 20, 24]
