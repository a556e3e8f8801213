"""Sends waiting notices together: one letter for each bundle that is due."""

from datetime import datetime
from typing import Any

from rota.model.clock import to_text
from rota.model.notices import NOTIFICATION
from rota.model.runs import OutboxEntry
from rota.storage.port import Topic, Transaction

MOST_TOGETHER = 200


def gather(tx: Transaction, now: datetime) -> None:
    """One letter for each bundle that is due, or several if the bundle is large."""
    for channel, bundle in tx.due_bundles(to_text(now)):
        while found := tx.take_notices(channel, bundle, MOST_TOGETHER):
            first, last = found[0], found[-1]
            several = f"digest-{first.event_seq}-{last.event_seq}-{bundle}:{channel}"
            name = first.id if len(found) == 1 else several
            tx.post(letter(name, channel, [one.content for one in found], now))
            tx.wake(Topic.POST)


def letter(letter_id: str, channel: str, told: list[dict[str, Any]], now: datetime) -> OutboxEntry:
    """Its subject is no item: a waiting notification must not keep an item from being taken
    again."""
    payload = {"channel": channel, "notices": told}
    return OutboxEntry(letter_id, NOTIFICATION, None, channel, payload, to_text(now))
