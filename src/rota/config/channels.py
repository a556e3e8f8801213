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
from rota.config.scalars import SecretName, Span, Text, WebAddress
from rota.config.sources import Section
from rota.config.variables import Lax

SECONDS = timedelta(seconds=10)
PLACES = ("id", "happening", "title", "text", "url")  # fields that a command's arguments may name
_PLACE = re.compile(r"\{([^{}]*)\}")
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ADDRESS = re.compile(r"[^\s@<>\",;:\\()\[\]\x00-\x20\x7f]+@[A-Za-z0-9.-]+")
# A value where a variable's name is wanted: refused before any part of it is repeated.
_SECRET = re.compile(r"https?://|[^A-Za-z0-9_]")


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


def listed(one: Any) -> BeforeValidator:
    """One alone may stand in the place of a list of it."""
    return BeforeValidator(_several, json_schema_input_type=one | list[one])


VariableHolding = Annotated[SecretName, BeforeValidator(_named)]
Mailbox = Annotated[Text, AfterValidator(_mailbox)]
Argument = Annotated[Text, AfterValidator(_argument)]
Texts = Annotated[tuple[Text, ...], Field(strict=False), listed(Text)]
Patience = Annotated[Span, Field(le=timedelta(seconds=60))]  # shorter than the lease of a delivery


_TIMEOUT = "How long one attempt may take, for example `10s`; at most 60 seconds."


class WebhookChannel(Section):
    """JSON by POST, signed where a secret is named."""

    type: Literal["webhook"] = Field(description="`webhook`: JSON by POST.")
    url: WebAddress | None = Field(
        None, description="The address, unless `url_env` names a variable that holds it."
    )
    url_env: VariableHolding | None = Field(
        None, description="The environment variable that holds the address, instead of `url`."
    )
    headers: dict[str, Text] = Field(
        default_factory=dict, description="Further headers of the request."
    )
    secret_env: VariableHolding | None = Field(
        None,
        description="The environment variable with the secret that signs the body, in the header"
        " `X-Rota-Signature-256`. Default: the body is not signed.",
    )
    timeout: Patience = Field(SECONDS, description=_TIMEOUT)

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            raise ValueError("name either url or url_env, the variable that holds it")
        return self


class SlackChannel(Section):
    """An incoming webhook of Slack, Mattermost, or another service that understands it."""

    type: Literal["slack"] = Field(
        description="`slack`: an incoming webhook of Slack, Mattermost and others."
    )
    url_env: VariableHolding = Field(
        description="The environment variable that holds the address of the webhook."
    )
    timeout: Patience = Field(SECONDS, description=_TIMEOUT)


class DiscordChannel(Section):
    """A webhook of Discord."""

    type: Literal["discord"] = Field(description="`discord`: a webhook of Discord.")
    url_env: VariableHolding = Field(
        description="The environment variable that holds the address of the webhook."
    )
    timeout: Patience = Field(SECONDS, description=_TIMEOUT)


class NtfyChannel(Section):
    """A topic on an ntfy server, for phones."""

    type: Literal["ntfy"] = Field(description="`ntfy`: a topic on an ntfy server.")
    server: WebAddress = Field("https://ntfy.sh", description="The address of the server.")
    topic: Annotated[Text, AfterValidator(_topic)] | None = Field(
        None,
        description="The topic: letters, digits, `-` and `_`, at most 64. On a public server"
        " everyone who knows the topic can read it: use `topic_env` there.",
    )
    topic_env: VariableHolding | None = Field(
        None, description="The environment variable that holds the topic, instead of `topic`."
    )
    priority: Literal["min", "low", "default", "high", "max"] = Field(
        "default", description="The priority of the messages."
    )
    tags: Texts = Field(
        (), description="Tags of the messages. Names of emoji are shown as emoji: `[robot]`."
    )
    token_env: VariableHolding | None = Field(
        None,
        description="The environment variable that holds an access token. Default: none is sent.",
    )
    timeout: Patience = Field(SECONDS, description=_TIMEOUT)

    @model_validator(mode="after")
    def _one_topic(self) -> Self:
        if (self.topic is None) == (self.topic_env is None):
            raise ValueError("name either topic or topic_env, the variable that holds it")
        return self


class EmailChannel(Section):
    """Mail by SMTP."""

    model_config = ConfigDict(serialize_by_alias=True)

    type: Literal["email"] = Field(description="`email`: mail by SMTP.")
    host: Annotated[Text, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:-]+$")] = (
        Field(description="The SMTP server: `smtp.example.org`.")
    )
    port: Annotated[int, Field(ge=1, le=65_535), Lax] | None = Field(
        None,
        description="The port of the server. Default, by `security`: 587 for `starttls`, 465 for"
        " `tls`, 25 for `none`.",
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="How the connection is encrypted. With `none` no password is sent."
    )
    username_env: VariableHolding | None = Field(
        None,
        description="The environment variable that holds the user name. Default: no login.",
    )
    password_env: VariableHolding | None = Field(
        None,
        description="The environment variable that holds the password. Default: no login.",
    )
    sender: Mailbox = Field(alias="from", description="The sender's address: `rota@example.org`.")
    to: Annotated[
        tuple[Mailbox, ...], Field(strict=False, min_length=1, max_length=50), listed(Mailbox)
    ] = Field(description="One or several addresses, at most 50.")
    timeout: Patience = Field(SECONDS, description=_TIMEOUT)

    @model_validator(mode="after")
    def _login_is_whole_and_secret(self) -> Self:
        if (self.username_env is None) != (self.password_env is None):
            raise ValueError("username_env and password_env go together")
        if self.password_env is not None and self.security == "none":
            raise ValueError("a password is not sent in the clear; write security: starttls or tls")
        return self


class CommandChannel(Section):
    """A program on the server's machine. It gets the notification as JSON on standard input."""

    type: Literal["command"] = Field(
        description="`command`: a program on the server's machine, started in the directory of this"
        " file. It gets the notification as JSON on standard input."
    )
    argv: Annotated[tuple[Argument, ...], Field(strict=False, min_length=1)] = Field(
        description="The program and its arguments; no shell reads them. `{title}`, `{text}`,"
        " `{url}`, `{id}` and `{happening}` in an argument are filled in."
    )
    timeout: Patience = Field(
        SECONDS,
        description="How long the program may take, for example `10s`; at most 60 seconds. After"
        " that, it is ended with everything that it started.",
    )


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
