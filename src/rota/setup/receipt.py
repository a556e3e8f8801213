"""Records what was put where, so that it can be removed. Kept in the state directory, without the
contents of the files, which may hold secrets."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.model.errors import InvalidInput
from rota.setup.parts import Facts

NAME = "setup.json"
VERSION = 1


@dataclass(slots=True)
class Receipt:
    """`files`: facts by path. `tools`: paths by tool; two tools may share a file. `made`:
    directories that did not exist before."""

    files: dict[str, Facts] = field(default_factory=dict)
    tools: dict[str, list[str]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Receipt":
        try:
            found = json.loads(path.read_text())
            return cls(dict(found["files"]), dict(found["tools"]), list(found["made"]))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(
                f"{path} cannot be read ({error}); delete it, and what it says will be guessed"
            ) from None

    @property
    def document(self) -> dict[str, Any]:
        return {
            "version": VERSION, "files": self.files, "tools": self.tools, "made": self.made,
        }  # fmt: skip

    def others_want(self, tool: str, path: str) -> bool:
        return any(path in paths for name, paths in self.tools.items() if name != tool)
