"""Servers with files of their own on one database: each takes away what its own file has had."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rota.app import open_store
from rota.app.fleet import FleetAtWork
from rota.app.sources import read_fleet
from rota.config import Settings, StateDir
from rota.daemon import Crew
from rota.model.clock import IdFactory
from rota.model.notices import WaitingNotice
from rota.model.signals import SignalStatus
from rota.notify import Notices
from rota.queue.ledger import Ledger
from rota.scheduler import Scheduler
from rota.signals import Signals, SignalScheduler
from rota.storage.port import Store
from rota.testing.clock import ManualClock

on_both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)

STUCK = {"when": {"kind": "work_item.status.transition", "to": "blocked"}}
FAILED = {"when": {"kind": "work_item.status.transition", "to": "failed"}}
DESK = {
    "channels": {"desk": {"type": "webhook", "url": "https://example.org/desk"}},
    "rules": {"people": {"on": ["blocked"], "to": "desk", "digest": "1h"}},
}


@dataclass
class Home:
    """A directory with a file, for one server at a time."""

    place: Path
    store: Store
    clock: ManualClock

    def write(self, **content: Any) -> "Home":
        self.place.mkdir(exist_ok=True)
        (self.place / "rota.yaml").write_text(json.dumps(content))
        return self

    @asynccontextmanager
    async def up(self, *, agents: bool = True) -> AsyncIterator[FleetAtWork]:
        """`rota up`, without its faces, and without anything that it does by itself."""
        settings = Settings(
            state_dir=self.place / ".rota", config=self.place / "rota.yaml", agents=agents
        )
        StateDir(settings.state_dir).create()
        async with FleetAtWork(
            settings,
            self.store,
            Ledger.on(self.store, logs=settings.run_logs),
            Signals(self.store),
            node=IdFactory(self.clock).new(),
            loaded=read_fleet(settings),
            crew=Crew([], asyncio.Event()),
        ) as fleet:
            yield fleet

    async def restart(self, **content: Any) -> None:
        self.write(**content)
        async with self.up():
            pass

    async def active(self) -> list[str]:
        found = await Signals(self.store).find(SignalStatus.ACTIVE)
        return sorted(one.name or "" for one in found)

    async def put_by(self) -> None:
        """Something waits to be told."""
        notice = WaitingNotice("n", "desk", "rule:people", 1, {}, "2026-05-01", "2099-05-01")
        await self.store.transact(lambda tx: tx.put_notice(notice))

    async def keeps(self) -> bool:
        """What waits, and how far the log was read."""
        waits, position = await self.store.read(
            lambda tx: (tx.next_notice(), tx.get_mark("position"))
        )
        assert (waits is None) == (position is None)
        return waits is not None


Homes = Callable[[str], Home]


@pytest.fixture
async def home(database: str, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Homes]:
    async with open_store(database, clock) as store:
        yield lambda name: Home(tmp_path / name, store, clock)


# one server


@on_both_databases
async def test_what_is_taken_out_of_the_file_goes_at_a_restart_and_at_a_reload(home: Homes) -> None:
    one = home("one").write(signals={"a": STUCK, "b": STUCK, "c": STUCK})
    async with one.up() as fleet:
        assert await one.active() == ["a", "b", "c"]
        one.write(signals={"a": FAILED, "b": STUCK})
        assert (await fleet.reload()).warnings == []
        assert await one.active() == ["a", "b"]
    await one.restart(signals={"a": STUCK})
    assert await one.active() == ["a"]
    await one.restart()
    assert await one.active() == []


async def test_one_that_died_and_is_called_otherwise_now_knows_what_it_had(
    home: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that is made anew has another name, and the same volume."""
    one = home("one").write(signals={"a": STUCK})
    async with one.up():
        (node,) = await one.store.read(lambda tx: tx.living_nodes())
    await one.store.transact(lambda tx: tx.put_node(node))  # as if it had been killed
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    await one.restart()
    assert await one.active() == []


