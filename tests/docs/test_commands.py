"""What the documentation tells a reader to type does what it says."""

from pathlib import Path

import pytest

from tests.docs import console
from tests.docs.pages import DOCS, ROOT, every_page, name_of

README, TUTORIAL = ROOT / "README.md", DOCS / "tutorial.md"
WITH_COMMANDS = [page for page in every_page() if console.steps_on(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    console.check(page, tmp_path)


def test_readme_and_tutorial_have_commands_to_run() -> None:
    assert README in WITH_COMMANDS
    assert TUTORIAL in WITH_COMMANDS
