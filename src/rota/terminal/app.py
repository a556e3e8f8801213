"""The board on the screen."""

import os
from datetime import datetime
from typing import Any, ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from rota.cli.text import one_line
from rota.model.errors import RotaError
from rota.model.status import Status
from rota.terminal import acting
from rota.terminal.board import TITLES, Board, BoardClient
from rota.terminal.column_view import ColumnView
from rota.terminal.deeds import DEEDS, Blank, by_key, possible, refusal
from rota.terminal.dialogs import Ask, Help, Menu
from rota.terminal.filters import Filters
from rota.terminal.following import Following
from rota.terminal.item_screen import ItemScreen
from rota.terminal.transport import Told

Json = dict[str, Any]

_NARROWEST = 22  # a column
_TICK_SECONDS = 10.0
_KEYS = sorted({deed.key for deed in DEEDS.values()})
_ALWAYS = "m menu  / filter  ? help  q quit"


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
        Binding("space", "pick"),
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
        # Without colour means without: Textual's own answer is shades of grey.
        super().__init__(ansi_color=True if os.getenv("NO_COLOR") else None)
        self.client = client
        self.board = Board(client, filters)
        self.failure: RotaError | None = None
        self.picked: set[str] = set()
        self._where = where
        self._there: bool | None = None  # whether the event stream is
        self._read_at: datetime | None = None
        self._at = 0
        self._light = light
        self._following = Following(
            self.board, shown=self._read, happened=self._happened, failed=self._failed
        )
        told.tell = self._told

    def compose(self) -> ComposeResult:
        yield Static("", id="bar", markup=False)
        yield Static("", id="beside", markup=False)
        with Horizontal(id="board"):
            for column in self.board.columns.values():
                yield ColumnView(column)
        yield Static("", id="said", markup=False)
        yield Static("", id="keys", markup=False)

    def on_mount(self) -> None:
        self.theme = "textual-light" if self._light else "textual-dark"
        self.show()
        self._listen()
        self.run_worker(self._following.keep(), exit_on_error=True)
        self.set_interval(_TICK_SECONDS, self._tick)

    @work
    async def _listen(self) -> None:
        try:
            await self._following.listen()
        except RotaError as error:  # refused for good: a token that was revoked
            self.failure = error
            self.exit()

    # what is heard

    def _told(self, there: bool) -> None:
        """Whatever was missed meanwhile is read now: the stream begins before the reading."""
        self._there = there
        if there:
            self._following.touch()
        if self.is_running:
            self._show_bar()

    def _happened(self, event: Json) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, ItemScreen):
                screen.touched(event["work_item_id"])

    def _failed(self, error: RotaError) -> None:
        self.say(f"The board could not be read: {error.message}", bad=True)

    def _read(self) -> None:
        self._read_at = datetime.now().astimezone()
        self.show()

    def _tick(self) -> None:
        """Ages grow, and a new day has nothing done yet."""
        today = datetime.now().astimezone().date()
        if self._read_at is not None and self._read_at.date() != today:
            self._following.touch(Status.COMPLETED)
        for view in self.views:
            view.refresh()

    # what is seen

    @property
    def views(self) -> list[ColumnView]:
        return list(self.screen_stack[0].query(ColumnView))

    @property
    def view(self) -> ColumnView:
        return self.views[self._at]

    @property
    def current(self) -> Json | None:
        items = self.view.column.items
        return items[self.view.place] if self.view.place < len(items) else None

    def show(self) -> None:
        for view in self.views:
            view.show(frozenset(self.picked))
        self._arrange()

    def _arrange(self) -> None:
        """As many columns as there is room for, the current one among them."""
        views = self.views
        room = max(1, min(len(views), self.size.width // _NARROWEST))
        first = max(0, min(self._at - room // 2, len(views) - room))
        for n, view in enumerate(views):
            view.display = first <= n < first + room
            view.set_class(n == self._at, "current")
        left, right = (
            " · ".join(f"{one.column.title} {one.column.count}" for one in hidden)
            for hidden in (views[:first], views[first + room :])
        )
        beside = self._static("beside")
        beside.display = room < len(views)
        ways = [f"◂ {left}" if left else "", f"{right} ▸" if right else ""]
        gap = max(3, self.size.width - 2 - sum(map(len, ways)))
        beside.update(ways[0] + " " * gap + ways[1])
        self._show_bar()
        self._show_keys()

    def _show_bar(self) -> None:
        parts = ["Rota", one_line(self._where), self._state()]
        if str(self.board.filters):
            parts.append(f"only {one_line(self.board.filters)}")
        if self.picked:
            parts.append(f"{len(self.picked)} picked")
        bar = self._static("bar")
        bar.update("  ".join(parts))
        bar.set_class(self._there is False, "lost")

    def _state(self) -> str:
        if self._there is None:
            return "connecting …"
        if self._there:
            return "live"
        seen = f"; this is from {self._read_at:%H:%M:%S}" if self._read_at else ""
        return f"CONNECTION LOST, trying again{seen}"

    def _show_keys(self) -> None:
        item = self.current
        verbs = [f"{deed.key} {deed.words}" for deed in possible(item)] if item else []
        some = ["enter open", *verbs, "space pick"] if item else ["a add"]
        room = self.size.width - 2 - len(_ALWAYS) - 2
        while some and len("  ".join(some)) > room:
            some.pop()
        self._static("keys").update(f"{'  '.join(some):<{room}}  {_ALWAYS}")

    def say(self, text: str, bad: bool = False) -> None:
        said = self._static("said")
        said.update(one_line(text))
        said.display = bool(text)
        said.set_class(bad, "bad")
        if isinstance(self.screen, ItemScreen):
            self.screen.say(text, bad)

    def _static(self, name: str) -> Static:
        return self.screen_stack[0].query_one(f"#{name}", Static)

    def on_resize(self) -> None:
        self._arrange()
        self.call_after_refresh(self.view.reveal)

    # what is pressed

    def action_go(self, way: int) -> None:
        self._at = max(0, min(self._at + way, len(TITLES) - 1))
        self._arrange()
        self.call_after_refresh(self.view.reveal)

    def action_move(self, way: int) -> None:
        self.say("")
        self.view.move(self.view.place + way)
        self._show_keys()
        if self.view.place >= len(self.view.column.items) - 10:
            self._more(self.view)

    def action_open(self) -> None:
        if self.current is not None:
            self.push_screen(ItemScreen(self.current))

    def action_pick(self) -> None:
        if self.current is not None:
            self.picked ^= {self.current["id"]}
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
        if deed is None:
            wanted = " or ".join(one.words for one in DEEDS.values() if one.key == key)
            self.say(f"{acting.named(items[:1])}: {refusal(items[0], wanted)}", bad=True)
        else:
            await acting.carry_out(self, deed, items)

    def _targets(self) -> list[Json]:
        """The item that is open, or what is picked, or the current card."""
        if isinstance(self.screen, ItemScreen):
            return [self.screen.item]
        found = [self.board.find(one) for one in self.picked]
        picked = [column.items[place] for column, place in filter(None, found)]
        return picked or ([self.current] if self.current is not None else [])

    @work
    async def action_add(self) -> None:
        await acting.add(self)

    @work
    async def action_filter(self) -> None:
        hint = "project:ID agent:NAME type:NAME label:NAME, and words to search for"
        blank = Blank("filter", hint, value=str(self.board.filters))
        answers = await self.push_screen_wait(Ask("Show only …", [blank]))
        if answers is not None:
            self.board.filters = Filters.of(answers.get("filter", ""))
            self._following.touch()
            self._show_bar()

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_again(self) -> None:
        self._following.touch()

    def action_light(self) -> None:
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    # what is clicked on

    def on_column_view_chosen(self, chosen: ColumnView.Chosen) -> None:
        again = chosen.view is self.view and chosen.place == self.view.place
        self._at = self.views.index(chosen.view)
        chosen.view.move(chosen.place)
        self._arrange()
        if again:
            self.action_open()

    def on_column_view_near_the_end(self, near: ColumnView.NearTheEnd) -> None:
        self._more(near.view)

    def _more(self, view: ColumnView) -> None:
        if view.column.cursor is not None:
            self.run_worker(self._open_more(view), group=f"more-{view.id}", exclusive=True)

    async def _open_more(self, view: ColumnView) -> None:
        try:
            await self.board.more(view.column.status)
        except RotaError as error:
            self._failed(error)
            return
        view.show(frozenset(self.picked))
