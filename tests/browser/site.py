"""The dashboard as it is served, and methods to put content on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.api import ApiSettings
from rota.api.ws_limits import WsLimits
from rota.client import SyncWorkQueueClient
from rota.dashboard import dashboard_endpoints
from rota.dashboard.errors import error_page
from rota.model.fleet import Fleet
from rota.testing.served import Served, serve

PAGES = ("/", "/ui/overview", "/ui/agents", "/ui/schedules", "/ui/runs", "/ui/signals")


@dataclass(frozen=True, slots=True)
class Site:
    served: Served
    client: SyncWorkQueueClient

    @property
    def url(self) -> str:
        return self.served.url

    def add(self, description: str = "Mend the fence", **fields: Any) -> str:
        """Returns the item's id."""
        item = self.client.work_add(**{"type": "chore", "description": description, **fields})
        return str(item["id"])

    def taken(self, description: str = "Mend the fence", agent: str = "ann", **fields: Any) -> str:
        """Returns the id of an item that an agent works on."""
        self.client.set_agent(agent, max_concurrent=50)
        item = self.add(description, **fields)
        self.client.work_dispatch(item, agent)
        return item

    def token(self, *scopes: str, name: str = "boss") -> str:
        """Returns a secret. From the first token on the server is closed, also to `client`."""
        tokens = self.served.ledger.tokens
        _, secret = self.served.run(lambda: tokens.create(name, scopes or ("admin",)))
        self.served.api._gate.forget()
        return secret

    def revoke(self) -> None:
        """Revokes all tokens."""
        tokens = self.served.ledger.tokens
        for one in self.served.run(tokens.list):
            if one.revoked_at is None:
                self.served.run(lambda one=one: tokens.revoke(one.id))
        self.served.api._gate.forget()


@contextmanager
def served_site(home: Path, fleet: Fleet | None = None) -> Iterator[Site]:
    """A site on `home/rota.db`, or on an empty ledger."""
    configured = (lambda: fleet) if fleet else None
    settings = ApiSettings(remember_seconds=0.05)
    with (
        serve(
            f"sqlite:///{home}/rota.db", settings, logs=home / "runs",
            endpoints=lambda signals: dashboard_endpoints(configured, signals=signals),
            error_page=error_page, ws=WsLimits(recheck_seconds=0.2),
        ) as served,
        SyncWorkQueueClient(served.url, actor="sam") as client,
    ):  # fmt: skip
        yield Site(served, client)
