"""Makes text from the ledger safe for a terminal.

Titles and notes come from strangers. A control character could move the cursor, rename the window
or hide a line; a bidirectional one could make a line look different from what it is.
"""

import re
import unicodedata
from datetime import datetime

from rota.cli.server_clock import theirs
from rota.model.clock import in_zone

# Joiners are part of the spelling in some languages and of many emoji.
_KEPT = frozenset("\u200c\u200d")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_REMOVED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def lines(text: object) -> str:
    """Text of several lines, without control characters except the line feed."""
    spelled = str(text).replace("\r\n", "\n").replace("\t", "    ")
    if spelled.isascii() and spelled.isprintable():
        return spelled
    return "".join(letter for letter in spelled if letter == "\n" or _is_plain(letter))


def one_line(text: object) -> str:
    return " ".join(lines(text).split())


def _is_plain(letter: str) -> bool:
    return letter in _KEPT or unicodedata.category(letter) not in _REMOVED


def shortened(text: object, longest: int) -> str:
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago, in one number: 12s, 3m, 2h, 5d; with a plus if in the future."""
    if not moment:
        return ""
    seconds = ((now or theirs.now()) - datetime.fromisoformat(moment)).total_seconds()
    sign = "+" if seconds < 0 else ""
    return sign + span(abs(seconds))


def span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def local_time(moment: str | None) -> str:
    """A time in the viewer's time zone, and how long ago that was."""
    if not moment:
        return ""
    here = in_zone(datetime.fromisoformat(moment))
    return f"{here:%Y-%m-%d %H:%M:%S %z} ({age(moment)})"


def with_local_times(text: str) -> str:
    """One line, in which the ledger's times are times for a person."""
    return _MOMENT.sub(_local, one_line(text))


def _local(found: re.Match[str]) -> str:
    try:
        return local_time(found[0])
    except ValueError:  # somebody's notes may have the 31st of June
        return found[0]
