"""The list of what the tests need beyond Python packages."""

import subprocess
import sys
from pathlib import Path

import pytest

from rota.testing.chromium import find_chromium
from tools import components
from tools.components import Component, main, missing

HERE = Component("demos", "it anywhere", find=lambda: "/usr/bin/here", probe=lambda: "here 1.0")
ABSENT = Component("sails", "a breeze", find=lambda: None, probe=lambda: "never asked")


def broken() -> str:
    raise OSError("it does not start")


BROKEN = Component("repairs", "a new one", find=lambda: "/usr/bin/broken", probe=broken)


@pytest.fixture(autouse=True)
def nothing_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_REQUIRE", raising=False)


def listing(monkeypatch: pytest.MonkeyPatch, **those: Component) -> None:
    monkeypatch.setattr(components, "COMPONENTS", those)


def test_each_component_is_listed_with_where_it_is_or_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listing(monkeypatch, here=HERE, wind=ABSENT, broken=BROKEN)
    assert main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "here: here 1.0, from /usr/bin/here",
        "wind: MISSING, needed for sails: get a breeze",
        "broken: BROKEN, from /usr/bin/broken: it does not start",
    ]


@pytest.mark.parametrize(("component", "status"), [(HERE, 0), (ABSENT, 1), (BROKEN, 1)])
def test_where_everything_is_required_an_unusable_component_is_an_error(
    monkeypatch: pytest.MonkeyPatch, component: Component, status: int
) -> None:
    monkeypatch.setenv("ROTA_REQUIRE", "all")
    listing(monkeypatch, it=component)
    assert main() == status


def test_a_browser_is_the_one_that_was_named_or_one_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("google-chrome", "my-own"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ROTA_CHROMIUM", raising=False)
    assert find_chromium() == str(tmp_path / "google-chrome")
    monkeypatch.setenv("ROTA_CHROMIUM", str(tmp_path / "my-own"))
    assert find_chromium() == str(tmp_path / "my-own")
    monkeypatch.setenv("ROTA_CHROMIUM", str(tmp_path / "gone"))
    assert find_chromium() is None


def test_asking_for_components_does_not_load_a_browser() -> None:
    """Every test run asks."""
    program = "import sys, tools.components; sys.exit('playwright' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0


def test_a_missing_component_is_installed_where_that_is_possible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = tmp_path / "wanted"
    listing(
        monkeypatch,
        wanted=Component(
            "showing",
            "it by touch",
            find=lambda: str(wanted) if wanted.exists() else None,
            probe=lambda: "wanted",
            install=("touch", str(wanted)),
        ),
    )
    assert missing("wanted") == "wanted is missing: get it by touch"
    main()
    assert missing("wanted") is None
