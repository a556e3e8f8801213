"""The list of what the tests need beyond Python packages."""

from pathlib import Path

import pytest

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
