"""Files of one run that are in no working directory."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_NAMES = ("result.json", "item.json", "prompt.txt", "mcp.json")


@dataclass(frozen=True, slots=True)
class Scratch:
    """All runs share one private directory, and their ids keep the files apart: creating and
    removing a directory for each would be the most expensive part of a short run."""

    directory: Path
    run_id: str

    @classmethod
    def of(cls, root: Path, run_id: str) -> "Scratch":
        directory = root / "scratch"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(directory, run_id)

    @property
    def result(self) -> Path:
        """The file that the agent may write."""
        return self._path("result.json")

    def write(self, name: str, content: bytes) -> Path:
        path = self._path(name)
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    def _path(self, name: str) -> Path:
        if name not in _NAMES:
            raise ValueError(f"{name} would not be removed")
        return self.directory / f"{self.run_id}-{name}"

    def __enter__(self) -> "Scratch":
        self._remove()  # a run of that id may have crashed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in _NAMES:
            try:
                self._path(name).unlink(missing_ok=True)
            except OSError:  # the agent has made a directory of that name
                shutil.rmtree(self._path(name), ignore_errors=True)
