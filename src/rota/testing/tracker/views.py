"""What one read sees. A tracker answers from replicas, which may lag behind."""

import math
import random
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Stamp:
    """When an entry was made: by the tracker's clock, and by the real one."""

    at: datetime
    born: float  # monotonic
    hidden_until: float = -math.inf  # monotonic; no read sees it before


@dataclass(frozen=True, slots=True)
class View:
    """Misses entries younger than `horizon`, each with the chance `share`.

    With a share below 1, an older entry may be missed while a younger one is seen. Within one read,
    an entry is seen or missed everywhere.
    """

    now: float
    horizon: float = 0.0
    share: float = 1.0
    salt: int = 0
    kinds: frozenset[str] = frozenset()

    def sees(self, kind: str, entry_id: int | str, stamp: Stamp) -> bool:
        if self.now < stamp.hidden_until:
            return False
        if kind not in self.kinds or self.now - stamp.born >= self.horizon:
            return True
        return random.Random(f"{self.salt}:{entry_id}").random() >= self.share


EVERYTHING = View(math.inf)
