"""A YAML file. Errors are reported with line and column."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.config.yaml_words import in_words
from rota.model.errors import InvalidInput

LARGEST_FILE = 256 * 1024  # a thousand agents or sources; larger files take seconds to read
DEEPEST = 50
# Aliases can multiply entries. This is the most that they may expand to.
MOST_UNFOLDED = 200_000

Location = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    path: Path
    content: Any


def key(loc: Iterable[int | str]) -> str:
    """As people write it: `sources[0].labels.ready`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.lstrip(".")


def read(path: Path) -> Document:
    text = _text(path)
    if "*" in text or text.count("[") + text.count("{") > DEEPEST:
        _check_size(path, text)  # most files do not need this check
    return Document(path, _content(path, text))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise unreadable(path, _TOO_LARGE)
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(path, f"cannot be read: {error.strerror or error}") from None
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        raise unreadable(path, "this is not UTF-8", _mark(before)) from None


def _content(path: Path, text: str) -> Any:
    # Only who has a file pays for reading it.
    from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning  # noqa: PLC0415
    from ruamel.yaml.reader import ReaderError  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", YAMLWarning)  # an anchor that is used twice is fine
            return _parser().load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        begun = error.context_mark.line + 1 if error.context_mark else None
        why = in_words(_told(str(error.problem or error.context)), begun)
        raise unreadable(path, why, place) from None
    except ReaderError as error:
        why = f"the character #x{error.character:04x} is not allowed"
        raise unreadable(path, why, _mark(text[: error.position])) from None
    except RecursionError:
        _check_size(path, text)
        raise unreadable(path, _TOO_DEEP) from None
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise unreadable(path, f"cannot be read: {str(error)[:200]}") from None


def _parser() -> Any:
    """Its numbers know how they are written, if that is not how Python would write them."""
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.constructor import RoundTripConstructor  # noqa: PLC0415

    class Constructor(RoundTripConstructor):
        pass

    def number(self: Any, node: Any) -> Any:
        made = usual[node.tag](self, node)
        if type(made) not in (int, float):
            made.written = node.value
        return made

    usual = dict(RoundTripConstructor.yaml_constructors)
    for tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
        Constructor.add_constructor(tag, number)
    parser = YAML()
    parser.Constructor = Constructor
    return parser


def _told(problem: str) -> str:
    """Without the values of a duplicate key: one of them may be a secret."""
    return problem.partition(" with value ")[0]


_TOO_LARGE = (
    f"it is larger than {LARGEST_FILE} bytes; put agents into files of their own, and long prompts"
    " into files that they read"
)
_TOO_DEEP = f"nested deeper than {DEEPEST} levels"


def _check_size(path: Path, text: str) -> None:
    """Checks, from its tokens, how large the file would grow, before anything is built."""
    around: list[str | None] = []  # the anchors of what is open
    scalars = aliases = 0
    for event, anchor, place in _events(path, text):
        if event.endswith("StartEvent"):
            around.append(anchor)
        elif event.endswith("EndEvent"):
            around.pop()
        scalars += event == "ScalarEvent"
        aliases += event == "AliasEvent"
        if event == "AliasEvent" and anchor in around:  # the parser would make nothing of it
            raise unreadable(path, f"*{anchor} cannot be within what it stands for", place)
        if len(around) > DEEPEST:
            raise unreadable(path, _TOO_DEEP, place)
        if scalars * aliases > MOST_UNFOLDED:
            raise unreadable(path, "too many aliases (*) for a file of this size", place)


def _events(path: Path, text: str) -> Iterator[tuple[str, str | None, tuple[int, int]]]:
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        for event in YAML().parse(text):
            mark = event.start_mark
            anchor = getattr(event, "anchor", None)
            yield type(event).__name__, anchor, (mark.line + 1, mark.column + 1)
    except YAMLError:
        return  # reported when the file is read


def _mark(before: str) -> tuple[int, int]:
    """Line and column of the next character."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def unreadable(path: Path, why: str, place: tuple[int, int] | None = None) -> InvalidInput:
    line, column = place or (1, 1)
    told = {"file": str(path), "line": line, "column": column, "key": "", "message": why}
    return InvalidInput(f"{path}:{line}:{column}: {why}", file=str(path), mistakes=[told])
