"""A program of this machine that shows a message: `notify-send`, for example. No shell is used."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from rota.config.channels import PLACES, CommandChannel
from rota.model.errors import DeliveryFailed
from rota.notify.messages import Message, one_line
from rota.runner.environment import inherited
from rota.runner.execution import Order, Stop, run_program
from rota.runner.output import LastWords
from rota.runner.process import Nursery, Program
from rota.runner.results import ended_by

ROOM = 2_000
_PLACE = re.compile(r"\{(" + "|".join(PLACES) + r")\}")
# Variables by which desktop programs find the desktop.
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


async def call(
    channel: CommandChannel,
    message: Message,
    environ: Mapping[str, str],
    nursery: Nursery,
    place: Path,
) -> str:
    words = LastWords(ROOM)
    order = Order(
        program=Program(arguments(channel, message), place, inherited(environ, _DESKTOP)),
        stdin=json.dumps(message.facts(), ensure_ascii=False).encode() + b"\n",
        out=words.hear,
        err=words.hear,
        seconds=channel.timeout.total_seconds(),
    )
    finished = await run_program(nursery, order, Stop())
    if finished.stopped is not None:
        raise DeliveryFailed(finished.stopped.why)
    if finished.exit_code != 0:
        said = one_line(words.finish(), 300)
        raise DeliveryFailed(ended_by(finished.exit_code) + (f": {said}" if said else ""))
    return "it ended with exit code 0"


def arguments(channel: CommandChannel, message: Message) -> tuple[str, ...]:
    """A value stays within its argument and begins with a word of ours, never with a dash. It is
    not searched for further places."""
    values = {
        "id": message.id,
        "happening": message.happening,
        "title": message.title,
        "text": message.text(ROOM),
        "url": message.url or "",
    }
    return tuple(_PLACE.sub(lambda place: values[place[1]], one) for one in channel.argv)
