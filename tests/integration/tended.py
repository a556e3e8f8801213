"""A repository on the tracker stub, its servers and agents, all in virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from rota.app import open_ledger
from rota.claims.comments import Believed, entries
from rota.claims.fold import Standing, fold
from rota.claims.port import Account, Comment
from rota.claims.timing import Pace
from rota.config.fleet import source_config
from rota.config.sources import Forge
from rota.model.errors import ClaimLost
from rota.model.sources import SourceClaim, SourceState
from rota.model.work import WorkItem
from rota.queue.explain import Explanation
from rota.queue.ledger import Ledger
from rota.sources.assembly import AgentSources, open_desk
from rota.sources.desk import Held, IssueDesk
from rota.sources.gitea import GiteaTracker
from rota.sources.github import GitHubTracker, RetryOptions
from rota.sources.http.wire import Timeouts
from rota.sources.registry import SourceContext
from rota.sources.tending import Rhythm, Tending
from rota.testing.clock import ManualClock
from rota.testing.tracker import Control, TrackerStub

REPO = "ada/engine"
ADA, BOT, EVE, NORTH = 7, 8, 9, 10  # the owner, our account, a stranger, another fleet
LOGINS = {"ada": ADA, "bot": BOT, "eve": EVE, "north": NORTH}
STAGES = {"ready", "agent-working", "agent:pr-open", "agent:done", "agent:failed"}
LEASE = 900.0
POLL = 60.0

_TRACKERS = {"github": GitHubTracker, "gitea": GiteaTracker}


class VirtualTime:
    """One time for the ledger, the protocol and the waits between requests; sleeping moves it."""

    def __init__(self) -> None:
        self.clock = ManualClock(datetime.now(UTC))
        self.seconds = 1000.0
        self.pace = Pace(self.sleep, lambda: self.seconds, self.clock.now, Random(1))

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self.clock.advance(seconds)


class Veil:
    """A tracker that does not show some comments yet, and lets something happen after a listing."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker
        self.hidden: set[int] = set()
        self.after_listing: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracker, name)

    # By name: since 3.12, Python does not ask __getattr__ whether a tracker is metered.
    @property
    def requests(self) -> Any:
        return self._tracker.requests

    @property
    def rate_limit(self) -> Any:
        return self._tracker.rate_limit

    async def comments(self, number: int) -> list[Comment]:
        found = await self._tracker.comments(number)
        return [one for one in found if one.id not in self.hidden]

    async def issues(self, *, labels: Any = ()) -> Any:
        found = await self._tracker.issues(labels=labels)
        if self.after_listing is not None:
            happens, self.after_listing = self.after_listing, None
            await happens()
        return found


