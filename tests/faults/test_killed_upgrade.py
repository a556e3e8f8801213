"""An upgrade, killed before each of its statements; tests/contract has a sample."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.upgrades import demand_whole


@pytest.mark.long
@pytest.mark.parametrize("start_from", ["nothing", "first", "old"])
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_an_upgrade_killed_before_every_statement(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    where: str,
    start_from: str,
    figure: Callable[[str], None],
) -> None:
    lite = f"sqlite:///{tmp_path}/db/rota.db"
    url = lite if where == "sqlite" else request.getfixturevalue("postgres_url")
    demand_whole(url, start_from, 1, figure)
