"""A repository on the tracker stub, and work sources on it, assembled like the real ones."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rota.claims.timing import Pace
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.model.work import WorkItem
from rota.queue import Ledger
from rota.sources.assembly import open_desk
from rota.sources.forge import ForgeWorkSource
from rota.sources.gitea import GiteaTracker
from rota.sources.github import GitHubTracker, RetryOptions
from rota.sources.registry import SourceContext, WorkSourceRegistry
from rota.testing.tracker import Control, TrackerStub

REPO = "ada/engine"
# The owner, the account of our agents, that of another fleet, and a stranger.
ADA, BOT, RIVAL, EVE = 7, 8, 66, 9
RIVALS_CLAIM = "<!-- agent-claim:v=2 fleet=west codename=zoe firing_id=f1 nonce=n ts=t -->"
SETTLE = 0.01
# For a tracker that fails: as many tries as usual, but without long waits between them.
IMPATIENT = RetryOptions(base_delay=0.01, max_delay=0.5)

_TRACKERS = {"github": GitHubTracker, "gitea": GiteaTracker}


def build(control: Control, *, private: bool = True) -> None:
    """Ada's repository, in which the bot and another fleet may write; eve may only read."""
    control.reset()
    for login, number in (("ada", ADA), ("bot", BOT), ("rival", RIVAL), ("eve", EVE)):
        control.user(login, id=number)
    control.repo(REPO, private=private, collaborators=["bot", "rival"])
    control.token("bot")


class Forges:
    """Makes sources on one stub, and closes them at the end."""

    usual = RetryOptions()

    def __init__(self, stub: TrackerStub, ledger: Ledger | None, paused_repos: Path) -> None:
        self.stub = stub
        self.control = stub.control
        self.ledger = ledger
        self.paused_repos = paused_repos
        self._opened = AsyncExitStack()
        self._registry = WorkSourceRegistry()

    def config(self, kind: str = "github", **given: Any) -> dict[str, Any]:
        return {
            "type": kind,
            "repo": REPO,
            "api_url": self.stub.url if kind == "github" else self.stub.gitea_url,
            "auth": {"token_env": "TOKEN"},
            "times": {"settle": SETTLE},
            **given,
        }

    def context(self, agent: str, environ: Mapping[str, str] | None = None) -> SourceContext:
        return SourceContext(
            agent=agent,
            ledger=self.ledger,
            environ={"TOKEN": "token-bot"} if environ is None else environ,
            paused_repos=self.paused_repos,
        )

    def source(
        self,
        agent: str = "ada",
        kind: str = "github",
        *,
        environ: Mapping[str, str] | None = None,
        **given: Any,
    ) -> ForgeWorkSource:
        """Made in the same way as any source."""
        made = self._registry.create(self.config(kind, **given), self.context(agent, environ))
        assert isinstance(made, ForgeWorkSource)
        self._opened.push_async_callback(made.aclose)
        return made

    def impatient(
        self,
        agent: str = "ada",
        kind: str = "github",
        *,
        connection: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        pace: Pace | None = None,
        **given: Any,
    ) -> ForgeWorkSource:
        """With a tracker that waits less between its tries, or as `connection` says."""
        settings = source_config(self.config(kind, **given))
        assert isinstance(settings, Forge)
        context = self.context(agent, environ)
        tracker = _TRACKERS[kind](
            settings.repo,
            token_env="TOKEN",
            api_url=str(settings.api_url),  # type: ignore[attr-defined]  # both have one
            environ=context.environ,
            **{"retry": IMPATIENT, **(connection or {})},
        )
        made = ForgeWorkSource(
            kind, agent, lambda: open_desk(settings, context, tracker=tracker, pace=pace)
        )
        self._opened.push_async_callback(tracker.aclose)
        return made

    def ledger_of(self) -> Ledger:
        assert self.ledger is not None
        return self.ledger

    # What is on the tracker

    def labels(self, number: int = 1) -> set[str]:
        return set(self.control.look(REPO, number)["labels"])

    def comments(self, number: int = 1) -> list[str]:
        return [one["body"] for one in self.control.look(REPO, number)["comments"]]

    def state(self, number: int = 1) -> str:
        found: str = self.control.look(REPO, number)["state"]
        return found

    async def item(self, number: int = 1, kind: str = "github") -> WorkItem | None:
        """The ledger's item of an issue."""
        host = urlsplit(self.stub.url).netloc
        source = f"{kind}:{host}/{REPO}"
        return await self.ledger_of().outside.standing(source, str(number))

    async def aclose(self) -> None:
        await self._opened.aclose()


@asynccontextmanager
async def forges(
    stub: TrackerStub, ledger: Ledger | None, directory: Path
) -> AsyncIterator[Forges]:
    made = Forges(stub, ledger, directory / "paused_repos.json")
    try:
        yield made
    finally:
        await made.aclose()
