"""Virtual time: coroutines that wait, and the choice of the one that runs next.

Not an event loop: simulated code awaits nothing but `sleep`, so a story takes milliseconds and is
the same on every machine. At each `sleep`, and so at each call of the simulated tracker, another
player may run, and a player may die or freeze.
"""

from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from types import coroutine
from typing import Any

from rota.claims.timing import Pace
from rota.model.errors import RotaError
from rota.testing.simulation.chance import Chance

BEGINNING = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass(slots=True, eq=False)
class Player:
    """An actor: an agent's supervisor, a sweep, a person, a post under way."""

    name: str
    story: Coroutine[float, None, None]
    at: float
    mortal: bool = False


@dataclass(frozen=True, slots=True)
class Fates:
    """What happens to mortal players, at each of their steps."""

    death: float = 0.0
    freeze: float = 0.0
    longest_freeze: float = 2000.0


@dataclass(slots=True)
class VirtualTime:
    chance: Chance
    fates: Fates = field(default_factory=Fates)
    now: float = 0.0
    dead: list[str] = field(default_factory=list)
    _players: list[Player] = field(default_factory=list)

    def spawn(
        self, name: str, story: Coroutine[float, None, None], *, mortal: bool = False
    ) -> None:
        self._players.append(Player(name, story, self.now, mortal))

    def clock(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.now)

    def pace(self, random: Random) -> Pace:
        return Pace(sleep=self.sleep, elapsed=lambda: self.now, now=self.clock, random=random)

    async def sleep(self, seconds: float) -> None:
        await _wait(max(0.0, seconds))

    def run(self, until: float = float("inf")) -> None:
        """Run until nobody is left to act before `until`."""
        while (player := self._next(until)) is not None:
            self.now = max(self.now, player.at)
            if player.mortal and self._is_struck(player):
                continue
            self._step(player)

    def play(self, *stories: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run side by side until all have ended. Returns what each returned or raised."""
        ends: list[Any] = [None] * len(stories)

        async def keep(at: int, story: Coroutine[Any, Any, Any]) -> None:
            try:
                ends[at] = await story
            except RotaError as error:
                ends[at] = error

        for at, story in enumerate(stories):
            self.spawn(f"story {at}", keep(at, story))
        self.run()
        return ends

    def _next(self, until: float) -> Player | None:
        first, ready = until, []
        for player in self._players:
            if player.at < first:
                first, ready = player.at, [player]
            elif player.at == first:
                ready.append(player)
        if len(ready) > 1:
            return ready[self.chance.pick(len(ready))]
        return ready[0] if ready else None

    def _is_struck(self, player: Player) -> bool:
        if self.chance.odds(self.fates.death):
            self._kill(player)
            return True
        if self.chance.odds(self.fates.freeze):
            player.at = self.now + self.chance.between(1, self.fates.longest_freeze)
            return True
        return False

    def _kill(self, player: Player) -> None:
        self.dead.append(player.name)
        self._players.remove(player)
        player.story.close()

    def _step(self, player: Player) -> None:
        self._players.remove(player)
        try:
            player.at = self.now + player.story.send(None)
        except StopIteration:
            return
        self._players.append(player)  # players that wait for the same moment now come before it

    def close(self) -> None:
        """End all players."""
        while self._players:
            self._players.pop().story.close()


@coroutine
def _wait(seconds: float) -> Generator[float, None, None]:
    yield seconds


def at_once(story: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that has no reason to wait."""
    try:
        story.send(None)
    except StopIteration as end:
        return end.value
    story.close()
    raise AssertionError("it waits")
