"""Files that have their old content or their new one, never half."""

import contextlib
from pathlib import Path

from rota.files import replacing


def test_the_new_content_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    with replacing(target, mode=0o640) as partial:
        partial.write_text("new")
        assert target.read_text() == "old"
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_broken_off_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    with contextlib.suppress(ZeroDivisionError), replacing(target) as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_of_two_who_write_at_once_neither_puts_the_half_of_the_other_in_place(
    tmp_path: Path,
) -> None:
    target = tmp_path / "x"
    with replacing(target) as slow:
        slow.write_text("half of the slow one's")
        with replacing(target) as quick:
            assert slow.read_text() == "half of the slow one's"
            quick.write_text("the quick one's")
        assert target.read_text() == "the quick one's"
        slow.write_text("the slow one's")
    assert target.read_text() == "the slow one's"


def test_until_it_is_whole_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    with replacing(tmp_path / "x", mode=0o644) as partial:
        assert partial.stat().st_mode & 0o777 == 0o600


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    target = tmp_path / ("é" * 127)
    with replacing(target) as partial:
        partial.write_text("x")
    assert target.read_text() == "x"
