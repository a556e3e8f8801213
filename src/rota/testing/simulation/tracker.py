"""The repository as one player sees it: late, incomplete, and sometimes not at all."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from rota.claims.port import Account, Comment, Issue, Labelling, PullRequest, Ref, TextEdit
from rota.model.errors import AnswerUnknown, IssueNotFound, TrackerError
from rota.testing.simulation.chance import Chance
from rota.testing.simulation.repository import OWNER, Repository
from rota.testing.simulation.time import VirtualTime


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities, except `lag`, `slowest` and `latest`, which are seconds."""

    lag: float = 0.0  # how long a write may stay hidden from readers
    slowest: float = 0.0  # the longest duration of a call
    hide: float = 0.0  # a recent entry is not shown
    replica: float = 0.0  # a read shows the repository as it was `lag` ago, for all entries
    read_error: float = 0.0
    write_error: float = 0.0  # refused: nothing happened
    lost_before: float = 0.0  # no answer, and nothing happened
    lost_after: float = 0.0  # no answer, but it happened
    late: float = 0.0  # no answer, and it happens later
    latest: float = 30.0
    twice: float = 0.0  # a post is delivered a second time, perhaps much later

    def calmed(self) -> "Faults":
        """Only what a healthy tracker does, too."""
        return Faults(lag=self.lag, slowest=self.slowest, hide=self.hide)


@dataclass(slots=True)
class SimulatedTracker:
    repository: Repository
    me: Account
    player: str = "somebody"
    faults: Faults = field(default_factory=Faults)
    kind: str = "simulated"
    repo: str = "o/r"
    host: str = "tracker.example"
    public: bool = False

    @property
    def pages(self) -> str:
        return self.host

    @property
    def source(self) -> str:
        return f"{self.kind}:{self.repo}"

    @property
    def _time(self) -> VirtualTime:
        return self.repository.time

    # accounts

    async def account(self) -> Account:
        return self.me

    async def owner(self) -> Account | None:
        return OWNER

    async def is_public(self) -> bool:
        return self.public

    async def find_account(self, login: str) -> Account | None:
        return next((one for one in (self.me, OWNER) if one.login == login), None)

    # reads

    async def issue(self, number: int) -> Issue:
        await self._read()
        found = self.repository.issue(number, self._moment())
        await self._latency()
        return found

    async def is_open(self, repo: str, number: int) -> bool:
        return (await self.issue(number)).is_open

    async def pull_request(self, number: int) -> PullRequest:
        await self._read()
        raise IssueNotFound(f"#{number} is no pull request here")

    async def issues(self, *, labels: Sequence[str] = ()) -> list[Issue]:
        await self._read()
        moment = self._moment()
        found = [self.repository.issue(number, moment) for number in self.repository.history]
        await self._latency()
        return [one for one in found if one.is_open and set(labels) <= set(one.labels)]

    async def comments(self, number: int) -> list[Comment]:
        await self._read()
        self.repository.issue(number)
        lagging = self._chance.odds(self.faults.replica)
        posted = list(self.repository.comments[number])
        shown = [one.comment for one in posted if self._shows(one.at, lagging)]
        await self._latency()
        return shown

    async def labellings(self, number: int) -> list[Labelling]:
        await self._read()
        return list(self.repository.labellings.get(number, ()))

    async def last_edit(self, number: int, *, but: Collection[int] = ()) -> TextEdit | None:
        await self._read()
        return None

    async def refs(self, prefix: str) -> list[Ref]:
        await self._read()
        found = [
            ref
            for name, (at, ref) in sorted(self.repository.refs.items())
            if name.startswith(f"refs/{prefix}") and self._shows(at, lagging=False)
        ]
        await self._latency()
        return found

    # writes

    async def comment(self, number: int, body: str) -> Comment:
        await self._begin()
        self._may_refuse()
        if self._chance.odds(self.faults.lost_before):
            raise AnswerUnknown("no answer")
        if self._chance.odds(self.faults.late):
            self._deliver_later(number, body, self.faults.latest)
            raise AnswerUnknown("no answer yet")
        posted = self._post(number, body)
        if self._chance.odds(self.faults.twice):
            posted = self._deliver_again(number, body, posted)
        await self._latency()
        self._may_lose_answer()
        return posted

    def _post(self, number: int, body: str) -> Comment:
        self.repository.issue(number)
        return self.repository.post(number, self.me, body, self.player)

    def _deliver_again(self, number: int, body: str, posted: Comment) -> Comment:
        """Deliver the post again: at once, answered by either of the two; or later, unnoticed."""
        if self._chance.odds(0.5):
            self._deliver_later(number, body, 20 * self.faults.latest)
            return posted
        again = self._post(number, body)
        return again if self._chance.odds(0.5) else posted

    def _deliver_later(self, number: int, body: str, latest: float) -> None:
        async def deliver() -> None:
            await self._time.sleep(self._chance.between(0.0, latest))
            self._post(number, body)

        self._time.spawn(f"{self.player}'s post", deliver())

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        await self._before_write()
        self.repository.add_labels(number, labels, self.me, self.player)
        await self._after_write()

    async def remove_label(self, number: int, label: str) -> None:
        await self._before_write()
        self.repository.remove_label(number, label, self.player)
        await self._after_write()

    async def close(self, number: int) -> None:
        await self._before_write()
        self.repository.set_open(number, False, self.player)
        await self._after_write()

    async def create_ref(self, name: str, message: str) -> bool:
        await self._before_write()
        made = self.repository.create_ref(name, message, self.player)
        await self._after_write()
        return made

    async def aclose(self) -> None:
        return

    # faults

    @property
    def _chance(self) -> Chance:
        return self._time.chance

    async def _latency(self) -> None:
        """Where calls take no time, other players can only run at their beginning."""
        if self.faults.slowest:
            await self._time.sleep(self._chance.between(0.0, self.faults.slowest))

    async def _begin(self) -> None:
        await self._time.sleep(self._chance.between(0.0, self.faults.slowest))

    async def _read(self) -> None:
        await self._begin()
        if self._chance.odds(self.faults.read_error):
            raise TrackerError("the tracker cannot be read")

    def _moment(self) -> float:
        """Labels and state may be shown as they were a while ago."""
        if not self._chance.odds(self.faults.hide):
            return self._time.now
        return self._time.now - self._chance.between(0.0, self.faults.lag)

    def _shows(self, at: float, lagging: bool) -> bool:
        if self._time.now - at >= self.faults.lag:
            return True
        return not lagging and not self._chance.odds(self.faults.hide)

    def _may_refuse(self) -> None:
        if self._chance.odds(self.faults.write_error):
            raise TrackerError("the tracker refuses for now")

    def _may_lose_answer(self) -> None:
        if self._chance.odds(self.faults.lost_after):
            raise AnswerUnknown("the answer was lost")

    async def _before_write(self) -> None:
        await self._begin()
        self._may_refuse()
        if self._chance.odds(self.faults.lost_before):
            raise AnswerUnknown("no answer")

    async def _after_write(self) -> None:
        await self._latency()
        self._may_lose_answer()


class AllSeeing(SimulatedTracker):
    """Shows everything as it is, at once: for the referee."""

    __slots__ = ()

    async def _begin(self) -> None:
        return
