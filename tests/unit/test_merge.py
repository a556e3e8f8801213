"""Layers of a configuration become one; variables become values."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.config.interpolation import (
    FromEnvironment,
    UndefinedVariable,
    hidden,
    interpolate,
    interpolated,
)
from rota.config.merging import deep_merge
from rota.config.tree import Place, PlacedMap, find

OBSERVED = json.loads((Path(__file__).parents[1] / "data" / "observed.json").read_text())


@pytest.mark.parametrize("case", OBSERVED["merge"], ids=lambda case: json.dumps(case)[7:70])
def test_layers_are_merged_as_observed(case: dict[str, Any]) -> None:
    base, override = ("base", "override") if case["fn"] == "deepMerge" else ("defaults", "agent")
    assert deep_merge(case[base], case[override]) == case["out"]


def test_merging_leaves_its_layers_as_they_were() -> None:
    base, override = {"a": {"b": 1}}, {"a": {"c": 2}}
    deep_merge(base, override)["a"]["d"] = 3
    assert (base, override) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_what_is_of_another_type_takes_the_place_of_what_was() -> None:
    """The repository of a tracker is nothing that our own queue could be asked for."""
    base = {"work_source": {"type": "github", "repo": "ada/engine"}, "x": 1}
    merged = deep_merge(base, {"work_source": {"type": "queue"}})
    assert merged == {"work_source": {"type": "queue"}, "x": 1}


def layer(name: str, **entries: Any) -> PlacedMap:
    made = PlacedMap(Place(Path(name)))
    for line, (key, value) in enumerate(entries.items(), 2):
        made.put(key, value, Place(Path(name), line, 1, (key,)))
    return made


def test_a_merged_layer_knows_which_file_said_what() -> None:
    base = layer("base", model="a", env=layer("base", X="1", Y="2"))
    merged = deep_merge(base, layer("over", timeout="5m", env=layer("over", Y="3")))
    files = {
        loc: str(find(merged, loc)[0].file)
        for loc in [("model",), ("timeout",), ("env", "X"), ("env", "Y"), ("env", "Z")]
    }
    assert list(files.values()) == ["base", "over", "base", "over", "over"]


@pytest.mark.parametrize("case", OBSERVED["interpolate"], ids=lambda case: case["in"] or "empty")
def test_variables_are_filled_in_as_observed(case: dict[str, Any]) -> None:
    if "out" in case:
        assert interpolate(case["in"], case["env"]) == case["out"]
        return
    with pytest.raises(UndefinedVariable) as refused:
        interpolate(case["in"], case["env"])
    assert f"'{refused.value.name}'" in case["message"]


def test_keys_are_not_filled_in() -> None:
    tree = layer("f", **{"${A}": "${A}"})
    filled = interpolated(tree, {"A": "b"}, lambda _place, _name: None)
    assert filled == {"${A}": "b"}
    assert tree == {"${A}": "${A}"}


def test_what_a_variable_holds_is_not_filled_in_again() -> None:
    assert interpolate("${A}", {"A": "${B}", "B": "x"}) == "${B}"


@pytest.mark.parametrize(
    "message",
    [
        "'hunter2-hunter2' is not known",
        '"hunter2-hunter2" is not an interval',
        "bad value hunter2-hunter2 here",
        "it begins with 'hunter2-' and goes on",
    ],
)
def test_no_message_repeats_what_came_from_the_environment(message: str) -> None:
    tree = layer("f", a=FromEnvironment.of("hunter2-hunter2", "${PASSWORD}"))
    told = hidden(message, tree)
    assert "hunter2" not in told
    assert "${PASSWORD}" in told


def test_a_long_secret_is_not_repeated_in_part_either() -> None:
    secret = "s3cret" * 100
    tree = FromEnvironment.of(secret, "${S}")
    assert "s3cret" not in hidden(f"{secret[:100]!r} is no name", tree)
