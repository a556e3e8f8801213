"""The source of every choice in a story: a seed, or a path through all choices."""

import random
from collections.abc import Iterator
from typing import Protocol


class Chance(Protocol):
    def pick(self, many: int) -> int:
        """A number below `many`; 0 means that nothing unusual happens."""

    def odds(self, probability: float) -> bool: ...

    def between(self, low: float, high: float) -> float: ...


class Seeded:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, many: int) -> int:
        return self._random.randrange(many)

    def odds(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()


class Path:
    """One way through the tree of choices: first the given ones, then always 0."""

    def __init__(self, told: tuple[int, ...], depth: int) -> None:
        self._told = told
        self._depth = depth
        self.widths: list[int] = []
        self.taken: list[int] = []

    def pick(self, many: int) -> int:
        at = len(self.taken)
        if many < 2 or at >= self._depth:
            return 0
        choice = self._told[at] if at < len(self._told) else 0
        self.widths.append(many)
        self.taken.append(choice)
        return choice

    def odds(self, probability: float) -> bool:
        return probability >= 1 or (probability > 0 and self.pick(2) == 1)

    def between(self, low: float, high: float) -> float:
        return high if low < high and self.pick(2) == 1 else low

    def following(self) -> tuple[int, ...] | None:
        """The next path in order; None after the last."""
        for at in reversed(range(len(self.taken))):
            if self.taken[at] + 1 < self.widths[at]:
                return (*self.taken[:at], self.taken[at] + 1)
        return None


class Mishaps:
    """Nothing unusual happens, except the mishaps whose numbers are given."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = frozenset(numbers)
        self.passed = 0  # how many mishaps were possible so far

    def pick(self, many: int) -> int:
        return 0

    def odds(self, probability: float) -> bool:
        if probability <= 0 or probability >= 1:
            return probability >= 1
        self.passed += 1
        return self.passed in self._numbers

    def between(self, low: float, high: float) -> float:
        return (low + high) / 2


def paths(depth: int) -> Iterator[Path]:
    """Every path that differs within the first `depth` choices; run each before the next."""
    told: tuple[int, ...] | None = ()
    while told is not None:
        path = Path(told, depth)
        yield path
        told = path.following()
