"""The board in a terminal, against a real server, driven by keys."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input, Label, Static

from rota.app import open_store
from rota.cli.board import _client
from rota.cli.session import Session
from rota.client.pooled import PooledTransport
from rota.daemon import bind
from rota.model.errors import RotaError
from rota.model.status import Status
from rota.terminal.acting import said
from rota.terminal.app import BoardApp
from rota.terminal.board import Board, BoardClient, Page
from rota.terminal.dialogs import Ask, Confirm, Menu
from rota.terminal.filters import Filters
from rota.terminal.item_screen import ItemScreen
from rota.terminal.transport import Told
from rota.testing.served import Served, serve
from tests.faults.processes import free_port

WIDE, NARROW = (160, 45), (80, 24)
SECONDS = 30  # on a busy machine


class Seat:
    """Somebody who sits before the board."""

    def __init__(self, app: BoardApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < deadline, self.screen
            await self.pilot.pause(0.01)

    async def press(self, *keys: str) -> None:
        """As `Pilot.press` does, which also waits until the whole process, with the server in it,
        has nothing to do."""
        for key in keys:
            self.app.simulate_key(key)
            for _ in range(4):  # from the key to the action, to its worker, to a new screen
                await self.pilot.pause(0)

    async def write(self, text: str) -> None:
        await self.until(lambda: self.app.screen.query("Input:focus"))
        self.app.screen.query_one("Input:focus", Input).value = text
        await self.press("enter")

    async def cancel(self, why: str = "") -> None:
        await self.press("X")
        await self.until(lambda: isinstance(self.app.screen, Confirm))
        await self.press("y")
        await self.write(why)

    @property
    def screen(self) -> str:
        """What the terminal shows, as text."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in strips)

    @property
    def current(self) -> dict[str, Any]:
        return self.app.front.current or {"id": None, "description": None}

    def line(self, name: str) -> str:
        return str(self.app.front.query_one(f"#{name}", Static).visual)

    def titles(self, status: Status) -> list[str]:
        return [item["description"] for item in self.app.board.columns[status].items]


@asynccontextmanager
async def sitting(url: str, size: tuple[int, int] = WIDE, filters: str = "") -> AsyncIterator[Seat]:
    told = Told(PooledTransport(url))
    async with BoardClient(actor="ann", transport=told) as client:
        app = BoardApp(client, told, Filters.of(filters), url)
        async with app.run_test(size=size) as pilot:
            seat = Seat(app, pilot)
            try:
                await seat.until(lambda: app.front.live and app.front.read_at)
                yield seat
            finally:  # a terminal's end cancels them too; a pilot's takes the screens away first
                app.workers.cancel_all()


@pytest.fixture
def served(database: str, tmp_path: Path) -> Iterator[Served]:
    with serve(database, logs=tmp_path / "runs") as server:  # by the clock on the wall
        yield server


