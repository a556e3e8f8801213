"""Notifications: channels and the rules that lead to them."""

from typing import TYPE_CHECKING, Any

import click

from rota.cli.ending import NEGATIVE
from rota.cli.output import column
from rota.cli.session import config_option, group
from rota.model.errors import NotFound
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.loading import Loaded
    from rota.config.notify import NotifyConfig, NotifyRule

notify = group("notify", "List and test notification channels.", "rota notify test ops")

_CHANNELS = [
    column("channel", whole=True),
    column("type", spare=2),
    column("rule"),
    column("on", folds=True),
    column("only", folds=True, spare=3),
    column("digest", spare=1),
]
_TRIED = [
    column("channel", whole=True),
    column("type", spare=1),
    column("result"),
    column("says", folds=True),
]


@notify.member("list", example="rota notify list --json")
@config_option
def list_channels(session: "Session", /) -> None:
    """List the channels in rota.yaml, and their rules.

    In a pipe the columns are channel, type, rule, happenings, filters and digest.
    """
    config = _loaded(session).notify
    rows = [row for name in config.channels for row in _rows(config, name)]
    quiet = config.quiet_hours
    told = quiet.model_dump(mode="json") if quiet else None
    session.output.table(rows, _CHANNELS, quiet_hours=told)
    if told:
        session.output.say(f"quiet from {told['from']} to {told['to']}, {told['timezone']}")
    if not rows:
        session.output.say("no channels: rota.yaml has none below notify")


def _rows(config: "NotifyConfig", name: str) -> list[dict[str, Any]]:
    kind = config.channels[name].type
    leading = [(one, rule) for one, rule in config.rules.items() if name in rule.to]
    if not leading:
        return [{"channel": name, "type": kind, "rule": None, "on": [], "only": [], "digest": None}]
    return [{"channel": name, "type": kind, **_told(one, rule)} for one, rule in leading]


def _told(name: str, rule: "NotifyRule") -> dict[str, Any]:
    said = rule.model_dump(mode="json")
    only = [f"{key}={one}" for key in ("project", "type", "label", "agent") for one in said[key]]
    return {"rule": name, "on": said["on"], "only": only, "digest": said["digest"]}


@notify.member("test", example="rota notify test ops")
@click.argument("channel", required=False)
@config_option
def test(session: "Session", /, channel: str | None) -> None:
    """Send a test message through one channel, or all.

    No server is needed: this command sends the message itself, once, with the environment variables
    of this shell. Exit code 1 when a channel failed.
    """
    from rota.cli.desks import run

    loaded = _loaded(session)
    names = _named(loaded.notify, channel)
    if not names:
        session.output.negative([], "no_channel", "no channels: rota.yaml has none below notify")
    rows = run(_tried(session, loaded, names))
    failed = [row["channel"] for row in rows if row["result"] != "ok"]
    session.output.table(rows, _TRIED, failed=failed)
    if failed:
        raise click.exceptions.Exit(NEGATIVE)


def _named(config: "NotifyConfig", channel: str | None) -> list[str]:
    if channel is None or channel in config.channels:
        return list(config.channels) if channel is None else [channel]
    known = ", ".join(config.channels) or "none"
    raise NotFound(f"there is no channel {channel[:80]!r} in rota.yaml; there are: {known}")


async def _tried(session: "Session", loaded: "Loaded", names: list[str]) -> list[dict[str, Any]]:
    import asyncio

    from rota.notify.sending import Courier

    settings = session.settings
    courier = Courier(
        lambda: loaded.notify,
        environ,
        allowed_hosts=settings.hook_hosts,
        place=settings.config.resolve().parent,
    )
    try:
        return await asyncio.gather(*(_try(session, courier, loaded, name) for name in names))
    finally:
        courier.close()


def _address(session: "Session", loaded: "Loaded") -> str:
    """The address of the server that runs here, or else of the one that would."""
    from rota.config import StateDir

    running = StateDir(session.settings.state_dir).running()
    planned = session.settings.listening(loaded.web.host, loaded.web.port)
    return running.url if running is not None else planned.url


async def _try(session: "Session", courier: Any, loaded: "Loaded", name: str) -> dict[str, Any]:
    from uuid import uuid4

    from rota.model.errors import DeliveryFailed
    from rota.notify.messages import Message
    from rota.notify.sending import trial_facts

    facts = trial_facts(name, loaded.web.public_url or _address(session, loaded))
    row = {"channel": name, "type": loaded.notify.channels[name].type}
    try:
        said = await courier.send(name, Message.of(f"test-{uuid4().hex}", [facts]))
    except DeliveryFailed as error:
        return {**row, "result": "fail", "says": error.message}
    return {**row, "result": "ok", "says": said}


def _loaded(session: "Session") -> "Loaded":
    from rota.config.loading import load_fleet

    return load_fleet(session.settings.config)
