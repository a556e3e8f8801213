from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.fleet_site import Site, site


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        yield made
