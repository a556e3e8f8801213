"""Small scenes for tests of the claim protocol: log entries by hand, and a quiet tracker."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from rota.claims.comments import Entry, Kind, marker
from rota.claims.port import Account, Comment, Issue
from rota.claims.protocol import Claimant, CommentClaims
from rota.model.errors import AnswerUnknown
from rota.testing.simulation.chance import Mishaps
from rota.testing.simulation.referee import Role
from rota.testing.simulation.stories import TIMES, Fleet, Setting, World
from rota.testing.simulation.time import BEGINNING, Fates
from rota.testing.simulation.tracker import Faults, SimulatedTracker

BOT = Account(100, "bot0")
OTHER_BOT = Account(101, "bot1")
OPERATOR = Account(1, "owner")
STRANGER = Account(666, "mallory")

GRACE = TIMES.grace


def entry(number: int, kind: Kind, at: float = 0.0, *, edited: bool = False, **of: Any) -> Entry:
    """A believed entry, `at` seconds after the beginning."""
    fields = {key: str(value) for key, value in {"v": 2, **of}.items() if value is not None}
    return Entry(number, kind, fields, BOT, BEGINNING + timedelta(seconds=at), edited)


def claim(number: int, at: float = 0.0, codename: str = "a", **of: Any) -> Entry:
    fields = {"fleet": "f0", "firing_id": f"x{number}", **of}
    return entry(number, Kind.CLAIM, at, codename=codename, **fields)


def about(kind: Kind, number: int, of: int, at: float = 0.0, **fields: Any) -> Entry:
    return entry(number, kind, at, claim=of, **fields)


def comment(number: int, body: str, author: Account = BOT, at: float = 0.0) -> Comment:
    stamp = BEGINNING + timedelta(seconds=at)
    return Comment(number, author, body, stamp, stamp)


def issue(*labels: str, **changes: Any) -> Issue:
    plain = Issue(
        7,
        "Title",
        "Body",
        labels,
        is_open=True,
        is_pull_request=False,
        author=OPERATOR,
        url="https://tracker.example/o/r/issues/7",
        created_at=BEGINNING,
        updated_at=BEGINNING,
    )
    return replace(plain, **changes)


def quiet_world(**changes: Any) -> World:
    """Nothing goes wrong except what the test causes; two fleets with one agent each."""
    quiet: dict[str, Any] = {
        "fleets": 2,
        "agents": 1,
        "sweepers": 0,
        "skew": 0,
        "faults": Faults(),
        "fates": Fates(),
    }
    return World(Setting(**{**quiet, **changes}), Mishaps(), Random(1))


def claimant(world: World, name: str, fleet: Fleet | None = None) -> tuple[CommentClaims, Claimant]:
    """A claimant, by default of the first fleet; its nonce is its name."""
    fleet = fleet or world.fleets[0]
    claims = world.claims(name, fleet.account, Role.AGENT)
    world.referee.enters(name, name)
    return claims, Claimant(fleet.name, name, f"20260501-120000-{name}", nonce=name)


Hook = Callable[[int], Any]  # gets the number of the call; the call raises what it raises


class Directed(SimulatedTracker):
    """Does what the test says: `before_comments=hook`, `after_comment=hook`, `hides=…`."""

    __slots__ = ("calls", "hides", "hooks")

    hooks: dict[str, Hook]
    calls: dict[str, int]
    hides: Callable[[Comment], bool]

    def _cue(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if name in self.hooks:
            self.hooks[name](self.calls[name])

    async def comments(self, number: int) -> list[Comment]:
        self._cue("before_comments")
        found = await SimulatedTracker.comments(self, number)
        shown = [one for one in found if not self.hides(one)]
        self._cue("after_comments")
        return shown

    async def issue(self, number: int) -> Issue:
        self._cue("before_issue")
        return await SimulatedTracker.issue(self, number)

    async def comment(self, number: int, body: str) -> Comment:
        self._cue("before_comment")
        posted = await SimulatedTracker.comment(self, number, body)
        self._cue("after_comment")
        return posted

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        self._cue("before_add_labels")
        await SimulatedTracker.add_labels(self, number, labels)
        self._cue("after_add_labels")

    async def remove_label(self, number: int, label: str) -> None:
        self._cue("before_remove_label")
        await SimulatedTracker.remove_label(self, number, label)
        self._cue("after_remove_label")


def direct(
    claims: CommentClaims, *, hides: Callable[[Comment], bool] = lambda _: False, **hooks: Hook
) -> Directed:
    """From now on these claims use a tracker that the test directs."""
    was = claims.log.tracker
    assert isinstance(was, SimulatedTracker)
    tracker = Directed(was.repository, was.me, was.player, was.faults)
    tracker.hides, tracker.hooks, tracker.calls = hides, hooks, {}
    claims.log.tracker = claims._tracker = tracker
    return tracker


def on(call: int, act: Callable[[], Any]) -> Hook:
    """Only at the n-th call."""
    return lambda now: act() if now == call else None


def fail(error: Exception) -> Hook:
    def hook(_call: int) -> None:
        raise error

    return hook


def lose_answer(call: int = 1) -> Hook:
    def hook(now: int) -> None:
        if now == call:
            raise AnswerUnknown("the answer was lost")

    return hook


def hide_young(world: World, seconds: float) -> Callable[[Comment], bool]:
    """Hides everything that was written in the last `seconds`."""

    def is_young(one: Comment) -> bool:
        of = next(known for known in world.repository.comments[1] if known.comment.id == one.id)
        return world.time.now - of.at < seconds

    return is_young


def posts(world: World, number: int = 1) -> list[str]:
    """The first lines of an issue's comments."""
    return [one.comment.body.splitlines()[0] for one in world.repository.comments[number]]


def kinds(world: World, number: int = 1) -> list[str]:
    return [str(one.kind) for one in world.truth(number)]


def labels_of(world: World, number: int = 1) -> set[str]:
    return set(world.repository.issue(number).labels)


def post(world: World, kind: Kind, author: Account, number: int = 1, **fields: Any) -> Comment:
    """Posts a marker straight into the repository, without a player."""
    return world.repository.post(number, author, marker(kind, **fields), "the test")
