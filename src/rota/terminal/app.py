"""The board on the screen."""

import asyncio
import os
from datetime import datetime
from typing import Any, ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType

from rota.model.errors import Forbidden, RotaError, Unauthenticated
from rota.model.status import Status
from rota.terminal import acting
from rota.terminal.board import Board, BoardClient
from rota.terminal.board_screen import BoardScreen
from rota.terminal.column_view import ColumnView
from rota.terminal.deeds import DEEDS, Blank, by_key, possible, refusal
from rota.terminal.dialogs import Ask, Help, Menu
from rota.terminal.filters import Filters
from rota.terminal.following import Following
from rota.terminal.item_screen import ItemScreen
from rota.terminal.transport import Told

Json = dict[str, Any]

_TICK_SECONDS = 10.0
_AGAIN_SECONDS = 2.0
_NEAR_THE_END = 10
_KEYS = sorted({deed.key for deed in DEEDS.values()})


class BoardApp(App[None]):
    CSS_PATH = "app.tcss"
    TITLE = "Rota"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "go(-1)"),
        Binding("right,l", "go(1)"),
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "move(-5)"),
        Binding("pagedown", "move(5)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
        Binding("enter", "open"),
        Binding("x,space", "pick"),
        Binding("escape", "drop"),
        Binding("m", "menu"),
        Binding("a", "add"),
        Binding("slash", "filter"),
        Binding("question_mark", "help"),
        Binding("ctrl+r", "again"),
        Binding("ctrl+t", "light"),
        Binding("q", "quit"),
        *(Binding(key, f"deed('{key}')") for key in _KEYS),
    ]

    def __init__(
        self, client: BoardClient, told: Told, filters: Filters, where: str, *, light: bool = False
    ) -> None:
        self.client = client
        self.board = Board(client, filters)
        self.front = BoardScreen(self.board, where)
        self.failure: RotaError | None = None
        self.picked: set[str] = set()
        self._light = light
        self._opening: set[Status] = set()  # columns whose next page is being read
        self._complained = False
        self._following = Following(
            self.board, shown=self._read, happened=self._happened, failed=self._failed
        )
        told.tell = self._told
        # NO_COLOR means no colour at all; Textual alone would use shades of grey.
        super().__init__(ansi_color=True if os.getenv("NO_COLOR") else None)

    def get_default_screen(self) -> BoardScreen:
        return self.front

    def on_mount(self) -> None:
        self.theme = "textual-light" if self._light else "textual-dark"
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.show()
        self._listen()
        self.run_worker(self._following.keep())
        self.set_interval(_TICK_SECONDS, self._tick)

    @work
    async def _listen(self) -> None:
        while self.failure is None:
            try:
                await self._following.listen()
            except (Unauthenticated, Forbidden) as error:  # the token was revoked
                self.failure = error
                self.exit()
            except RotaError as error:  # a problem on the way, perhaps only for a while
                self._told(False)
                self._failed(error)
                await asyncio.sleep(_AGAIN_SECONDS)

    def show(self) -> None:
        self.front.show(self.picked)

    def say(self, text: str, bad: bool = False) -> None:
        self.front.say(text, bad)
        if isinstance(self.screen, ItemScreen):
            self.screen.say(text, bad)

    # what happens in the ledger

    def _told(self, live: bool) -> None:
        """Once the stream is open, read what was missed: the stream begins before the read."""
        self.front.live = live
        if live:
            self._following.touch()
        if self.front.is_mounted:
            self.front.show_bar()

    def _happened(self, event: Json) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, ItemScreen):
                screen.touched(event["work_item_id"])

    def _failed(self, error: RotaError) -> None:
        self._complained = True
        self.say(f"The board could not be read: {error.message}", bad=True)

    def _read(self) -> None:
        if self._complained:
            self._complained = False
            self.say("")
        self.front.read_at = datetime.now().astimezone()
        self.show()

    def _tick(self) -> None:
        """Ages grow, and a new day begins with nothing done."""
        read_at = self.front.read_at
        if read_at is not None and read_at.date() != datetime.now().astimezone().date():
            self._following.touch(Status.COMPLETED)
        for view in self.front.views:
            view.refresh()

    # keys

    def action_go(self, way: int) -> None:
        self.front.go(way)

    def action_move(self, way: int) -> None:
        self.say("")
        self.front.move(way)
        view = self.front.view
        if view.place >= len(view.column.items) - _NEAR_THE_END:
            self._more(view)

    def action_open(self) -> None:
        if self.front.current is not None:
            self.push_screen(ItemScreen(self.front.current))

    def action_pick(self) -> None:
        if self.front.current is not None:
            self.picked ^= {self.front.current["id"]}
            self.show()
            self.action_move(1)

    def action_drop(self) -> None:
        self.picked.clear()
        self.say("")
        self.show()

    @work
    async def action_menu(self) -> None:
        items = self._targets()
        if items:
            name = await self.push_screen_wait(Menu(acting.named(items), possible(items[0])))
            if name is not None:
                await acting.carry_out(self, DEEDS[name], items)

    @work
    async def action_deed(self, key: str) -> None:
        items = self._targets()
        if not items:
            return
        deed = by_key(items[0], key)
        if deed is not None:
            await acting.carry_out(self, deed, items)
            return
        wanted = " or ".join(one.words for one in DEEDS.values() if one.key == key)
        self.say(f"{acting.named(items[:1])}: {refusal(items[0], wanted)}", bad=True)

    def _targets(self) -> list[Json]:
        """The open item, or the picked ones, or the current card."""
        if isinstance(self.screen, ItemScreen):
            return [self.screen.item]
        shown = [item for column in self.board.columns.values() for item in column.items]
        picked = [item for item in shown if item["id"] in self.picked]
        current = self.front.current
        return picked or ([current] if current is not None else [])

    @work
    async def action_add(self) -> None:
        await acting.add(self)

    @work
    async def action_filter(self) -> None:
        hint = "project:NAME agent:NAME type:NAME label:NAME, and words to search for"
        blank = Blank("filter", hint, value=str(self.board.filters))
        answers = await self.push_screen_wait(Ask("Filter the board", [blank]))
        if answers is None:
            return
        try:
            wanted = await self.client.with_project(Filters.of(answers.get("filter", "")))
        except RotaError as error:
            self.say(f"Not filtered: {error.message}", bad=True)
            return
        self.board.narrow(wanted)
        self._following.touch()
        self.front.show_bar()

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_help_quit(self) -> None:
        """For ctrl+c; Textual would name a key that is not one of ours."""
        self.say("Press q to quit")

    def action_again(self) -> None:
        self._following.touch()

    def action_light(self) -> None:
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    # mouse

    def on_column_view_chosen(self, chosen: ColumnView.Chosen) -> None:
        """A click makes a card the current one; a second click opens it."""
        again = chosen.view is self.front.view and chosen.place == self.front.view.place
        self.front.go_to(self.front.views.index(chosen.view))
        self.front.move(chosen.place - chosen.view.place)
        if again:
            self.action_open()

    def on_column_view_near_the_end(self, near: ColumnView.NearTheEnd) -> None:
        self._more(near.view)

    def _more(self, view: ColumnView) -> None:
        status = view.column.status
        if view.column.cursor is not None and status not in self._opening:
            self._opening.add(status)
            self.run_worker(self._open(status))

    async def _open(self, status: Status) -> None:
        try:
            await self.board.more(status)
        except RotaError as error:
            self._failed(error)
        finally:
            self._opening.discard(status)
        self.show()
