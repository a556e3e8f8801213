"""What was said in several lines, where there is room for one."""

import pytest

from rota.queue.reasons import in_one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("looking\n\nError: it exited with 1", "looking; Error: it exited with 1"),
        ("The run was cancelled.\n\nError: so", "The run was cancelled. Error: so"),
        ("Two are done.\nWhich is next?\n", "Two are done. Which is next?"),
        ("There are:\n- one\n- two", "There are: - one; - two"),
    ],
)
def test_two_lines_are_kept_apart_by_one_mark(text: str, line: str) -> None:
    assert in_one_line(text) == line
