"""Schema, backup, and files."""

import stat
from pathlib import Path

import pytest

from rota.model.errors import StorageUnavailable
from rota.storage.port import Store
from rota.testing.store_contract.deeds import one


class CareContract:
    async def test_the_schema_of_an_open_store_is_current(self, store: Store) -> None:
        state = await store.schema()
        assert state.applied
        assert (state.pending, state.unknown, state.changed) == ([], [], [])
        assert await store.upgrade() == []

    async def test_size_is_that_of_the_data(self, store: Store) -> None:
        assert await store.size() > 4096

    async def test_a_backup_is_a_private_file_and_leaves_no_other(
        self, store: Store, tmp_path: Path
    ) -> None:
        await one(store)
        target = tmp_path / "copies" / "backup"
        target.parent.mkdir()
        await store.backup(target)
        assert target.stat().st_size > 0
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        assert list(target.parent.iterdir()) == [target]

    async def test_a_backup_that_cannot_be_written_says_so(
        self, store: Store, tmp_path: Path
    ) -> None:
        with pytest.raises(StorageUnavailable):
            await store.backup(tmp_path / "missing" / "backup")
