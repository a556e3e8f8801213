"""Delivers a message to its channel. An error says whether another attempt makes sense, and reveals
no secret."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, assert_never

from rota.config.channels import (
    AnyChannel,
    CommandChannel,
    DiscordChannel,
    EmailChannel,
    NtfyChannel,
    SlackChannel,
    WebhookChannel,
)
from rota.config.notify import NotifyConfig, QuietHours
from rota.model.clock import Clock, SystemClock
from rota.model.errors import DeliveryFailed, Forbidden, InvalidInput
from rota.model.runs import OutboxEntry
from rota.notify.messages import Message
from rota.notify.program import call
from rota.notify.quiet import quiet_until
from rota.notify.secrets import Secrets
from rota.runner.addresses import Allowed
from rota.runner.process import Nursery
from rota.runner.redaction import Redactor

_OF_THE_DELIVERY = frozenset({"url", "channel", "name"})  # of a signal's facts: not to be told


class Courier:
    """Delivers letters of the outbox, and test messages."""

    def __init__(
        self,
        config: Callable[[], NotifyConfig],
        environ: Mapping[str, str],
        *,
        allowed_hosts: Collection[str] = (),
        place: Path = Path(),
        clock: Clock | None = None,
    ) -> None:
        """`config` is called at every delivery, because it may have changed. Programs run in
        `place`."""
        self._config = config
        self._environ = environ
        self._hosts = allowed_hosts
        self._place = place.resolve()  # the nursery runs in another directory
        self._clock = clock or SystemClock()
        self._nursery = Nursery()

    def close(self) -> None:
        self._nursery.close()

    async def __call__(self, entry: OutboxEntry) -> None:
        """Notices by the rules, or what a signal tells a channel."""
        notices = entry.payload.get("notices") or [self._by_signal(entry.payload)]
        await self.send(entry.payload["channel"], Message.of(entry.id, notices))

    async def post(self, entry: OutboxEntry) -> None:
        """To an address that a signal names. Not to the hosts that only channels may reach: anybody
        who may make signals names the address."""
        from rota.notify.web import post  # noqa: PLC0415

        facts = {
            name: one for name, one in entry.payload.items() if name not in _OF_THE_DELIVERY
        } | {"id": entry.id, "type": "work.signal.fired"}
        redactor = Redactor(self._environ)
        allowed = Allowed.of(self._hosts)
        await _judged(
            post(entry.payload["url"], redactor.value(facts), entry.id, allowed), redactor
        )

    def _by_signal(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """It waits until quiet hours are over."""
        now = self._clock.now()
        if end := quiet_until(self._quiet_hours(), now):
            wait = (end - now).total_seconds()
            raise DeliveryFailed("it waits until quiet hours are over", after=wait)
        return {
            "happening": "signal_fired",
            "title": f"Signal: {facts.get('title') or facts.get('name') or 'it has fired'}",
            "why": facts.get("text"),
            "url": None,
            **{name: facts.get(name) for name in ("signal_id", "firing_id", "work_item_id")},
        }

    def _quiet_hours(self) -> QuietHours | None:
        hours = self._config().quiet_hours
        return None if hours is None or "signal_fired" in hours.exceptions else hours

    async def send(self, name: str, message: Message) -> str:
        """Returns the receiver's answer."""
        config = self._config()
        channel = config.channels.get(name)
        if channel is None:
            raise DeliveryFailed(f"there is no channel {name!r} in notify.channels")
        secrets = Secrets.of(channel, self._environ)
        allowed = Allowed.of((*self._hosts, *config.allow_hosts))
        clean = Message.of(
            message.id, secrets.redactor.value([one.facts for one in message.notices])
        )
        return await _judged(self._send(channel, clean, secrets, allowed), secrets.redactor)

    async def _send(
        self, channel: AnyChannel, message: Message, secrets: Secrets, allowed: Allowed
    ) -> str:
        # The libraries for the web and for mail are loaded only for such channels.
        match channel:
            case WebhookChannel() | SlackChannel() | DiscordChannel() | NtfyChannel():
                from rota.notify.web import tell  # noqa: PLC0415

                return await tell(channel, message, secrets, allowed)
            case EmailChannel():
                from rota.notify.mail import mail  # noqa: PLC0415

                return await mail(channel, message, secrets, allowed)
            case CommandChannel():
                return await call(channel, message, self._environ, self._nursery, self._place)
            case _:
                assert_never(channel)


async def _judged(sending: Awaitable[str], redactor: Redactor) -> str:
    try:
        return redactor.text(await sending)
    except DeliveryFailed as error:
        said = redactor.text(error.message)
        raise DeliveryFailed(said, final=error.final, after=error.after) from None
    except Forbidden as error:
        raise DeliveryFailed(redactor.text(error.message), final=True) from None
    except InvalidInput as error:
        raise DeliveryFailed(redactor.text(error.message)) from None


def trial_facts(name: str, public_url: str) -> dict[str, Any]:
    """A test message."""
    return {
        "happening": "test",
        "title": f"Test: channel {name} of Rota",
        "why": "rota notify test was called; nothing has happened",
        "url": f"{public_url}/",
    }
