"""Which types of work source there are, and what is said when one is not."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any

import pytest

import rota.sources
from rota.model.errors import (
    DuplicateWorkSourceError,
    InvalidInput,
    UnknownWorkSourceError,
    WorkSourceError,
)
from rota.model.work import Priority
from rota.prompts import build_prompt
from rota.sources import WorkItem, registry
from rota.sources.memory import MemoryPlace, MemoryWorkSource
from rota.sources.registry import SourceContext, WorkSourceRegistry

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
DECLARED: dict[str, str] = PYPROJECT["project"]["entry-points"]["rota.sources"]


class Package(Distribution):
    """As much of an installed package as an entry point shows."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def read_text(self, filename: str) -> str | None:
        return None

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


def point(
    name: str, value: str = "rota.sources.memory:create", package: str = "rota"
) -> EntryPoint:
    made = EntryPoint(name, value, "rota.sources")
    vars(made)["dist"] = Package(package)  # as importlib.metadata does
    return made


def made_by(seen: list[Mapping[str, Any]]) -> registry.WorkSourceFactory:
    def factory(config: Mapping[str, Any], context: SourceContext) -> MemoryWorkSource:
        seen.append(config)
        return MemoryPlace().source(context.agent)

    return factory


@pytest.fixture
def empty() -> WorkSourceRegistry:
    return WorkSourceRegistry(lambda: ())


def test_a_registered_factory_gets_the_configuration_and_the_context(
    empty: WorkSourceRegistry,
) -> None:
    seen: list[Mapping[str, Any]] = []
    empty.register("linear", made_by(seen))
    source = empty.create({"type": "linear", "team": "core"}, SourceContext("ada"))
    assert isinstance(source, MemoryWorkSource)
    assert source.agent == "ada"
    assert seen == [{"type": "linear", "team": "core"}]


def test_a_factory_may_take_the_configuration_alone(empty: WorkSourceRegistry) -> None:
    class Plain(MemoryWorkSource):
        def __init__(self, config: Mapping[str, Any]) -> None:
            super().__init__(MemoryPlace(), "me")
            self.config = config

    empty.register("class", Plain)
    empty.register("lambda", lambda config: Plain(config))  # noqa: PLW0108 - as people write it
    for name in ("class", "lambda"):
        made = empty.create({"type": name, "size": 3})
        assert isinstance(made, Plain)
        assert made.config == {"type": name, "size": 3}


def test_a_type_is_registered_once(empty: WorkSourceRegistry) -> None:
    empty.register("linear", made_by([]))
    with pytest.raises(DuplicateWorkSourceError, match="unregister_work_source"):
        empty.register("linear", made_by([]))


def test_a_type_is_a_plain_name(empty: WorkSourceRegistry) -> None:
    with pytest.raises(InvalidInput, match="not a name"):
        empty.register("Linear Issues", made_by([]))


@pytest.mark.parametrize("config", [{}, {"type": None}, {"type": ""}, {"type": 7}])
def test_a_configuration_needs_a_type(empty: WorkSourceRegistry, config: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="needs a type"):
        empty.create(config)


def test_owner_and_repo_may_be_given_apart(empty: WorkSourceRegistry) -> None:
    seen: list[Mapping[str, Any]] = []
    empty.register("github", made_by(seen))
    empty.create({"type": "github", "owner": "my-org", "repo": "my-repo"})
    empty.create({"type": "github", "owner": "my-org", "repo": "other/repo"})
    empty.create({"type": "github", "repo": "my-org/my-repo"})
    assert [config["repo"] for config in seen] == ["my-org/my-repo", "other/repo", "my-org/my-repo"]
    assert not any("owner" in config for config in seen)


def test_an_unknown_type_names_all_that_are_known_and_the_nearest() -> None:
    types = WorkSourceRegistry(lambda: [point("github"), point("markdown")])
    types.register("linear", made_by([]))
    with pytest.raises(UnknownWorkSourceError) as refused:
        types.create({"type": "gihub"})
    assert "did you mean 'github'?" in refused.value.message
    assert "Registered: github, linear, markdown" in refused.value.message
    assert refused.value.details["registered"] == ["github", "linear", "markdown"]


def test_with_nothing_registered_the_message_says_so(empty: WorkSourceRegistry) -> None:
    with pytest.raises(UnknownWorkSourceError, match="Registered: none"):
        empty.create({"type": "github"})


def test_an_entry_point_serves_as_a_factory() -> None:
    types = WorkSourceRegistry(lambda: [point("memory")])
    assert types.is_registered("memory")
    source = types.create({"type": "memory", "items": [{"title": "Mend the gate"}]})
    assert isinstance(source, MemoryWorkSource)
    assert [entry.item.title for entry in source.place.entries.values()] == ["Mend the gate"]


