"""The ledger of the pictures: whatever it shows was done by the rules."""

from datetime import UTC, datetime
from pathlib import Path

from rota.app import open_store
from rota.signals import Signals
from tools.showroom import furnish


async def test_every_signal_of_the_showroom_fires_and_none_fails(tmp_path: Path) -> None:
    await furnish(tmp_path, days=1, now=datetime(2026, 5, 6, 15, tzinfo=UTC))
    async with open_store(str(tmp_path / ".rota" / "rota.db")) as store:
        signals = Signals(store)
        fired = {one.name: one.fires for one in await signals.find()}
        assert len(fired) == 3
        assert all(fired.values()), fired
        assert await signals.failed(1) == []
