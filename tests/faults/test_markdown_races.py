"""Many processes on one folder of Markdown files, killed and frozen at every step.

Run as a program it is one of those processes; see `main`.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import structlog

from rota.model.clock import Clock, SystemClock
from rota.model.errors import ClaimLost
from rota.sources.markdown import MarkdownWorkSource, claimlog, frontmatter
from rota.sources.markdown.folder import Folder
from rota.sources.port import ClaimFailureReason, WorkResult
from rota.testing.clock import ManualClock
from tests.faults.processes import Process, eventually
from tests.faults.worker import heard, say

ITEM = "markdown-gate"
BODY = "# Mend the gate\n\nIt *squeaks*.\n"
GATE = f"---\n# of the gardener\ntitle: 'Mend the gate'\nestimate: 3\n---\n{BODY}"
LEASE = 900.0
MENDED = WorkResult("success", "mended")
GIVEN_UP = WorkResult("failure", "no hinge")
HALF_MENDED = WorkResult("partial", "one hinge of two")
RESULTS = {"success": MENDED, "failure": GIVEN_UP, "partial": HALF_MENDED}

Step = Callable[[Path], Awaitable[object]]
Start = Callable[..., Process]


def source(path: Path, agent: str, clock: Clock, lease: float = LEASE) -> MarkdownWorkSource:
    return MarkdownWorkSource(Folder(path, clock), agent, clock=clock, lease_seconds=lease)


# what is killed in the middle: a preparation, and the step that does not survive


def at(seconds: float) -> ManualClock:
    clock = ManualClock()
    clock.advance(seconds)
    return clock


async def nothing(_: Path) -> None:
    pass


async def claim(path: Path, agent: str = "ada", seconds: float = 0) -> MarkdownWorkSource:
    made = source(path, agent, at(seconds))
    assert (await made.claim_work(ITEM)).success
    return made


async def claim_and_release(path: Path) -> None:
    await (await claim(path)).release_work(ITEM)


def ending(result: WorkResult) -> tuple[Step, Step]:
    kept: list[MarkdownWorkSource] = []

    async def prepare(path: Path) -> None:
        kept[:] = [await claim(path)]

    return prepare, lambda _: kept[0].complete_work(ITEM, result)


def releasing() -> tuple[Step, Step]:
    kept: list[MarkdownWorkSource] = []

    async def prepare(path: Path) -> None:
        kept[:] = [await claim(path)]

    return prepare, lambda _: kept[0].release_work(ITEM)


def mending(result: WorkResult) -> tuple[Step, Step]:
    """The result is decided, nothing is written yet; another agent comes by."""

    async def prepare(path: Path) -> None:
        made = await claim(path)
        made._custody._tidying.mend = lambda _: None  # type: ignore[method-assign]
        await made.complete_work(ITEM, result)

    return prepare, lambda path: source(path, "eve", ManualClock()).claim_work("markdown-other")


AVAILABLE, CLAIMED, ENDED = "available", "claimed", "ended"
STORIES: dict[str, tuple[tuple[Step, Step], set[str]]] = {
    "claim": ((nothing, claim), {AVAILABLE, CLAIMED}),
    "claim again": ((claim_and_release, claim), {AVAILABLE, CLAIMED}),
    "take over": ((claim, lambda path: claim(path, "eve", LEASE)), {AVAILABLE, CLAIMED}),
    "release": (releasing(), {AVAILABLE, CLAIMED}),
    "complete": (ending(MENDED), {CLAIMED, ENDED}),
    "fail": (ending(GIVEN_UP), {CLAIMED, ENDED}),
    "stop half way": (ending(HALF_MENDED), {CLAIMED, ENDED}),
    "tell of success": (mending(MENDED), {ENDED}),
    "tell of failure": (mending(GIVEN_UP), {ENDED}),
}
CHANGES = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime", "os.chmod"})


def walk(base: Path, careless: bool) -> None:
    """Every story, killed before its first change of a file, its second, … until it survives."""
    frontmatter.parse("")  # imports the parser, which every child would have to do
    if careless:
        be_careless(lambda: None)
    for name, (steps, _) in STORIES.items():
        number = 1
        while killed_at(folder_of(base, name, number), steps, number):
            number += 1
        say([name, number])
        if careless:
            return  # one story is enough to find it out


def folder_of(base: Path, name: str, number: int) -> Path:
    return base / name.replace(" ", "-") / str(number)


def killed_at(path: Path, steps: tuple[Step, Step], number: int) -> bool:
    path.mkdir(parents=True)
    (path / "gate.md").write_text(GATE)
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            asyncio.run(killed(path, steps, number))
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, f"{path} failed before it was killed"
    return False


async def killed(path: Path, steps: tuple[Step, Step], number: int) -> None:
    prepare, step = steps
    await prepare(path)
    left = number

    def count(event: str, given: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(given[2], int) and given[2] & os.O_CREAT
        if event in CHANGES or writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    await step(path)


def be_careless(between: Callable[[], None]) -> None:
    """The bug that the tests must find: an entry is looked for, and then made in its place.
    `between` is what happens after the look."""

    def appear(log: Any, name: str, record: Any, now: Any) -> bool:
        target = log._path / name
        if target.exists():
            return False
        between()
        target.mkdir(exist_ok=True)
        draft = target / f"{os.getpid()}.draft"
        claimlog._write(draft, json.dumps(claimlog.asdict(record)).encode(), now)
        draft.replace(target / "record.json")
        return True

    claimlog.ClaimLog._appear = appear  # type: ignore[method-assign]


# what must hold afterwards


async def standing(path: Path, clock: ManualClock) -> str:
    bob = source(path, "bob", clock)
    refused = await bob.claim_work(ITEM)
    await bob.aclose()
    if refused.success:
        return AVAILABLE
    return CLAIMED if refused.reason is ClaimFailureReason.ALREADY_CLAIMED else ENDED


def the_file(path: Path) -> Path:
    (found,) = [*path.glob("gate*.md"), *path.glob("done/gate*.md")]
    text = found.read_text()
    assert text.endswith(f"---\n{BODY}")
    assert text.startswith("---\n# of the gardener\ntitle: 'Mend the gate'\nestimate: 3\n")
    return found


async def check(path: Path, allowed: set[str], seconds: float = 0) -> str:
    """One file, in one state, and a way on from there. Called after a crash."""
    the_file(path)
    shutil.copytree(path, path.with_name(f"{path.name}-again"))
    clock = at(seconds)
    found = await standing(path, clock)
    assert found in allowed
    if found == CLAIMED:
        clock.advance(LEASE)
        assert await standing(path, clock) == AVAILABLE
    if found != ENDED:
        await check_progress(path.with_name(f"{path.name}-again"), at(10 * LEASE))
    else:
        await check_end(path)
    return found


async def check_progress(path: Path, clock: ManualClock) -> None:
    eve = source(path, "eve", clock)
    assert (await eve.claim_work(ITEM)).success
    await eve.complete_work(ITEM, MENDED)
    await eve.aclose()
    done = the_file(path)
    assert done == path / "done/gate.md"
    assert frontmatter.parse(frontmatter.split(done.read_text()).matter)["result"]["agent"] == "eve"


async def check_end(path: Path) -> None:
    """What was accepted stands in the file, once, and may be told again."""
    file = the_file(path)
    keys = frontmatter.parse(frontmatter.split(file.read_text()).matter)
    result = RESULTS[keys["result"]["outcome"]]
    assert keys["result"]["agent"] == "ada"
    assert file == path / ("done/gate.md" if result is MENDED else "gate.md")
    ada = source(path, "ada", ManualClock())
    await ada.complete_work(ITEM, result)
    with pytest.raises(ClaimLost):
        await ada.complete_work(ITEM, WorkResult(result.outcome, "another"))
    assert await ada.problems() == ()
    assert the_file(path) == file


async def verdicts(base: Path, walker: Process) -> dict[str, list[str | AssertionError]]:
    """Of every story, how each of its crashes was survived."""
    found: dict[str, list[str | AssertionError]] = {}
    for name, survived in walker.hear_all():
        seconds = LEASE if name == "take over" else 0
        for number in range(1, survived + 1):
            path = folder_of(base, name, number)
            try:
                verdict: str | AssertionError = await check(path, STORIES[name][1], seconds)
            except AssertionError as error:
                verdict = error
            found.setdefault(name, []).append(verdict)
    assert walker.join() == 0
    return found


@pytest.mark.early
async def test_a_process_killed_at_any_step_leaves_an_item_that_goes_on(
    tmp_path: Path, start: Start, figure: Callable[[str], None]
) -> None:
    found = await verdicts(tmp_path, start("-m", __spec__.name, "walk", str(tmp_path)))
    assert {name: set(states) for name, states in found.items()} == {
        name: allowed for name, (_, allowed) in STORIES.items()
    }
    crashes = sum(len(states) - 1 for states in found.values())  # the last one survives
    figure(f"{crashes} crashes in {len(STORIES)} stories: 0 items lost, stuck or doubled")


async def test_a_claim_that_does_not_appear_at_once_is_found_out_by_the_test_above(
    tmp_path: Path, start: Start
) -> None:
    walker = start("-m", __spec__.name, "walk", str(tmp_path), "careless")
    found = await verdicts(tmp_path, walker)
    assert any(isinstance(one, AssertionError) for states in found.values() for one in states)


# races


def work(path: Path, agent: str, careless: bool) -> None:
    """Take whatever can be had; say what was got, and whether another was at it."""
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )  # we talk on stdout
    if careless:
        be_careless(lambda: meet(path / "looked", agent))
    asyncio.run(working(path, agent))


def meet(path: Path, agent: str) -> None:
    """Every worker looks before the first one leaps. They choose among three items, so that two
    of them have looked at the same one."""
    path.mkdir(exist_ok=True)
    (path / agent).touch()
    eventually(lambda: len(list(path.iterdir())) == WORKERS, "not all of the workers have looked")


async def working(path: Path, agent: str) -> None:
    made = source(path, agent, SystemClock())
    dice = random.Random(agent)
    say("ready")
    heard()
    while items := (await made.fetch_available_work()).items:
        item = items[min(dice.randrange(3), len(items) - 1)]
        claim = await made.claim_work(item.id)
        if not claim.success:
            continue
        assert claim.claim is not None
        number, _, _ = claim.claim.partition("/")
        say([f"won claim {number} of", item.external_id])
        busy = path / "busy" / item.external_id
        try:
            busy.mkdir()
        except FileExistsError:
            say(["shared", item.external_id])
        await asyncio.sleep(dice.random() / 500)  # long enough for another to step in
        with suppress(FileNotFoundError):
            busy.rmdir()
        with suppress(ClaimLost):
            await end_or_release(made, item.id, dice)
    await made.aclose()


async def end_or_release(made: MarkdownWorkSource, item_id: str, dice: random.Random) -> None:
    if dice.random() < 0.4:
        await made.release_work(item_id)
    else:
        await made.complete_work(item_id, WorkResult("success", f"by {made.agent}"))
        say(["completed", item_id.removeprefix("markdown-")])


WORKERS, ITEMS = 5, 24


def race(path: Path, start: Start, *options: str) -> Counter[str]:
    """What the workers said, counted; they begin together."""
    (path / "busy").mkdir(parents=True)
    for number in range(ITEMS):
        (path / f"item-{number}.md").write_text(f"# Item {number}\n")
    workers = [
        start("-m", __spec__.name, "work", str(path), f"agent-{number}", *options)
        for number in range(WORKERS)
    ]
    for worker in workers:
        assert worker.hear() == "ready"
    for worker in workers:
        worker.say("go")
    said = [word for worker in workers for word in worker.hear_all()]
    return Counter(f"{kind} {stem}" for kind, stem in said)


def test_of_many_processes_one_at_a_time_has_an_item_and_one_completes_it(
    tmp_path: Path, start: Start, figure: Callable[[str], None]
) -> None:
    said = race(tmp_path / "backlog", start)
    assert won_twice(said) == []
    names = {f"item-{number}" for number in range(ITEMS)}
    assert {one: n for one, n in said.items() if one.startswith("shared")} == {}
    assert {one: n for one, n in said.items() if one.startswith("completed")} == {
        f"completed {name}": 1 for name in names
    }
    done = tmp_path / "backlog/done"
    assert {path.stem for path in done.iterdir()} == names
    for path in done.iterdir():
        result = frontmatter.parse(frontmatter.split(path.read_text()).matter)["result"]
        assert result["summary"] == f"by {result['agent']}"
    won = sum(n for one, n in said.items() if one.startswith("won"))
    assert won > ITEMS
    figure(f"{WORKERS} processes, {ITEMS} items, {won} claims: 0 shared, 0 lost")


def test_a_look_before_a_leap_is_found_out_by_the_test_above(tmp_path: Path, start: Start) -> None:
    said = race(tmp_path / "backlog", start, "careless")
    assert won_twice(said) != []


def won_twice(said: Counter[str]) -> list[str]:
    return [one for one, n in said.items() if one.startswith("won") and n > 1]


def claim_on_call(path: Path, agent: str, lease: float) -> None:
    """`claim` and `complete`, whenever a line says so."""
    asyncio.run(obeying(path, agent, lease))


async def obeying(path: Path, agent: str, lease: float) -> None:
    made = source(path, agent, SystemClock(), lease)
    while order := await asyncio.to_thread(heard):
        if order == "claim":
            say((await made.claim_work(ITEM)).success)
        else:
            try:
                await made.complete_work(ITEM, MENDED)
                say("completed")
            except ClaimLost:
                say("lost")
    await made.aclose()


def test_a_dead_claim_is_taken_over_once(tmp_path: Path, start: Start) -> None:
    workers = [
        start("-m", __spec__.name, "obey", str(tmp_path), f"agent-{number}", "60")
        for number in range(WORKERS)
    ]
    (tmp_path / "gate.md").write_text(GATE)
    for number in range(1, 13):
        for worker in workers:
            worker.say("claim")
        assert [worker.hear() for worker in workers].count(True) == 1
        # Nobody has been heard of for a while.
        record = tmp_path / f".claims/gate/{number}.claim/record.json"
        os.utime(record, (0, record.stat().st_mtime - 100))
    assert len(list((tmp_path / ".claims/gate").glob("*.claim"))) == 12


def test_a_frozen_holder_comes_back_too_late(tmp_path: Path, start: Start) -> None:
    (tmp_path / "gate.md").write_text(GATE)
    ada, bob = [
        start("-m", __spec__.name, "obey", str(tmp_path), name, "1") for name in ("ada", "bob")
    ]
    ada.say("claim")
    assert ada.hear() is True
    ada.signal(signal.SIGSTOP)

    def taken_over() -> bool:
        bob.say("claim")
        return bool(bob.hear())

    eventually(taken_over, "the frozen claim has not lapsed")
    ada.signal(signal.SIGCONT)
    ada.say("complete")
    assert ada.hear() == "lost"
    bob.say("complete")
    assert bob.hear() == "completed"
    assert "agent: bob" in (tmp_path / "done/gate.md").read_text()


def main(command: str, path: str, *options: str) -> None:
    match command:
        case "walk":
            walk(Path(path), "careless" in options)
        case "work":
            work(Path(path), options[0], "careless" in options)
        case "obey":
            claim_on_call(Path(path), options[0], float(options[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
