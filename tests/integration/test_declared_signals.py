"""Signals that `rota.yaml` declares: checked with the file, and kept in step with it."""

from pathlib import Path

import pytest

from rota.app import open_store
from rota.config.loading import load_fleet
from rota.model.clock import SystemClock
from rota.model.errors import InvalidInput
from rota.model.signals import NewSignal, SignalStatus
from rota.signals import Signals
from rota.signals.declared import declared

GOOD = """\
version: 1
signals:
  failed-twice:
    when: {kind: work_item.status.transition, to: failed, type: bug_fix, nth: 2}
    then: {kind: hold, reason: it failed twice}
  release:
    when: {kind: work_item.status.transition, to: [completed], label: last}
    then: {kind: submit, title: "Release after {item.description}"}
    max_fires: 1
"""


def read(path: Path, text: str) -> list[NewSignal]:
    path.write_text(text)
    return declared(load_fleet(path).signals, SystemClock().now())


async def test_signals_of_the_file_are_stored_changed_and_cancelled_with_it(tmp_path: Path) -> None:
    file = tmp_path / "rota.yaml"
    async with open_store(str(tmp_path / "rota.db")) as store:
        signals = Signals(store)
        await signals.sync(read(file, GOOD))
        first = {one.name: one for one in await signals.find(SignalStatus.ACTIVE)}
        assert {name: one.max_fires for name, one in first.items()} == {
            "failed-twice": None,
            "release": 1,
        }
        await signals.sync(read(file, GOOD.replace("nth: 2", "nth: 3")))
        then = {one.name: one for one in await signals.find(SignalStatus.ACTIVE)}
        assert then["release"].id == first["release"].id
        assert then["failed-twice"].id != first["failed-twice"].id
        await signals.sync(read(file, "version: 1\n"))
        assert await signals.find(SignalStatus.ACTIVE) == []


def test_a_change_of_a_signal_is_a_change_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rota.yaml"
    file.write_text(GOOD)
    before = load_fleet(file).digest
    file.write_text(GOOD.replace("nth: 2", "nth: 3"))
    assert load_fleet(file).digest != before


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        ("to: fallen", "to: failed", r"rota.yaml:3:3: signals.failed-twice: when.to: 'fallen'"),
        ("tpye:", "type:", "when.tpye: unknown key; did you mean 'type'"),
        ("kind: explode", "kind: hold", "signals.failed-twice: then.kind: 'explode' is not known"),
        ("{item.secret}", "{item.description}", "signals.release: then.title: there is no field"),
        ("max_fires: 0", "max_fires: 1", "max_fires"),
        ("maxfires: 1", "max_fires: 1", "did you mean 'max_fires'"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, wrong: str, right: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        read(tmp_path / "rota.yaml", GOOD.replace(right, wrong))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("to: failed", "to: fallen").replace("kind: submit", "kind: sumbit")
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path / "rota.yaml", text)
    assert [one["key"] for one in refused.value.details["mistakes"]] == [
        "signals.failed-twice",
        "signals.release",
    ]