def add(http: httpx2.Client, title: str, **fields: object) -> str:
    body = {"type": "chore", "description": title, **fields}
    answer = http.post("/work", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def moved(http: httpx2.Client, item: str, *verbs: str) -> str:
    bodies: dict[str, dict[str, object]] = {
        "dispatch": {"assigned_agent": "smith"},
        "block": {"notes": "which of the two?"},
        "hand_over": {"artifact_url": "https://example.org/1"},
    }
    for verb in verbs:
        answer = http.post(f"/work/{item}/{verb}", json=bodies.get(verb, {}))
        assert answer.status_code == 200, answer.text
    return item


async def test_every_column_shows_its_cards_and_follows_what_others_do(
    http: httpx2.Client, served: Served
) -> None:
    ways = {
        "Waiting": (),
        "Named": ("dispatch",),
        "Stuck": ("dispatch", "start", "block"),
        "Looked at": ("dispatch", "start", "hand_over"),
        "Ended": ("dispatch", "start", "complete"),
        "Broken": ("dispatch", "start", "fail"),
        "Begun": ("dispatch", "start"),
    }
    items = {title: moved(http, add(http, title, priority=2), *way) for title, way in ways.items()}
    http.post(f"/work/{items['Waiting']}/hold", json={"reason": "budget"})
    claimed = add(http, "Leased", assigned_agent="bob")
    http.post("/work/claim", json={"agent": "bob", "lease_seconds": 900})
    async with sitting(served.url) as seat:
        board = seat.app.board
        assert {status: len(column.items) for status, column in board.columns.items()} == {
            status: 2 if status is Status.IN_PROGRESS else 1 for status in board.columns
        }
        for title in (*ways, "Leased", "Queued 1", "Done today 1", "P2", "held", "no lease"):
            await seat.until(lambda title=title: title in seat.screen)
        await seat.until(lambda: re.search(r"P3 \d+s bob leased", seat.screen))

        # Another client works meanwhile.
        other = add(http, "Brand new")
        await seat.until(lambda: "Brand new" in seat.screen and "Queued 2" in seat.screen)
        moved(http, other, "cancel")
        http.patch(f"/work/{items['Named']}", json={"description": "Renamed"})
        http.post(f"/work/{claimed}/release", json={"force": True})
        await seat.until(
            lambda: "Renamed" in seat.screen and "Brand new" not in seat.screen
            and seat.titles(Status.QUEUED) == ["Waiting", "Leased"]
        )  # fmt: skip


async def test_moves_by_menu_and_by_key_ask_for_what_they_need(
    http: httpx2.Client, served: Served
) -> None:
    item = add(http, "Mend the gate")
    async with sitting(served.url, NARROW) as seat:

        def stands(status: Status) -> Callable[[], bool]:
            return lambda: seat.titles(status) == ["Mend the gate"]

        await seat.until(lambda: "d dispatch" in seat.line("keys"))
        await seat.press("m")
        await seat.until(lambda: "d  Dispatch" in seat.screen)
        assert "Complete" not in seat.screen
        await seat.press("enter")
        await seat.until(lambda: "To which agent?" in seat.screen)
        await seat.press("enter")  # nothing is not an agent
        await seat.until(lambda: "This field is required" in seat.screen)
        await seat.write("smith")
        await seat.until(stands(Status.DISPATCHED))
        await seat.press("l", "s")
        await seat.until(stands(Status.IN_PROGRESS))

        await seat.press("right", "b", "enter")  # block needs a note
        await seat.until(lambda: "This field is required: What does it wait for?" in seat.screen)
        await seat.write("which of the two?")
        await seat.until(stands(Status.BLOCKED))
        assert http.get(f"/work/{item}").json()["notes"] == "which of the two?"

        await seat.press("l", "u")
        await seat.until(stands(Status.IN_PROGRESS))
        await seat.press("h", "v")
        await seat.write("https://example.org/pull/1")
        await seat.press("enter")
        await seat.until(stands(Status.IN_REVIEW))
        await seat.press("l", "l", "r")
        await seat.press("enter")
        await seat.until(stands(Status.QUEUED))
        events = [event["type"] for event in http.get("/events").json()]
        assert events[-1] == "work.reopened"
        assert http.get("/events").json()[-1]["actor"] == "ann"


async def test_a_refused_move_explains_itself(http: httpx2.Client, served: Served) -> None:
    moved(http, add(http, "One"), "dispatch", "start")
    two = moved(http, add(http, "Two"), "dispatch")
    three = add(http, "Three", assigned_agent="bob")
    http.post("/work/claim", json={"agent": "bob", "lease_seconds": 900})
    async with sitting(served.url, NARROW) as seat:
        await seat.press("l", "c")  # not from here: said without asking
        await seat.until(
            lambda: (
                "it is dispatched; complete is not possible from that status" in seat.line("said")
            )
        )
        await seat.until(lambda: "possible: start, release, cancel" in seat.line("said"))
        await seat.press("s")  # refused by the ledger
        await seat.until(lambda: "Start refused" in seat.line("said"))
        await seat.until(lambda: "agent 'smith' already works on 1 of 1 items" in seat.line("said"))
        assert http.get(f"/work/{two}").json()["status"] == "dispatched"

        await seat.press("l", "j", "r", "enter")  # somebody's claim is not ended by accident
        await seat.until(lambda: "End that claim" in seat.screen)
        await seat.until(lambda: "it is claimed by 'bob'" in seat.screen)
        await seat.press("n")
        await seat.until(lambda: "Release refused" in seat.line("said"))
        assert http.get(f"/work/{three}").json()["status"] == "in_progress"
        await seat.press("r", "enter")
        await seat.until(lambda: "End that claim" in seat.screen)
        await seat.press("y")
        await seat.until(lambda: seat.titles(Status.QUEUED) == ["Three"])


async def test_what_was_written_for_a_refused_move_is_not_lost(
    http: httpx2.Client, served: Served
) -> None:
    one = moved(http, add(http, "One"), "dispatch", "start")
    add(http, "Two")
    async with sitting(served.url, NARROW) as seat:

        def problem() -> str:
            return "".join(
                str(one.visual) for one in seat.app.screen.query("#missing").results(Label)
            )

        await seat.until(lambda: seat.titles(Status.IN_PROGRESS) == ["One"])
        await seat.press("l", "l")
        await seat.until(lambda: "c complete" in seat.line("keys"))
        await seat.press("c")
        await seat.until(lambda: "The result" in seat.screen)
        moved(http, one, "block")
        await seat.write("done, and checked twice")
        await seat.until(lambda: problem().startswith("Complete refused: "))
        await seat.until(lambda: seat.app.screen.query("Input:focus"))
        moved(http, one, "resume")
        await seat.press("enter")
        await seat.until(lambda: "Completed: One" in seat.line("said"))
        assert http.get(f"/work/{one}").json()["notes"] == "done, and checked twice"

        await seat.press("h", "h")
        await seat.until(lambda: "d dispatch" in seat.line("keys"))
        await seat.press("d")
        await seat.write("No Agent")
        await seat.until(lambda: problem().startswith("Dispatch refused: "))
        await seat.press("escape")
        await seat.until(lambda: "'No Agent' is not a name" in seat.line("said"))
        assert seat.titles(Status.QUEUED) == ["Two"]


async def test_what_is_blocked_is_given_back_with_an_answer(
    http: httpx2.Client, served: Served
) -> None:
    item = moved(http, add(http, "One"), "dispatch", "start", "block")
    async with sitting(served.url) as seat:
        await seat.press("l", "l", "l", "r")
        await seat.until(lambda: "Your answer" in seat.screen)
        await seat.write("blue")
        await seat.until(lambda: seat.titles(Status.QUEUED) == ["One"])
    assert http.get(f"/work/{item}").json()["notes"] == "blue"


async def test_ctrl_c_is_answered_with_the_key_that_quits(served: Served) -> None:
    async with sitting(served.url, NARROW) as seat:
        await seat.press("ctrl+c")
        await seat.until(lambda: seat.line("said") == "Press q to quit")
        assert not seat.app._notifications
        await seat.press("q")
        await seat.until(lambda: not seat.app.is_running or seat.app._exit)


async def test_no_slip_of_a_key_ends_an_item_for_good(http: httpx2.Client, served: Served) -> None:
    item = add(http, "One")
    async with sitting(served.url, NARROW) as seat:
        await seat.until(lambda: seat.current["id"] == item)
        await seat.press("x", "enter")  # in the browser: select it, and open it
        await seat.until(lambda: isinstance(seat.app.screen, ItemScreen))
        await seat.until(lambda: "X cancel" in seat.screen)
        await seat.press("x", "f", "escape")
        await seat.until(lambda: seat.app.screen is seat.app.front)
        for refusal in ("n", "escape"):
            await seat.press("X")
            await seat.until(lambda: isinstance(seat.app.screen, Confirm))
            await seat.until(lambda: "Cancel “One”? No agent will do the work" in seat.screen)
            await seat.press("enter", refusal)
            await seat.until(lambda: seat.app.screen is seat.app.front)
        assert http.get(f"/work/{item}").json()["status"] == "queued"
        await seat.cancel("nobody needs it")
        await seat.until(lambda: not seat.titles(Status.QUEUED))
    assert http.get(f"/work/{item}").json()["status"] == "cancelled"


def test_an_id_stays_where_a_command_needs_it() -> None:
    error = RotaError("x-1 is blocked; rota release x-1 --notes TEXT gives x-1 back")
    assert said(error, {"id": "x-1"}) == (
        "it is blocked; rota release x-1 --notes TEXT gives it back"
    )


async def test_several_cards_are_moved_together(http: httpx2.Client, served: Served) -> None:
    for title in ("One", "Two", "Three"):
        add(http, title)
    held = add(http, "Four")
    async with sitting(served.url, NARROW) as seat:
        await seat.press("x", "space")  # the key of the browser's board, too
        await seat.until(lambda: "2 picked" in seat.line("bar"))
        await seat.cancel()
        await seat.until(lambda: seat.titles(Status.QUEUED) == ["Three", "Four"])
        await seat.until(lambda: "Cancelled: 2 items" in seat.line("said"))
        await seat.press("G", "o")
        await seat.write("wait for the budget")
        await seat.until(lambda: "held" in seat.screen)
        assert http.get(f"/work/{held}").json()["hold_reason"] == "wait for the budget"
        await seat.press("o")
        await seat.until(lambda: "held" not in seat.screen)

        await seat.pilot.click("#queued", offset=(5, 1))  # the mouse, too
        await seat.until(lambda: seat.current["description"] == "Three")
        await seat.pilot.click("#queued", offset=(5, 1))
        await seat.until(lambda: isinstance(seat.app.screen, ItemScreen))


async def test_an_item_opens_with_all_that_is_known_and_follows_it(
    http: httpx2.Client, served: Served
) -> None:
    blocker = add(http, "Before")
    mill = http.post("/projects", json={"name": "The mill"}).json()["id"]
    item = add(
        http, "Mend the gate", body="First line\nsecond line", payload={"gate": 3},
        assigned_agent="bob", priority=1, project_id=mill,
    )  # fmt: skip
    add(http, "After", blocked_by=[item])
    (claim,) = http.post("/work/claim", json={"agent": "bob", "lease_seconds": 900}).json()
    run = {"agent": "bob", "work_item_id": item, "token": claim["claim"]["token"]}
    begun = http.post("/runs", json=run)
    assert begun.status_code == 201
    log = served.ledger.runs.log(begun.json()["id"])
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text('{"text": "the \\u001b[31mhinge\\u0007 squeaks"}\n')
    async with sitting(served.url, (160, 60)) as seat:
        await seat.press("l", "l", "enter")
        known = ("Current state", "second line",
                 '"gate": 3', "lapses in 14:", "running", "Blocks",
                 "'bob' works on it", "After", "Dispatches", "c complete",
                 "project    The mill")  # fmt: skip
        await seat.until(lambda: all(text in seat.screen for text in known))
        http.post(f"/work/{item}/note", json={"notes": "the hinge is next"})
        await seat.until(lambda: "the hinge is next" in seat.screen)
        await seat.press("n")
        await seat.write("so be it")
        await seat.until(lambda: "noted by ann: so be it" in seat.screen)
        await seat.press("L")
        await seat.until(lambda: "the [31mhinge squeaks" in seat.screen)
        with log.open("a") as file:
            file.write('{"text": "it is oiled"}\n')
        await seat.until(lambda: "it is oiled" in seat.screen)
        assert seat.app.front.live
        await seat.press("escape", "escape", "h", "h", "h")
        await seat.until(lambda: seat.app.screen is seat.app.front)
        await seat.until(lambda: seat.current["id"] == blocker)


async def test_filters_narrow_the_board_from_outside_and_inside(
    http: httpx2.Client, served: Served
) -> None:
    add(http, "Red gate", type="bug_fix", labels=["urgent"])
    add(http, "Blue gate", assigned_agent="smith")
    mill = http.post("/projects", json={"name": "The mill"}).json()["id"]
    add(http, "Green door", type="bug_fix", project_id=mill)
    async with sitting(served.url, NARROW, "type:bug_fix") as seat:
        assert seat.titles(Status.QUEUED) == ["Red gate", "Green door"]
        await seat.until(lambda: "filter: type:bug_fix" in seat.line("bar"))
        for written, shown in (
            ("gate", ["Red gate", "Blue gate"]),
            ("label:urgent", ["Red gate"]),
            ("agent:smith gate", ["Blue gate"]),
            ("it's not there", []),
            ("project:'The mill' door", ["Green door"]),
            (f"project:{mill}", ["Green door"]),
            ("", ["Red gate", "Blue gate", "Green door"]),
        ):
            await seat.press("slash")
            await seat.write(written)
            await seat.until(lambda shown=shown: seat.titles(Status.QUEUED) == shown)
        await seat.press("slash")
        await seat.write("project:nowhere")
        await seat.until(lambda: "there is no project 'nowhere'" in seat.line("said"))
        assert len(seat.titles(Status.QUEUED)) == 3
        add(http, "Red door")
        await seat.until(lambda: "Red door" in seat.screen)


async def test_what_a_filter_leaves_out_is_not_said_to_be_missing(
    http: httpx2.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.terminal.app._TICK_SECONDS", 3600)  # which draws it all anew
    moved(http, add(http, "Broken"), "dispatch", "start", "fail")

    def says(words: str) -> bool:
        return words in " ".join(seat.screen.split())

    async with sitting(served.url, NARROW) as seat:
        await seat.until(lambda: says("No item is waiting"))
        await seat.press("slash")
        await seat.write("gate")
        await seat.until(lambda: says("No item here matches the"))
        assert not says("No item is waiting")
        await seat.press("slash")
        await seat.write("")
        await seat.until(lambda: says("No item is waiting"))


async def test_by_keys_alone_a_narrow_terminal_shows_it_all(
    http: httpx2.Client, served: Served
) -> None:
    moved(http, add(http, "Broken"), "dispatch", "start", "fail")
    async with sitting(served.url, NARROW) as seat:
        await seat.until(lambda: "No item is waiting" in seat.screen.replace("\n", " "))
        await seat.until(lambda: "Failed 1 ▸" in seat.line("beside"))
        await seat.press("a")
        await seat.write("Say hello")
        await seat.write("greeting")
        await seat.write("9")  # no priority
        await seat.press("enter", "enter", "enter")
        # It is asked again, at the field that was wrong, with all that was written.
        await seat.until(lambda: "Not added: priority: " in seat.screen)
        for text in ("1", "No Agent", f"kind, {'x' * 300}", "in all languages"):
            await seat.write(text)
        await seat.until(lambda: "Not added: agent: 'No Agent' is not a name" in seat.screen)
        await seat.write("")
        await seat.press("enter", "enter")
        await seat.until(lambda: "Not added: labels (number 2): it has 300 " in seat.screen)
        await seat.write("kind, polite")
        await seat.press("enter")
        await seat.until(lambda: "Added: Say hello" in seat.line("said"))
        await seat.until(lambda: seat.titles(Status.QUEUED) == ["Say hello"])
        (item,) = http.get("/work?status=queued").json()
        assert (item["type"], item["priority"]) == ("greeting", 1)
        assert (item["labels"], item["assigned_agent"]) == (["kind", "polite"], None)

        await seat.press(*"lllllll")
        await seat.until(lambda: "◂ Queued 1" in seat.line("beside"))
        await seat.until(lambda: "Broken" in seat.screen)
        assert "greeting" not in seat.screen
        await seat.press("r")
        await seat.until(lambda: seat.titles(Status.QUEUED) == ["Say hello", "Broken"])
        await seat.press("question_mark")
        await seat.until(lambda: "back to the queue" in seat.screen)
        await seat.press("escape", "ctrl+t", "q")
        await seat.until(lambda: not seat.app.is_running or seat.app._exit)


async def test_a_key_that_is_pressed_twice_answers_a_dialog_once(
    http: httpx2.Client, served: Served
) -> None:
    item = add(http, "Mend the gate")
    async with sitting(served.url) as seat:
        await seat.until(lambda: seat.current["id"] == item)
        await seat.press("n")
        await seat.until(lambda: seat.app.screen.query("Input:focus"))
        seat.app.screen.query_one("Input:focus", Input).value = "Bring oil"
        for _ in range(3):
            seat.app.simulate_key("enter")
        await seat.until(lambda: "Note added: Mend the gate" in seat.line("said"))
        await seat.press("m")
        await seat.until(lambda: isinstance(seat.app.screen, Menu))
        for _ in range(3):
            seat.app.simulate_key("enter")  # the first deed of the menu asks for an agent
        await seat.until(lambda: isinstance(seat.app.screen, Ask))
        await seat.press("escape")
        await seat.until(lambda: seat.app.screen is seat.app.front)
    assert http.get(f"/work/{item}").json()["notes"] == "Bring oil"


async def test_an_answer_about_an_item_may_come_before_its_screen_is_there_and_after(
    http: httpx2.Client, served: Served
) -> None:
    item = add(http, "Mend the gate")
    async with sitting(served.url) as seat:
        await seat.until(lambda: seat.current["id"] == item)
        seat.app.action_open()
        opened = seat.app.screen
        assert isinstance(opened, ItemScreen)
        seat.app.say("too early for the screen", bad=True)
        await opened._read()
        await seat.until(lambda: "submitted by" in seat.screen)
        await seat.press("escape")
        await seat.until(lambda: not opened.is_attached)
        await opened._read()
        assert seat.app.screen is seat.app.front


async def test_thousands_of_cards_come_by_pages(http: httpx2.Client, served: Served) -> None:
    for hundred in range(5):
        batch = [
            {"type": "chore", "description": f"Card {hundred * 1000 + n}"} for n in range(1000)
        ]
        assert http.post("/work/batch", json=batch).status_code == 201
    async with sitting(served.url) as seat:
        column = seat.app.board.columns[Status.QUEUED]
        assert len(column.items) == 100
        await seat.until(lambda: "Queued 5,000" in seat.screen)
        for page in (200, 300):
            await seat.press("G")
            await seat.until(lambda page=page: len(column.items) == page)
        began = time.thread_time()  # the server has another thread, others have their turns
        await seat.press(*"jjjjjkkkkk")
        assert time.thread_time() - began < 2  # drawn by the lines that are seen
        await seat.until(lambda: "Card 199" in seat.screen)
        current = seat.app.front.current
        add(http, "Urgent", priority=1)
        await seat.until(lambda: "Queued 5,001" in seat.screen)
        assert seat.titles(Status.QUEUED)[0] == "Urgent"
        assert seat.app.front.current == current  # what others do does not move the cursor
        assert len(column.items) == 300

        ended = [
            moved(http, item["id"], "dispatch", "start", "complete") for item in column.items[:3]
        ]
        await seat.until(lambda: len(seat.titles(Status.COMPLETED)) == 3)
        shown = [item["id"] for item in seat.app.board.columns[Status.COMPLETED].items]
        assert shown == ended[::-1]  # what ended last comes first
        narrow = Board(seat.app.client, Filters(), ended=2)  # more ended today than are read
        await narrow.load([Status.COMPLETED])
        assert narrow.columns[Status.COMPLETED].count == "2+"


async def test_at_least_as_many_have_ended_today_as_were_read_of_the_whole_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The day is old enough to be looked at in parts, also when it has just begun here.
    begun = datetime.now(UTC) - timedelta(hours=23)
    monkeypatch.setattr("rota.terminal.board.midnight", lambda: begun)

    class Day(BoardClient):
        async def page(self, query: dict[str, Any]) -> Page:
            asked.append(query["since"])
            is_long = len(asked) < 3  # what is looked back
            return Page([item] * query["limit"], "more") if is_long else Page([item], None)

    item = {"id": "1", "completed_at": "2026-11-19T12:00:00.000000Z"}
    asked: list[str] = []
    async with Day("http://127.0.0.1:9") as client:
        board = Board(client, Filters(), page=20, ended=200)
        await board.load([Status.COMPLETED])
    column = board.columns[Status.COMPLETED]
    assert (len(column.items), column.count) == (1, "200+")


async def test_columns_change_all_at_once(http: httpx2.Client, served: Served) -> None:
    """Else a key that is pressed meanwhile would be for a card that nobody has seen."""
    seen = []

    class Peeking(BoardClient):
        async def counts(self) -> dict[str, int]:
            seen.append(len(board.columns[Status.QUEUED].items))
            return await super().counts()

    async with Peeking(served.url) as client:
        board = Board(client, Filters(), page=1)
        add(http, "One")
        add(http, "Two")
        await board.load()
        await board.load([Status.FAILED])
        column = board.columns[Status.QUEUED]
        assert (seen, len(column.items), column.count) == ([0, 1], 1, "2")
        board.columns[Status.QUEUED].items.clear()
        await asyncio.gather(board.load(), board.more(Status.QUEUED))
        assert [item["description"] for item in column.items] == ["One", "Two"]


HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J",
    "\x9b31mred",
    "\u202edrow\u2066",
    "[bold]no[/bold] [@click=app.quit]markup[/]",
    "[link=https://example.org]x[/link",
    "a\u2028b\u2029c\td",
    "👩‍👩‍👧‍👦" * 30 + "漢字" * 30,
    "x" * 400,
    "\u0301" * 50,
    "{{ 7*7 }} $primary %s",
]


async def test_what_strangers_write_is_text(http: httpx2.Client, served: Served) -> None:
    for text in (" ".join(HOSTILE[:4]), " ".join(HOSTILE[4:7]), " ".join(HOSTILE[7:])):
        item = add(http, text, type="t", body=text, labels=[text[:20]])
        http.post(f"/work/{item}/hold", json={"reason": text})
        http.post(f"/work/{item}/note", json={"notes": text})
    async with sitting(served.url, (60, 30)) as seat:
        for place in range(3):
            await seat.press(*"j" * place, "c", "m")
            seen = [seat.screen]
            await seat.press("escape", "enter")
            await seat.until(lambda: "Current state" in seat.screen)
            seen.append(seat.screen)
            await seat.press("escape", "g")
            lines = "\n".join(seen).split("\n")
            assert not set("\x1b\x07\x9b\u202e\u2066\u2028\u2029\t") & set("".join(lines))
            assert [line for line in lines if cell_len(line) > 60] == []
            shown = ("[@click=app.quit]markup[/]", "漢字漢字", "{{ 7*7 }} $primary")
            assert shown[place] in seen[1]


async def test_a_lost_connection_is_said_and_made_good(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()  # nobody else takes it while no server is there
    monkeypatch.setattr("rota.testing.served.bind", lambda host, _: bind(host, port))
    with ExitStack() as first, ExitStack() as second:
        served = first.enter_context(serve(database))
        async with sitting(served.url) as seat:
            await asyncio.to_thread(first.close)
            await seat.until(lambda: "CONNECTION LOST" in seat.screen)
            again = second.enter_context(serve(database))
            with httpx2.Client(base_url=again.url) as http:
                add(http, "Missed")  # perhaps before the board is back
                await seat.until(lambda: "Missed" in seat.screen and "  live" in seat.screen)
                add(http, "Heard")
                await seat.until(lambda: "Heard" in seat.screen)
                await seat.until(lambda: "CONNECTION LOST" not in seat.screen)


async def test_without_a_server_the_board_follows_the_database_itself(tmp_path: Path) -> None:
    session = Session(database=f"sqlite:///{tmp_path}/rota.db", actor="ann")
    async with open_store(session.settings.database):
        pass  # it is there
    client, told = _client(session)
    async with client, BoardClient(transport=_client(session)[1]) as other:
        app = BoardApp(client, told, Filters(), "database")
        async with app.run_test(size=NARROW) as pilot:
            seat = Seat(app, pilot)
            await seat.until(lambda: app.front.live and app.front.read_at)
            await other.work_add("chore", "Mend the gate")
            await seat.until(lambda: "Mend the gate" in seat.screen)
            await seat.cancel()
            await seat.until(lambda: not seat.titles(Status.QUEUED))


async def test_a_revoked_token_ends_it_with_words(database: str) -> None:
    with serve(database) as served:
        secret = served.run(lambda: served.ledger.tokens.create("t", ("read",)))[1]
        told = Told(PooledTransport(served.url))
        async with BoardClient(token=f"{secret}x", transport=told) as client:
            app = BoardApp(client, told, Filters(), served.url)
            async with app.run_test() as pilot:
                await Seat(app, pilot).until(lambda: app.failure is not None)
            assert app.failure is not None
            assert app.failure.code == "unauthenticated"