async def test_a_file_that_is_gone_is_no_wish_to_have_nothing(home: Homes) -> None:
    one = home("one").write(signals={"a": STUCK}, notify=DESK)
    async with one.up():
        await one.put_by()
    (one.place / "rota.yaml").unlink()
    async with one.up() as fleet:
        await fleet.let_go()
        assert await one.active() == ["a"]
        assert await one.keeps()
    await one.restart()
    assert await one.active() == []
    assert not await one.keeps()


async def test_nothing_is_let_go_while_the_file_is_read_again(
    home: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a file that has rules again could lose them to a look at the one that had none."""
    one, held = home("one").write(), []
    async with one.up() as fleet:
        forget = Notices.forget

        async def looked_at(notices: Notices) -> None:
            held.append(fleet._reloading.locked())
            await forget(notices)

        monkeypatch.setattr(Notices, "forget", looked_at)
        await fleet.let_go()
        assert held == [True]


# several with one file


@on_both_databases
async def test_of_several_that_are_restarted_one_by_one_the_last_takes_it_away(home: Homes) -> None:
    file: dict[str, Any] = {"signals": {"a": STUCK, "b": STUCK}, "notify": DESK}
    north, south = home("north").write(**file), home("south").write(**file)
    async with south.up():
        async with north.up():
            await north.put_by()
        await north.restart(signals={"a": STUCK})
        assert await north.active() == ["a", "b"], "another still has it in its file"
        assert await north.keeps()
    async with north.up():
        await south.restart(signals={"a": STUCK})
        assert await south.active() == ["a"], "no file has it any more"
        assert not await south.keeps()


@on_both_databases
async def test_what_only_another_has_in_its_file_waits_a_day_for_that_one(
    home: Homes, clock: ManualClock
) -> None:
    file: dict[str, Any] = {"signals": {"a": STUCK, "b": STUCK}, "notify": DESK}
    north, south = home("north").write(**file), home("south").write(**file)
    async with north.up() as fleet:
        async with south.up():
            await north.put_by()
        north.write(signals={"a": STUCK})
        await fleet.reload()
        clock.advance(86_000)
        await fleet.let_go()
        assert await north.active() == ["a", "b"]
        assert await north.keeps()
        clock.advance(1_000)
        await fleet.let_go()
        assert await north.active() == ["a"]
        assert not await north.keeps()
    async with south.up():  # it comes back all the same
        assert await south.active() == ["a", "b"]


async def test_what_was_let_go_is_taken_away_by_whoever_is_left(
    home: Homes, clock: ManualClock
) -> None:
    north, south, bare = home("north"), home("south"), home("bare")
    for one in (north, south):
        await one.restart(signals={"a": STUCK, "b": STUCK})
    await north.restart()
    clock.advance(90_000)
    async with home("new").write(signals={"b": STUCK}).up():
        assert await north.active() == ["b"]
        assert len(await Signals(north.store).find()) == 2, "what it has itself was not touched"
    clock.advance(90_000)
    bare.place.mkdir()
    async with bare.up() as fleet:
        await fleet.let_go()
        assert await north.active() == []


@on_both_databases
async def test_all_that_are_started_with_a_new_file_take_it_away_whoever_comes_first(
    home: Homes,
) -> None:
    file: dict[str, Any] = {"signals": {"a": STUCK, "b": STUCK}, "notify": DESK}
    north, south = home("north").write(**file), home("south").write(**file)
    async with south.up(), north.up():
        await north.put_by()
    for one in (south, north):
        assert (await one.active(), await one.keeps()) == (["a", "b"], True)
        await one.restart(signals={"a": STUCK})
    assert (await north.active(), await north.keeps()) == (["a"], False)


@on_both_databases
async def test_what_was_let_go_while_a_server_started_is_there_when_it_has(
    home: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its word and its first being seen, nobody can know that it is there."""
    north, south = home("north"), home("south").write(signals={"a": STUCK})
    await north.restart(signals={"a": STUCK})
    opened = Scheduler.open

    async def late(scheduler: Scheduler, agents: Any) -> None:
        monkeypatch.setattr(Scheduler, "open", opened)
        await north.restart()
        assert await north.active() == []
        await opened(scheduler, agents)

    monkeypatch.setattr(Scheduler, "open", late)
    async with south.up():
        assert await south.active() == ["a"]


# strangers


@on_both_databases
@pytest.mark.parametrize("agents", [True, False])
async def test_a_server_with_another_file_or_none_leaves_the_rest_alone(
    home: Homes, agents: bool
) -> None:
    first = home("first").write(signals={"a": STUCK, "both": STUCK}, notify=DESK)
    other, bare = home("other").write(signals={"b": STUCK, "both": STUCK}), home("bare")
    bare.place.mkdir()
    async with first.up():
        await first.put_by()
        async with bare.up(agents=agents), other.up(agents=agents) as fleet:
            await fleet.let_go()
            assert await other.active() == ["a", "b", "both"]
            other.write(signals={"b": STUCK, "both": STUCK, "c": STUCK})
            assert (await fleet.reload()).warnings == []
        await other.restart()
        assert await other.active() == ["a", "both"]
    async with bare.up(agents=agents), other.up(agents=agents) as fleet:  # the first is away
        await fleet.let_go()
        assert await other.active() == ["a", "both"]
        assert await first.keeps()
    await first.restart()
    assert await first.active() == []
    assert not await first.keeps()


async def test_what_stands_in_nobodys_file_is_told(home: Homes, clock: ManualClock) -> None:
    await home("gone").restart(signals={"old": STUCK, "older": STUCK})
    clock.advance(90_000)
    other = home("other").write(signals={"b": STUCK})
    async with other.up() as fleet:
        other.write(signals={"c": STUCK})
        (told,) = (await fleet.reload()).warnings
    assert "within a day: old, older; end what nobody wants any more" in told


async def test_one_name_for_two_things_is_told_and_the_last_reader_wins(home: Homes) -> None:
    first, other = home("first").write(signals={"a": STUCK}), home("other").write()
    async with first.up(), other.up() as fleet:
        other.write(signals={"a": FAILED})
        (told,) = (await fleet.reload()).warnings
        assert "rota.yaml:1:14: signals.a: another server has it otherwise" in told
        (active,) = await Signals(other.store).find(SignalStatus.ACTIVE)
        assert active.condition.to == ("failed",)


# moments that have passed


def at(moment: str) -> dict[str, Any]:
    return {"when": {"kind": "time", "at": moment}, "then": {"kind": "submit", "title": "Look"}}


@on_both_databases
async def test_a_moment_that_has_passed_stops_no_server_and_fires_once(
    home: Homes, clock: ManualClock
) -> None:
    soon = clock.text(60)
    one = home("one").write(signals={"remind": at(soon)})
    processor = SignalScheduler(one.store, owner="one")
    async with one.up():
        assert await processor.tick() == 0
    clock.advance(3600)
    async with one.up() as fleet:
        assert await processor.tick() == 1
        one.write(signals={"remind": at(soon), "b": STUCK})
        assert (await fleet.reload()).warnings == []
    async with one.up():
        assert await processor.tick() == 0
    assert [one.name for one in await Signals(one.store).find()] == ["remind", "b"]


@on_both_databases
async def test_a_moment_that_nobody_knew_of_is_told_and_not_made(
    home: Homes, clock: ManualClock
) -> None:
    one = home("one").write(signals={"remind": at(clock.text(60))})
    missed = "signals.remind: when.at: this moment had passed before any server knew of it"
    async with one.up() as fleet:
        one.write(signals={"remind": at(clock.text(-60))})
        (told,) = (await fleet.reload()).warnings
        assert missed in told
        assert await one.active() == []
        one.write(signals={"remind": at(clock.text(60))})  # as it was: nobody had cancelled it
        assert (await fleet.reload()).warnings == []
        assert await one.active() == ["remind"]
