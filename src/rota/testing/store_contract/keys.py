"""Idempotency keys and API tokens."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.model.access import ApiToken
from rota.model.errors import StorageError
from rota.storage.port import Store, Transaction
from rota.testing.store_contract.deeds import LATER, NOW, SOON, new_id


class KeysAndTokensContract:
    async def test_keep_key_remembers_the_first(self, store: Store) -> None:
        def keep(hashed: str, ids: list[str]) -> Callable[[Transaction], bool]:
            return lambda tx: tx.keep_key("k", hashed, ids, NOW)

        assert await store.read(lambda tx: tx.find_key("k")) is None
        assert await store.transact(keep("h1", ["a", "b"])) is True
        assert await store.transact(keep("h2", ["c"])) is False
        assert await store.read(lambda tx: tx.find_key("k")) == ("h1", ["a", "b"])

    async def test_forget_keys_forgets_the_old(self, store: Store) -> None:
        await store.transact(lambda tx: tx.keep_key("old", "h", [], NOW))
        await store.transact(lambda tx: tx.keep_key("new", "h", [], LATER))
        assert await store.transact(lambda tx: tx.forget_keys(NOW)) == 0
        assert await store.transact(lambda tx: tx.forget_keys(SOON)) == 1
        assert await store.read(lambda tx: tx.find_key("old")) is None
        assert await store.read(lambda tx: tx.find_key("new")) is not None

    async def test_a_token_is_found_by_its_hash(self, store: Store) -> None:
        token = ApiToken(new_id(), "ci", ("read", "agent:ada"), NOW, LATER, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "hash"))
        assert await store.read(lambda tx: tx.find_token("hash")) == token
        assert await store.read(lambda tx: tx.find_token("other")) is None
        assert await store.read(lambda tx: tx.list_tokens()) == [token]

    async def test_two_tokens_cannot_have_one_secret(self, store: Store) -> None:
        first, second = (
            ApiToken(new_id(), name, ("read",), NOW, None, None, None) for name in "ab"
        )
        await store.transact(lambda tx: tx.insert_token(first, "hash"))
        with pytest.raises(StorageError):
            await store.transact(lambda tx: tx.insert_token(second, "hash"))

    async def test_revoke_token_once(self, store: Store) -> None:
        token = ApiToken(new_id(), "ci", ("read",), NOW, None, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "hash"))
        assert await store.transact(lambda tx: tx.revoke_token(token.id, SOON)) is True
        assert await store.transact(lambda tx: tx.revoke_token(token.id, LATER)) is False
        assert await store.transact(lambda tx: tx.revoke_token("ghost", LATER)) is False
        assert await store.read(lambda tx: tx.find_token("hash")) == replace(token, revoked_at=SOON)

    async def test_touch_token_notes_the_use(self, store: Store) -> None:
        token = ApiToken(new_id(), "ci", ("read",), NOW, None, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "hash"))
        await store.transact(lambda tx: tx.touch_token(token.id, SOON))
        touched = await store.read(lambda tx: tx.find_token("hash"))
        assert touched == replace(token, last_used_at=SOON)

    async def test_has_tokens_counts_all_but_the_revoked(self, store: Store) -> None:
        async def some() -> bool:
            return await store.read(lambda tx: tx.has_tokens())

        assert await some() is False
        token = ApiToken(new_id(), "short", ("read",), NOW, NOW, None, None)
        await store.transact(lambda tx: tx.insert_token(token, "h1"))
        assert await some() is True
        await store.transact(lambda tx: tx.revoke_token(token.id, NOW))
        assert await some() is False
