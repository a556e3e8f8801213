"""Tells a web address that a signal has fired. The outbox delivers at least once; the id is derived
from the firing, so that the receiver can recognise a repeat."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from rota.model.fleet import Hook
from rota.model.runs import OutboxEntry
from rota.runner.addresses import Allowed
from rota.runner.webhooks import post


class Notifier:
    def __init__(self, environ: Mapping[str, str], allowed_hosts: Collection[str] = ()) -> None:
        """`allowed_hosts` may be reached although they are not on the public internet."""
        self._environ = environ
        self._allowed = Allowed.of(allowed_hosts)

    async def __call__(self, entry: OutboxEntry) -> None:
        facts: dict[str, Any] = {"id": entry.id, "type": "work.signal.fired", **entry.payload}
        hook = Hook("notify", url=facts.pop("url"))
        facts = {name: one for name, one in facts.items() if name not in ("channel", "name")}
        body = json.dumps(facts, ensure_ascii=False).encode()
        await post(hook, body, environ=self._environ, allowed=self._allowed)
