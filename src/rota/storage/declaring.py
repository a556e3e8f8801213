"""The verbs about declarations; the statements are in sql/declarations.sql."""

from collections.abc import Collection

from rota.storage.declaration_port import Declaration, DeclarationKind
from rota.storage.primitives import Primitives
from rota.storage.rows import encode


class DeclarationStatements(Primitives):
    def lock_declarations(self) -> None:
        self._do("lock_declarations")

    def declarations(self, kind: DeclarationKind) -> list[Declaration]:
        rows = self._rows("declarations", kind=kind)
        return [Declaration(row[0], row[1], bool(row[2])) for row in rows]

    def declare(self, kind: DeclarationKind, home: str, names: Collection[str]) -> None:
        given = encode(sorted(set(names)))
        self._do("declare", kind=kind, home=home, names=given)
        self._do("withdraw", kind=kind, home=home, names=given)

    def forget_declaration(self, kind: DeclarationKind, name: str) -> None:
        self._do("forget_declaration", kind=kind, name=name)
