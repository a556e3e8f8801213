"""From parts to files: all changes are computed before anything is written."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from rota.config import StateDir
from rota.model.errors import Refused
from rota.setup import writing
from rota.setup.parts import Part
from rota.setup.receipt import NAME, Receipt


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    before: str | None
    after: str | None

    @property
    def deed(self) -> str:
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "changed"

    @property
    def diff(self) -> str:
        old, new = (text.splitlines(keepends=True) if text else [] for text in self.texts)
        names = (str(self.path) if self.before is not None else "/dev/null",
                 str(self.path) if self.after is not None else "/dev/null")  # fmt: skip
        lines = (
            line if line.endswith("\n") else f"{line}\n" for line in unified_diff(old, new, *names)
        )
        return "".join(lines)

    @property
    def texts(self) -> tuple[str | None, str | None]:
        return self.before, self.after


class Setup:
    """One tool in one directory, with the receipt of all tools."""

    def __init__(self, tool: str, parts: Sequence[Part], state_dir: Path) -> None:
        self._tool = tool
        self._parts = parts
        self._state_dir = StateDir(state_dir)
        self._receipt_file = state_dir / NAME
        self._receipt = Receipt.read(self._receipt_file)

    # adding

    def planned(self) -> list[Change]:
        changes = []
        for part in self._parts:
            text = writing.read(part.path)
            name = _name(part.path)
            after, self._receipt.files[name] = part.put(text, self._receipt.files.get(name))
            changes.append(Change(part.path, text, after))
        return changes

    def apply(self, changes: Sequence[Change]) -> None:
        """Writes the receipt first: whatever is on the disk after an interruption, the next call
        knows what was there before us."""
        self._receipt.tools[self._tool] = [_name(one.path) for one in changes]
        made = [each for one in changes for each in writing.missing_parents(one.path.resolve())]
        self._state_dir.create()
        if self._state_dir.is_unused:  # created by us, now or in a call that was interrupted
            made.append(self._state_dir.path)
        self._receipt.made = list(dict.fromkeys([*self._receipt.made, *map(str, made)]))
        self._keep_receipt()
        self._write(changes)

    # removing

    def planned_removal(self) -> list[Change]:
        changes = []
        for part in self._parts:
            text = writing.read(part.path)
            if text is None or self._receipt.others_want(self._tool, _name(part.path)):
                continue
            facts = self._receipt.files.get(_name(part.path))
            changes.append(Change(part.path, text, part.take(text, facts)))
        return changes

    def apply_removal(self, changes: Sequence[Change]) -> None:
        """Writes the receipt last, for the same reason."""
        self._write(changes)
        for path in self._receipt.tools.pop(self._tool, [_name(one.path) for one in changes]):
            if not self._receipt.others_want(self._tool, path):
                self._receipt.files.pop(path, None)
        if self._receipt.tools:
            self._keep_receipt()
            return
        writing.delete(self._receipt_file)
        for directory in reversed(self._receipt.made):
            if directory == str(self._state_dir.path):
                self._state_dir.remove_if_unused()
            else:
                writing.remove_if_empty(Path(directory))

    def _write(self, changes: Sequence[Change]) -> None:
        for one in changes:
            if one.deed == "unchanged":
                continue
            if writing.read(one.path) != one.before:
                raise Refused(f"{one.path} was changed by somebody else meanwhile; try again")
            if one.after is None:
                writing.delete(one.path)
            else:
                writing.write(one.path, one.after)

    def _keep_receipt(self) -> None:
        text = json.dumps(self._receipt.document, indent=1) + "\n"
        if writing.read(self._receipt_file) != text:
            writing.write(self._receipt_file, text, mode=0o600)


def _name(path: Path) -> str:
    """The name of the real file: CLAUDE.md is often a link to AGENTS.md, which other tools use
    too."""
    return str(path.resolve())