def test_entry_points_are_looked_for_at_the_first_unknown_type_and_once() -> None:
    looked: list[int] = []

    def discover() -> Iterator[EntryPoint]:
        looked.append(1)
        yield point("memory")

    types = WorkSourceRegistry(discover)
    types.register("linear", made_by([]))
    types.create({"type": "linear"})
    assert looked == []
    for _ in range(2):
        types.create({"type": "memory"})
        types.types()
    assert looked == [1]


def test_what_is_registered_by_hand_wins_over_an_entry_point() -> None:
    types = WorkSourceRegistry(lambda: [point("memory")])
    types.create({"type": "memory"})
    seen: list[Mapping[str, Any]] = []
    types.register("memory", made_by(seen))
    types.create({"type": "memory"})
    assert len(seen) == 1
    assert types.types() == ["memory"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no_such_module_at_all:create", "ModuleNotFoundError"),
        ("rota.sources.memory:no_such_name", "AttributeError"),
        ("rota.sources.memory:ENDS_AS", "no factory"),
    ],
)
def test_a_broken_entry_point_is_named_and_hurts_no_other(value: str, told: str) -> None:
    types = WorkSourceRegistry(lambda: [point("broken", value, "their-package"), point("memory")])
    with pytest.raises(WorkSourceError, match=told) as refused:
        types.create({"type": "broken"})
    assert "'broken'" in refused.value.message
    assert "their-package" in refused.value.message
    assert isinstance(types.create({"type": "memory"}), MemoryWorkSource)


def test_nobody_takes_over_a_type_of_ours_by_being_installed() -> None:
    theirs = point("memory", "no.such.module:create", "evil-package")
    for points in ([theirs, point("memory")], [point("memory"), theirs]):
        types = WorkSourceRegistry(lambda points=points: points)  # type: ignore[misc]
        assert isinstance(types.create({"type": "memory"}), MemoryWorkSource)


def test_two_packages_that_offer_one_type_are_both_named() -> None:
    one = point("linear", "rota.sources.memory:create", "one-package")
    other = point("linear", "rota.sources.local:create", "other-package")
    types = WorkSourceRegistry(lambda: [one, other])
    with pytest.raises(DuplicateWorkSourceError, match="one-package and other-package"):
        types.create({"type": "linear"})


def test_an_unregistered_type_is_unknown_and_an_entry_point_too() -> None:
    types = WorkSourceRegistry(lambda: [point("memory")])
    types.register("linear", made_by([]))
    assert types.unregister("linear")
    assert types.unregister("memory")
    assert not types.unregister("memory")
    assert types.types() == []
    with pytest.raises(UnknownWorkSourceError):
        types.create({"type": "memory"})


def test_a_cleared_registry_knows_nothing_until_it_looks_again() -> None:
    types = WorkSourceRegistry(lambda: [point("memory")])
    types.register("linear", made_by([]))
    types.clear()
    assert types.types() == []
    assert not types.is_registered("memory")
    types.rediscover()
    assert types.types() == ["memory"]


def test_secrets_of_the_environment_are_not_shown_with_a_context() -> None:
    context = SourceContext(environ={"GITHUB_TOKEN": "ghp_canary"})
    assert "ghp_canary" not in repr(context)


def test_the_functions_work_on_one_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "default_registry", WorkSourceRegistry(lambda: ()))
    rota.sources.register_work_source("linear", made_by([]))
    assert rota.sources.is_work_source_registered("linear")
    assert rota.sources.get_registered_types() == ["linear"]
    assert isinstance(rota.sources.get_work_source({"type": "linear"}), MemoryWorkSource)
    assert rota.sources.unregister_work_source("linear")
    rota.sources.register_work_source("linear", made_by([]))
    rota.sources.clear_work_source_registry()
    assert rota.sources.get_registered_types() == []


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_what_the_project_declares_is_a_factory(name: str) -> None:
    assert callable(point(name, DECLARED[name]).load())


def test_the_built_in_types_are_declared() -> None:
    assert {"queue", "github", "gitea", "memory", "markdown"} <= set(DECLARED)


def test_every_exported_name_is_there() -> None:
    for name in rota.sources.__all__:
        assert getattr(rota.sources, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = rota.sources.no_such_name


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, rota.sources; from rota.sources import WorkSource, register_work_source;"
        "print([name for name in ('asyncio', 'pydantic', 'ruamel', 'httpx2', 'apsw',"
        " 'importlib.metadata') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("written", [Priority.HIGH, 2, "high", "HIGH"])
def test_an_item_of_a_source_has_a_priority_however_its_adapter_writes_it(written: Any) -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    item = WorkItem("x-1", "x", "1", "Mend it", "", written, (), "", now, now)
    assert item.priority is Priority.HIGH
    assert "- **Priority:** high" in build_prompt("Do:", item)


def test_an_item_of_a_source_cannot_have_a_priority_that_does_not_exist() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    for wrong in ("soon", 9, None):
        with pytest.raises(ValueError, match="not a valid Priority"):
            WorkItem("x-1", "x", "1", "Mend it", "", wrong, (), "", now, now)
