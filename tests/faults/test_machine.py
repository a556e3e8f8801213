"""The machine of tests/contract, for as long as it takes to find what is rare."""

import pytest

from tests.contract.test_machine import run


@pytest.mark.long
def test_both_databases_do_what_the_model_says_for_long(postgres_url: str) -> None:
    run(postgres_url, examples=300, steps=60)
