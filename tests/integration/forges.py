"""A repository on the tracker stub, and work sources on it, put together as the real ones are."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.queue import Ledger
from rota.sources.assembly import open_desk
from rota.sources.forge import ForgeWorkSource
from rota.sources.gitea import GiteaTracker
from rota.sources.github import GitHubTracker, RetryOptions
from rota.sources.registry import SourceContext, WorkSourceRegistry
from rota.testing.tracker import Control, TrackerStub

REPO = "ada/engine"
ADA, BOT, EVE = 7, 8, 9  # the owner, the account that agents work with, and a stranger
SETTLE = 0.01
# Of a tracker that fails: as often as usual, but without long waits between.
IMPATIENT = RetryOptions(base_delay=0.01, max_delay=0.5)

_TRACKERS = {"github": GitHubTracker, "gitea": GiteaTracker}


def build(control: Control, *, private: bool = True) -> None:
    """Ada's repository, in which the bot may write; eve may only look."""
    control.reset()
    for login, number in (("ada", ADA), ("bot", BOT), ("eve", EVE)):
        control.user(login, id=number)
        control.token(login)
    control.repo(REPO, private=private, collaborators=["bot"])


class Forges:
    """Makes sources on one stub and closes them at the end."""

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

    def context(self, agent: str, login: str = "bot") -> SourceContext:
        return SourceContext(
            agent=agent,
            ledger=self.ledger,
            environ={"TOKEN": f"token-{login}"},
            paused_repos=self.paused_repos,
        )

    def source(
        self, agent: str = "ada", kind: str = "github", *, login: str = "bot", **given: Any
    ) -> ForgeWorkSource:
        """By the way that everybody's sources are made."""
        made = self._registry.create(self.config(kind, **given), self.context(agent, login))
        assert isinstance(made, ForgeWorkSource)
        self._opened.push_async_callback(made.aclose)
        return made

    def impatient(
        self,
        agent: str = "ada",
        kind: str = "github",
        connection: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> ForgeWorkSource:
        """With a tracker that does not wait as long between its tries, or as `connection` says."""
        settings = source_config(self.config(kind, **given))
        assert isinstance(settings, Forge)
        context = self.context(agent)
        tracker = _TRACKERS[kind](
            REPO,
            token_env="TOKEN",
            api_url=self.config(kind)["api_url"],
            environ=context.environ,
            **{"retry": IMPATIENT, **(connection or {})},
        )
        made = ForgeWorkSource(kind, agent, lambda: open_desk(settings, context, tracker=tracker))
        self._opened.push_async_callback(tracker.aclose)
        return made

    def ledger_of(self) -> Ledger:
        assert self.ledger is not None
        return self.ledger

    # What stands there

    def labels(self, number: int = 1) -> set[str]:
        return set(self.control.look(REPO, number)["labels"])

    def comments(self, number: int = 1) -> list[str]:
        return [one["body"] for one in self.control.look(REPO, number)["comments"]]

    def state(self, number: int = 1) -> str:
        found: str = self.control.look(REPO, number)["state"]
        return found

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
