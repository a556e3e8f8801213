"""Forward-only migrations: numbered SQL files with the same names for both databases."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rota.model.errors import SchemaAhead, SchemaBehind
from rota.storage.port import SchemaState


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    folder = resources.files("rota.storage.migrations") / dialect
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        Migration(file.name.removesuffix(".sql"), file.read_text())
        for file in files
        if file.name.endswith(".sql")
    )


TABLE = """CREATE TABLE IF NOT EXISTS schema_migrations (
  name text PRIMARY KEY NOT NULL, sha256 text NOT NULL, applied_at text NOT NULL)"""


def state_of(dialect: str, applied: Mapping[str, str]) -> SchemaState:
    """Compare what a database has had (name to sha256) with what we carry."""
    ours = {migration.name: migration.sha256 for migration in migrations(dialect)}
    return SchemaState(
        applied=sorted(applied),
        pending=[name for name in ours if name not in applied],
        unknown=sorted(name for name in applied if name not in ours),
        changed=sorted(n for n, sha in applied.items() if n in ours and ours[n] != sha),
    )


def demand_current(state: SchemaState, url: str) -> None:
    if state.unknown:
        raise SchemaAhead(
            f"{url} was written by a newer Rota (it has {', '.join(state.unknown)});"
            " install that version, or use another database",
            unknown=state.unknown,
        )
    if state.changed:
        raise SchemaAhead(
            f"{url} has other text for {', '.join(state.changed)} than this Rota;"
            " it was made by a build that is not a release: use another database",
            changed=state.changed,
        )
    if state.pending:
        raise SchemaBehind(
            f"{url} lacks {', '.join(state.pending)}; run `rota db upgrade`"
            " (and `rota db backup` before it)",
            pending=state.pending,
        )
