"""What the configuration files of servers declare."""

from rota.storage.declaration_port import Declaration, DeclarationKind
from rota.storage.port import Store

SIGNAL, NOTIFY = DeclarationKind.SIGNAL, DeclarationKind.NOTIFY


async def declared(store: Store, kind: DeclarationKind = SIGNAL) -> list[tuple[str, str, bool]]:
    found = await store.read(lambda tx: tx.declarations(kind))
    assert all(isinstance(one, Declaration) for one in found)
    return [(one.name, one.home, one.wanted) for one in found]


class DeclarationsContract:
    async def test_declare_is_all_that_a_home_has_of_a_kind(self, store: Store) -> None:
        await store.transact(lambda tx: tx.declare(SIGNAL, "north", ["b", "a"]))
        await store.transact(lambda tx: tx.declare(SIGNAL, "south", ["a"]))
        await store.transact(lambda tx: tx.declare(NOTIFY, "north", ["a"]))
        await store.transact(lambda tx: tx.declare(SIGNAL, "north", ["b", "c"]))
        assert await declared(store) == [
            ("a", "north", False),
            ("a", "south", True),
            ("b", "north", True),
            ("c", "north", True),
        ]
        assert await declared(store, NOTIFY) == [("a", "north", True)]

    async def test_declare_brings_back_what_was_not_wanted(self, store: Store) -> None:
        for names in (["a"], [], ["a"]):
            await store.transact(lambda tx, names=names: tx.declare(SIGNAL, "north", names))  # type: ignore[misc]
        assert await declared(store) == [("a", "north", True)]

    async def test_forget_declaration_is_for_all_homes(self, store: Store) -> None:
        await store.transact(lambda tx: tx.declare(SIGNAL, "north", ["a", "b"]))
        await store.transact(lambda tx: tx.declare(SIGNAL, "south", ["a"]))
        await store.transact(lambda tx: tx.declare(NOTIFY, "south", ["a"]))
        await store.transact(lambda tx: tx.forget_declaration(SIGNAL, "a"))
        assert await declared(store) == [("b", "north", True)]
        assert await declared(store, NOTIFY) == [("a", "south", True)]
