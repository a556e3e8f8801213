"""Where this process may make control groups, as /proc tells it."""

from pathlib import Path

import pytest

from rota.runner.cgroups import fresh, home

_REST = "rw,nosuid - cgroup2 cgroup2 rw"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As the file system of a machine: three groups, of which all may be written."""
    for place in ("", "service", "service/inner"):
        (tmp_path / "fs" / place).mkdir(parents=True)
        (tmp_path / "fs" / place / "cgroup.procs").touch()
    return tmp_path


def found(tree: Path, mounts: str, own: str) -> Path | None:
    (tree / "mountinfo").write_text(mounts.replace("FS", str(tree / "fs")))
    (tree / "cgroup").write_text(own)
    return home(tree / "mountinfo", tree / "cgroup")


def test_groups_are_made_in_the_group_of_the_server(tree: Path) -> None:
    assert found(tree, f"31 24 0:26 / FS {_REST}\n", "0::/service\n") == tree / "fs" / "service"


def test_old_and_new_groups_side_by_side(tree: Path) -> None:
    mounts = (
        f"30 24 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n31 24 0:26 / FS {_REST}\n"
    )
    own = "4:pids:/somewhere\n1:name=systemd:/elsewhere\n0::/\n"
    assert found(tree, mounts, own) == tree / "fs"


def test_a_container_sees_a_part_of_the_tree(tree: Path) -> None:
    mounts = f"31 24 0:26 /machine/box FS {_REST}\n"
    assert found(tree, mounts, "0::/machine/box/service\n") == tree / "fs" / "service"
    assert found(tree, mounts, "0::/machine/other\n") is None


def test_a_mount_point_with_a_blank_in_its_name(tree: Path) -> None:
    (tree / "fs").rename(tree / "f s")
    assert found(tree, f"31 24 0:26 / {tree}/f\\040s {_REST}\n", "0::/\n") == tree / "f s"


@pytest.mark.parametrize(
    ("mounts", "own"),
    [
        ("30 24 0:25 / FS rw - cgroup cgroup rw,pids\n", "4:pids:/\n"),
        (f"31 24 0:26 / FS {_REST}\n", "4:pids:/\n"),
        ("", "0::/\n"),
        (f"31 24 0:26 / FS {_REST}\n", "0::/gone\n"),
    ],
    ids=["only old groups", "no group of its own", "nothing mounted", "a group that is gone"],
)
def test_without_a_group_of_its_own_a_server_makes_none(tree: Path, mounts: str, own: str) -> None:
    assert found(tree, mounts, own) is None


def test_without_proc_there_are_no_groups(tmp_path: Path) -> None:
    assert home(tmp_path / "mountinfo", tmp_path / "cgroup") is None


def test_two_programs_of_one_run_have_different_groups(tmp_path: Path) -> None:
    assert fresh(tmp_path, "/state", "run-1") != fresh(tmp_path, "/state", "run-1")
