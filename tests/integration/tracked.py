"""A directory to run commands in, whose `rota.yaml` names the tracker stub."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from rota.app import open_ledger
from rota.queue.views import Query
from rota.testing.tracker import Control, TrackerStub
from tests.acceptance.terminal import Terminal

REPO = "ada/engine"
READY, WORKING, PR_OPEN = "ready", "agent-working", "agent:pr-open"
FAILED, HOLD, MANAGED = "agent:failed", "do-not-pickup", "agent:managed"
TOKEN = "TRACKER_TOKEN"


@dataclass
class Tracked(Terminal):
    """Ada's private repository `engine`; the token is hers unless it is replaced."""

    stub: TrackerStub = field(kw_only=True)

    def __post_init__(self) -> None:
        self.stub.control.reset()
        self.stub.control.user("ada", id=7)
        self.stub.control.repo(REPO, private=True, collaborators=["bob"])
        self.variables[TOKEN] = self.stub.control.token("ada")
        self.configure()

    @property
    def control(self) -> Control:
        return self.stub.control

    def configure(self, *more: dict[str, Any], **source: Any) -> None:
        times = {"settle": 0.05, "grace": 0.5, "margin": 0.1, **source.pop("times", {})}
        engine = {
            "type": "github",
            "name": "engine",
            "repo": REPO,
            "api_url": self.stub.url,
            "auth": {"token_env": TOKEN},
            "times": times,
        }
        # JSON is valid YAML.
        config = {"sources": [engine | source, *more]}
        (self.place / "rota.yaml").write_text(json.dumps(config))

    def issue(self, title: str = "Mend the mill", **facts: Any) -> int:
        return self.control.issue(REPO, title, **{"labels": [READY], **facts})

    def labels(self, number: int) -> set[str]:
        return set(self.control.look(REPO, number)["labels"])

    def log(self, number: int) -> list[str]:
        """The markers on the issue, by kind: claim, release, done."""
        bodies = [one["body"] for one in self.control.look(REPO, number)["comments"]]
        return [body.removeprefix("<!-- agent-").partition(":")[0] for body in bodies]

    def marker(self, number: int, position: int = -1) -> dict[str, str]:
        """The fields of one marker."""
        body = self.control.look(REPO, number)["comments"][position]["body"]
        words = body.partition(":")[2].partition("-->")[0].split()
        return dict(word.split("=", 1) for word in words)

    def forge_claim(self, number: int, fleet: str, codename: str, **facts: Any) -> int:
        body = (
            f"<!-- agent-claim:v=2 fleet={fleet} codename={codename}"
            " firing_id=20260501-194217-643a nonce=n ts=2026-05-01T19:42:33Z -->"
        )
        claim = self.control.comment(REPO, number, body, user="ada", **facts)
        self.control.label(REPO, number, add=[WORKING, MANAGED], remove=[READY])
        return claim

    def items(self) -> dict[str, str]:
        """The status of each issue in the ledger."""
        return asyncio.run(self._items())

    async def _items(self) -> dict[str, str]:
        async with open_ledger(str(self.place / ".rota" / "rota.db")) as ledger:
            found = await ledger.views.items(Query())
            return {item.source_ref or "": str(item.status) for item in found.items}

    def claims(self) -> list[str]:
        """Whose claims the ledger believes to be open on the tracker."""
        return asyncio.run(self._claims())

    async def _claims(self) -> list[str]:
        async with open_ledger(str(self.place / ".rota" / "rota.db")) as ledger:
            return [one.codename for one in await ledger.outside.open_claims(self._source)]

    def slow_down(self, seconds: float) -> None:
        """As if the tracker had been seen to be slow."""
        asyncio.run(self._slow_down(seconds))

    async def _slow_down(self, seconds: float) -> None:
        async with open_ledger(str(self.place / ".rota" / "rota.db")) as ledger:
            await ledger.outside.note_state(
                self._source, warning="#1 was late", settle_seconds=seconds
            )

    @property
    def _source(self) -> str:
        return f"github:{self.stub.url.removeprefix('http://')}/{REPO}"
