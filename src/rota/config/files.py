"""The files of a fleet: read, filled in with variables, and remembered."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from rota.config.document import read
from rota.config.interpolation import FromEnvironment, interpolated
from rota.config.mistakes import Findings
from rota.config.tree import Place, PlacedMap, tree_of
from rota.model.errors import InvalidInput

MOST_FILES = 1_000


class Files:
    def __init__(self, environ: Mapping[str, str], findings: Findings) -> None:
        self._environ, self._findings = environ, findings
        self.names: list[Path] = []
        self._count = 0

    @property
    def top(self) -> Place:
        return Place(self.names[0])

    def read(self, path: Path) -> PlacedMap | None:
        """None: it has no usable content, and the findings say why."""
        self._count += 1
        if path not in self.names:
            self.names.append(path)
        try:
            tree = tree_of(read(path))
        except InvalidInput as error:
            self._findings.unreadable(path, error)
            return None
        if tree is not None and not isinstance(tree, PlacedMap):
            self._findings.mistake(Place(path), "write keys and values: `key: value`")
            return None
        filled = interpolated(tree, self._environ, self._findings.missing_variable)
        return PlacedMap(Place(path)) if filled is None else filled

    def named(self, section: PlacedMap) -> tuple[Path, PlacedMap] | None:
        """The file that a section names as `path`, relative to the section's own file."""
        text, place = section["path"], section.places["path"]
        path = place.file.parent / Path(text).expanduser()
        if self._count >= MOST_FILES:
            self._findings.mistake(
                place, f"more than {MOST_FILES} files are named; no fleet needs that"
            )
            return None
        if not path.exists():
            self._findings.mistake(place, f"there is no file {_missing(text, path, place.file)}")
            return None
        tree = self.read(path)
        return None if tree is None else (path, tree)


def _missing(text: str, path: Path, asking: Path) -> str:
    return text.written if isinstance(text, FromEnvironment) else f"{path}{_near(path, asking)}"


def _near(path: Path, asking: Path) -> str:
    """Never suggests the file that contains the reference."""
    try:
        names = [
            one.name for one in path.parent.iterdir() if one.is_file() and not one.samefile(asking)
        ]
    except OSError:
        return f"; nor is there a directory {path.parent}"
    near = difflib.get_close_matches(path.name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""
