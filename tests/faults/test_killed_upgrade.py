"""An upgrade of PostgreSQL, killed before each of its statements; tests/contract has a sample."""

from collections.abc import Callable

import pytest

from tests.contract.upgrades import demand_whole


@pytest.mark.long
@pytest.mark.parametrize("start_from", ["nothing", "first", "old"])
def test_an_upgrade_of_postgres_killed_before_every_statement(
    postgres_url: str, start_from: str, figure: Callable[[str], None]
) -> None:
    demand_whole(postgres_url, start_from, 1, figure)