class Tended:
    """The scene of one test."""

    def __init__(
        self, stub: TrackerStub, ledger: Ledger, time: VirtualTime, opened: AsyncExitStack
    ) -> None:
        self.stub, self.control, self.ledger, self.time = stub, stub.control, ledger, time
        self.paused_repos = Path(ledger.database.removeprefix("sqlite:///")).with_name(
            "paused.json"
        )
        self._opened = opened
        self._desks: dict[str, IssueDesk] = {}

    # actors

    def settings(self, kind: str = "github", **given: Any) -> Forge:
        made = source_config(
            {
                "type": kind,
                "repo": REPO,
                "api_url": self.stub.url if kind == "github" else self.stub.gitea_url,
                "auth": {"token_env": "TOKEN"},
                "lease_seconds": LEASE,
                "poll_seconds": POLL,
                "fleets": [NORTH],
                **given,
            }
        )
        assert isinstance(made, Forge)
        return made

    def tracker(self, settings: Forge, login: str = "bot") -> Any:
        tracker = _TRACKERS[settings.type](  # type: ignore[attr-defined]  # of its subclasses
            REPO,
            token_env="TOKEN",
            api_url=settings.api_url,  # type: ignore[attr-defined]
            environ={"TOKEN": f"token-{login}"},
            pause=self.time.sleep,
            clock=self.time.clock,
            retry=RetryOptions(base_delay=0.1, max_delay=1.0),
            timeout=Timeouts(connect=5, read=5),
        )
        self._opened.push_async_callback(tracker.aclose)
        return tracker

    def context(self, ledger: Ledger | None, login: str = "bot") -> SourceContext:
        return SourceContext(
            ledger=ledger, environ={"TOKEN": f"token-{login}"}, paused_repos=self.paused_repos
        )

    def tending(self, agents: AgentSources = (), **given: Any) -> Tending:
        """As a server has it; each stands for its own process."""
        settings = self.settings(**given)
        tracker = Veil(self.tracker(settings))
        return Tending(
            tracker,
            settings,
            self.ledger,
            lambda: open_desk(
                settings,
                self.context(self.ledger),
                tracker=tracker,
                pace=self.time.pace,
                agents=agents,
            ),
            Rhythm(settings.poll_seconds),
            pace=self.time.pace,
            agents=agents,
        )

    async def desk(
        self,
        login: str = "bot",
        *,
        ledger: bool = True,
        veil: bool = False,
        agents: AgentSources = (),
        **given: Any,
    ) -> IssueDesk:
        """A desk for our agents; without the ledger, for those of another fleet."""
        settings = self.settings(**given)
        tracker = self.tracker(settings, login)
        return await open_desk(
            settings,
            self.context(self.ledger if ledger else None, login),
            tracker=Veil(tracker) if veil else tracker,
            pace=self.time.pace,
            agents=agents,
        )

    async def take(self, number: int = 1, agent: str = "lucius", **given: Any) -> Held:
        """Claimed by one of our agents, which is at work when this returns."""
        name = str(sorted(given.items()))
        if name not in self._desks:
            self._desks[name] = await self.desk(**given)
        held = await self._desks[name].take(number, agent)
        assert isinstance(held, Held), held
        return held

    async def foreign(self) -> IssueDesk:
        return await self.desk("north", ledger=False, fleets=[BOT])

    # the tracker, as it really is

    def labels(self, number: int = 1) -> set[str]:
        return set(self.control.look(REPO, number)["labels"])

    def stages(self, number: int = 1) -> set[str]:
        return self.labels(number) & STAGES

    def state(self, number: int = 1) -> str:
        return str(self.control.look(REPO, number)["state"])

    def comments(self, number: int = 1) -> list[str]:
        return [one["body"] for one in self.control.look(REPO, number)["comments"]]

    def standing(self, number: int = 1) -> Standing:
        return standing_of(self.control.look(REPO, number))

    # the ledger

    async def item(self, number: int = 1) -> WorkItem:
        found = await self.ledger.outside.standing(self.source, str(number))
        assert found is not None
        return found

    @property
    def source(self) -> str:
        return f"github:{self.stub.url.removeprefix('http://')}/{REPO}"

    async def explained(self, number: int = 1) -> Explanation:
        return await self.ledger.views.explain((await self.item(number)).id)

    async def open_claims(self) -> list[SourceClaim]:
        return await self.ledger.outside.open_claims(self.source)

    async def source_state(self) -> SourceState:
        (state,) = await self.ledger.outside.states()
        return state

    async def may_go_on(self, held: Held) -> bool:
        """Whether the agent's next heartbeat is accepted."""
        assert held.item_id is not None
        assert held.token is not None
        try:
            await self.ledger.queue.heartbeat(held.item_id, held.token)
        except ClaimLost:
            return False
        return True


def standing_of(issue: dict[str, Any]) -> Standing:
    """The fold of everything that is there, whoever can read it."""
    believed = Believed(frozenset({BOT, NORTH}), frozenset({ADA, BOT}))
    comments = [
        Comment(
            one["id"],
            Account(LOGINS.get(one["user"], 0), one["user"]),
            one["body"],
            datetime.fromisoformat(one["created_at"]),
            datetime.fromisoformat(one["updated_at"]),
        )
        for one in issue["comments"]
    ]
    return fold(entries(comments, believed), 300.0)


def build(control: Control, *, private: bool = True) -> None:
    control.reset()
    for login, number in LOGINS.items():
        control.user(login, id=number)
        control.token(login)
    control.repo(REPO, private=private, collaborators=["bot", "north"])


@asynccontextmanager
async def tended(stub: TrackerStub, folder: Path) -> AsyncIterator[Tended]:
    build(stub.control)
    time = VirtualTime()
    async with AsyncExitStack() as opened:
        database = f"sqlite:///{folder}/rota.db"
        ledger = await opened.enter_async_context(open_ledger(database, time.clock))
        yield Tended(stub, ledger, time, opened)
