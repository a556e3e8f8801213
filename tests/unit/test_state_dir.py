"""The state directory: whose it is, and how it is called."""

import shutil
from pathlib import Path

from rota.config.state_dir import StateDir


def test_a_place_keeps_its_name_and_another_machines_directory_of_the_same_path_has_its_own(
    tmp_path: Path,
) -> None:
    here = StateDir(tmp_path / ".rota")
    here.create()
    name = here.place()
    assert here.place() == StateDir(tmp_path / ".rota").place() == name
    assert (here.path / "place").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(here.path)
    here.create()  # as on a machine with the same name and the same paths
    assert here.place() != name
