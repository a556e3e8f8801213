"""A configuration that is read again while the database fails on the way."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rota.app import open_store
from rota.app.fleet import FleetAtWork
from rota.app.sources import read_fleet
from rota.config import Settings
from rota.daemon import Crew
from rota.model.errors import InvalidInput, StorageUnavailable
from rota.model.fleet import RunSettings, RuntimeKind
from rota.notify.reading import POSITION
from rota.queue.ledger import Ledger
from rota.runner import RunRequest
from rota.signals import Signals
from rota.storage.port import Store, Transaction

SIGNAL = {
    "when": {"kind": "work_item.status.transition", "to": "failed"},
    "then": {"kind": "hold", "reason": "it failed"},
}
NOTIFY = {
    "channels": {"desk": {"type": "command", "argv": ["true"]}},
    "rules": {"people": {"on": ["blocked"], "to": "desk"}},
}
Standing = tuple[list[str], list[str], int, bool, bool]


@dataclass
class Scene:
    store: Store
    ledger: Ledger
    fleet: FleetAtWork
    crew: Crew
    file: Path

    def write(self, number: int) -> Standing:
        """A file that differs in all that the ledger is told of; and what it is told then."""
        self.file.write_text(json.dumps(configuration(number)))
        notifies = bool(number % 2)
        return [f"plan-{number}"], [f"signal-{number}"], number + 1, notifies, notifies

    async def standing(self) -> Standing:
        found = await self.store.read(lambda tx: tx.named_signals())
        loads = await self.ledger.views.agents()
        mark = await self.store.read(lambda tx: tx.get_mark(POSITION))
        return (
            [one.name for one in await self.ledger.schedules.find()],
            [one.name for one in found if one.name],
            loads[0].agent.max_concurrent,
            mark is not None,
            "notices" in [one.name for one in self.crew._waiting],  # it has not begun
        )

    @contextmanager
    def failing_at(self, turn: int) -> Iterator[list[int]]:
        """The transaction of this number, from now on, finds the database away. Gives the numbers
        that did."""
        honest, turns, failed = self.store.transact, iter(range(turn + 1)), list[int]()

        def away(body: Callable[[Transaction], object]) -> object:
            if next(turns, None) == turn:
                failed.append(turn)
                raise StorageUnavailable("the database restarts")
            return honest(body)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.store, "transact", away)
            yield failed


def configuration(number: int) -> dict[str, Any]:
    plan = {"type": "interval", "interval": "1h", "prompt": "Look."}
    agent = {
        "name": "smith",
        "runtime": {"type": "command", "command": ["true"]},
        "instances": {"max_concurrent": number + 1},
        "schedules": {f"plan-{number}": plan},
    }
    more = {"notify": NOTIFY} if number % 2 else {}
    return {"version": 1, "agents": [agent], "signals": {f"signal-{number}": SIGNAL}, **more}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    file = tmp_path / "rota.yaml"
    file.write_text(json.dumps(configuration(0)))
    settings = Settings.from_environment({}, state_dir=tmp_path / ".rota", config=file)
    async with open_store(settings.database) as store:
        ledger = Ledger.on(store, node="here", logs=settings.run_logs)
        crew = Crew([], asyncio.Event())
        fleet = FleetAtWork(
            settings,
            store,
            ledger,
            Signals(store),
            node="here",
            loaded=read_fleet(settings),
            crew=crew,
        )
        async with fleet:
            yield Scene(store, ledger, fleet, crew, file)


async def test_what_a_reload_did_not_get_done_is_done_by_the_next(scene: Scene) -> None:
    for turn in range(100):
        wanted = scene.write(turn + 1)
        with scene.failing_at(turn // 2) as failed:  # notifications are switched on, then off
            try:
                await scene.fleet.reload()
            except StorageUnavailable:  # not of each: see `Signals._bound`
                assert (await scene.fleet.reload()).changed
        assert await scene.standing() == wanted
        assert not (await scene.fleet.reload()).changed
        if not failed:
            break
    assert turn >= 10, "it writes at least five times, and each was cut short with either file"


async def test_what_only_a_restart_changes_is_said_each_time(scene: Scene) -> None:
    web = {"web": {"port": 9999, "enabled": False, "public_url": "https://rota.example.org"}}
    scene.file.write_text(json.dumps(configuration(0) | web))
    warning = f"{scene.file}: web.enabled, web.port: changes when the server restarts"
    for changed in (True, False):
        told = await scene.fleet.reload()
        assert (told.changed, told.warnings) == (changed, [warning])
    scene.write(0)
    assert (await scene.fleet.reload()).warnings == []


@pytest.mark.parametrize("turn", range(2, 6))  # the first two are the declaration of signals
@pytest.mark.parametrize("old", [2, 3])
async def test_who_takes_a_file_back_that_was_half_in_force_gets_the_old_one_whole(
    scene: Scene, old: int, turn: int
) -> None:
    before = scene.write(old)
    await scene.fleet.reload()
    scene.write(old + 1)
    with scene.failing_at(turn), pytest.raises(StorageUnavailable):
        await scene.fleet.reload()
    scene.write(old)
    assert (await scene.fleet.reload()).changed
    assert await scene.standing() == before


async def test_a_variable_that_the_file_names_for_a_secret_is_hidden_from_the_next_run_on(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GH_PAT", "canary-5f3a9c")
    settings = RunSettings(
        RuntimeKind.COMMAND,
        command=("sh", "-c", "echo $GH_PAT"),
        env_pass=("GH_PAT",),
        working_directory=tmp_path,
    )
    request = RunRequest("run-1", "smith", settings, "", tmp_path / "log.jsonl")
    assert (await scene.fleet._runner.execute(request)).summary == "canary-5f3a9c"
    named = configuration(0)
    named["agents"][0]["work_source"] = {
        "type": "github",
        "repo": "ada/engine",
        "auth": {"token_env": "GH_PAT"},
    }
    scene.file.write_text(json.dumps(named))
    await scene.fleet.reload()
    assert (await scene.fleet._runner.execute(request)).summary == "[hidden]"


async def test_a_file_with_a_mistake_changes_nothing_and_the_old_one_is_no_news(
    scene: Scene,
) -> None:
    before = scene.write(0)
    wrong = configuration(1)
    wrong["sources"] = [{"type": "github", "repo": "ada/engine"}] * 2
    scene.file.write_text(json.dumps(wrong))
    with pytest.raises(InvalidInput):
        await scene.fleet.reload()
    scene.write(0)
    assert not (await scene.fleet.reload()).changed
    assert await scene.standing() == before


async def test_a_repository_is_looked_after_anew_when_any_of_its_agents_has_other_labels(
    scene: Scene,
) -> None:
    def two(number: int, ready: str) -> str:
        made = configuration(number)
        source = {"type": "github", "repo": "ada/engine"}
        poet = {**made["agents"][0], "name": "poet"}
        made["agents"] = [
            {**made["agents"][0], "work_source": source},
            {**poet, "work_source": {**source, "labels": {"ready": ready}}},
        ]
        return json.dumps(made)

    scene.file.write_text(two(0, "poem"))
    await scene.fleet.reload()
    [first] = scene.fleet._tendings.values()
    scene.file.write_text(two(2, "poem"))
    await scene.fleet.reload()
    assert [*scene.fleet._tendings.values()] == [first]
    scene.file.write_text(two(2, "ode"))
    await scene.fleet.reload()
    [again] = scene.fleet._tendings.values()
    assert again is not first
    assert [name for name, _ in again.agents] == ["smith", "poet"]
