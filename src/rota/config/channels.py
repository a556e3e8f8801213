"""Channels for notifications: `notify` in `rota.yaml`."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from rota.config.mistakes import suggestion
from rota.config.scalars import Lax, SecretName, Span, Text
from rota.config.sources import Section, is_address

SECONDS = timedelta(seconds=10)
PLACES = ("id", "happening", "title", "text", "url")  # fields that a command's arguments may name
_PLACE = re.compile(r"\{([^{}]*)\}")
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ADDRESS = re.compile(r"[^\s@<>\",;:\\()\[\]\x00-\x20\x7f]+@[A-Za-z0-9.-]+")
# A value where a variable's name is wanted: refused before any part of it is repeated.
_SECRET = re.compile(r"https?://|[^A-Za-z0-9_]")


def _web_address(value: str) -> str:
    if "@" in value:  # before any part of it is repeated
        raise ValueError("holds a user name or password, which does not belong into this file")
    if not is_address(value.partition("?")[0]):
        raise ValueError("is not an address like https://hooks.example.org/rota")
    return value


def _named(value: Any) -> Any:
    if isinstance(value, str) and _SECRET.search(value):
        raise ValueError("write the name of an environment variable here, and never what it holds")
    return value


def _topic(value: str) -> str:
    if not _TOPIC.fullmatch(value):
        raise ValueError("is not a topic: letters, digits, - and _, at most 64")
    return value


def _mailbox(value: str) -> str:
    if len(value) > 254 or not _ADDRESS.fullmatch(value) or not value.isascii():
        raise ValueError(f"{value[:100]!r} is not a mail address like rota@example.org")
    return value


def _argument(value: str) -> str:
    for place in _PLACE.findall(value):
        if place not in PLACES:
            raise ValueError(f"there is no field {place[:80]!r}{suggestion(place, PLACES)}")
    return value


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


VariableHolding = Annotated[SecretName, BeforeValidator(_named)]
WebAddress = Annotated[Text, AfterValidator(_web_address)]
Mailbox = Annotated[Text, AfterValidator(_mailbox)]
Argument = Annotated[Text, AfterValidator(_argument)]
Listed = BeforeValidator(_several)
Texts = Annotated[tuple[Text, ...], Listed, Field(strict=False)]
Patience = Annotated[Span, Field(le=timedelta(seconds=60))]  # shorter than the lease of a delivery


class WebhookChannel(Section):
    """JSON by POST, signed where a secret is named."""

    type: Literal["webhook"]
    url: WebAddress | None = None
    url_env: VariableHolding | None = None
    headers: dict[str, Text] = Field(default_factory=dict)
    secret_env: VariableHolding | None = None
    timeout: Patience = SECONDS

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            raise ValueError("name either url or url_env, the variable that holds it")
        return self


class SlackChannel(Section):
    """An incoming webhook of Slack, or of what understands the same."""

    type: Literal["slack"]
    url_env: VariableHolding
    timeout: Patience = SECONDS


class DiscordChannel(Section):
    type: Literal["discord"]
    url_env: VariableHolding
    timeout: Patience = SECONDS


class NtfyChannel(Section):
    type: Literal["ntfy"]
    server: WebAddress = "https://ntfy.sh"
    topic: Annotated[Text, AfterValidator(_topic)] | None = None
    topic_env: VariableHolding | None = None  # on a public server the topic is the password
    priority: Literal["min", "low", "default", "high", "max"] = "default"
    tags: Texts = ()
    token_env: VariableHolding | None = None
    timeout: Patience = SECONDS

    @model_validator(mode="after")
    def _one_topic(self) -> Self:
        if (self.topic is None) == (self.topic_env is None):
            raise ValueError("name either topic or topic_env, the variable that holds it")
        return self


class EmailChannel(Section):
    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["email"]
    host: Annotated[Text, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:-]+$")]
    port: Annotated[int, Lax] | None = Field(None, ge=1, le=65_535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    username_env: VariableHolding | None = None
    password_env: VariableHolding | None = None
    sender: Mailbox = Field(alias="from")
    to: Annotated[tuple[Mailbox, ...], Listed, Field(strict=False, min_length=1, max_length=50)]
    timeout: Patience = SECONDS

    @model_validator(mode="after")
    def _login_is_whole_and_secret(self) -> Self:
        if (self.username_env is None) != (self.password_env is None):
            raise ValueError("username_env and password_env go together")
        if self.password_env is not None and self.security == "none":
            raise ValueError("a password is not sent in the clear; write security: starttls or tls")
        return self


class CommandChannel(Section):
    """A program of this machine: the notice as JSON on its standard input."""

    type: Literal["command"]
    argv: Annotated[tuple[Argument, ...], Field(strict=False, min_length=1)]
    timeout: Patience = SECONDS


KINDS = ("webhook", "slack", "discord", "ntfy", "email", "command")


def _tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in KINDS else None


AnyChannel = Annotated[
    Annotated[WebhookChannel, Tag("webhook")]
    | Annotated[SlackChannel, Tag("slack")]
    | Annotated[DiscordChannel, Tag("discord")]
    | Annotated[NtfyChannel, Tag("ntfy")]
    | Annotated[EmailChannel, Tag("email")]
    | Annotated[CommandChannel, Tag("command")],
    Discriminator(
        _tag,
        custom_error_type="unknown_channel",
        custom_error_message=f"its type is not known; write one of {', '.join(KINDS)}",
    ),
]
