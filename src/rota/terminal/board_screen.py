"""The screen of the board: its columns, and the lines above and below them."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from rota.cli.text import one_line
from rota.terminal.board import Board
from rota.terminal.column_view import ColumnView
from rota.terminal.deeds import possible

Json = dict[str, Any]

_NARROWEST = 22  # cells of a column
_ALWAYS = "m menu  / filter  ? help  q quit"


class BoardScreen(Screen[None]):
    def __init__(self, board: Board, where: str) -> None:
        super().__init__()
        self._board = board
        self._where = where
        self._at = 0
        self._picked: Collection[str] = ()
        self._written: dict[str, str] = {}
        self.live: bool | None = None  # None: not known yet
        self.read_at: datetime | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="bar", markup=False)
        yield Static("", id="beside", markup=False)
        with Horizontal(id="board"):
            for column in self._board.columns.values():
                yield ColumnView(column)
        yield Static("", id="said", markup=False)
        yield Static("", id="keys", markup=False)

    @property
    def views(self) -> list[ColumnView]:
        return list(self.query(ColumnView))

    @property
    def view(self) -> ColumnView:
        """The current column."""
        return self.views[self._at]

    @property
    def current(self) -> Json | None:
        items = self.view.column.items
        return items[self.view.place] if self.view.place < len(items) else None

    def go_to(self, place: int) -> None:
        """Make another column the current one."""
        self._at = max(0, min(place, len(self.views) - 1))
        self._arrange()
        self.call_after_refresh(self.view.reveal)

    def go(self, way: int) -> None:
        self.go_to(self._at + way)

    def move(self, way: int) -> None:
        """Make another card the current one."""
        self.view.move(self.view.place + way)
        self._show_keys()

    def say(self, text: str, bad: bool) -> None:
        self._write("said", one_line(text), layout=True).set_class(bad, "bad")

    def show(self, picked: Collection[str]) -> None:
        self._picked = picked
        for view in self.views:
            view.show(frozenset(picked))
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()
        self.call_after_refresh(self.view.reveal)

    def _arrange(self) -> None:
        """Show as many columns as there is room for, the current one among them."""
        views = self.views
        room = max(1, min(len(views), self.app.size.width // _NARROWEST))
        first = max(0, min(self._at - room // 2, len(views) - room))
        for n, view in enumerate(views):
            view.display = first <= n < first + room
            view.set_class(n == self._at, "current")
        self._show_beside(views[:first], views[first + room :])
        self.show_bar()
        self._show_keys()

    def _show_beside(self, left: list[ColumnView], right: list[ColumnView]) -> None:
        """Names the columns for which there is no room."""
        before, after = (
            " · ".join(f"{one.column.title} {one.column.count}" for one in hidden)
            for hidden in (left, right)
        )
        ends = (f"◂ {before}" if before else "", f"{after} ▸" if after else "")
        gap = max(3, self.app.size.width - 2 - sum(map(len, ends)))
        self._write("beside", (" " * gap).join(ends) if left or right else "")

    def show_bar(self) -> None:
        parts = ["Rota", one_line(self._where), self._state()]
        if str(self._board.filters):
            parts.append(f"filter: {one_line(self._board.filters)}")
        if self._picked:
            parts.append(f"{len(self._picked)} picked")
        self._write("bar", "  ".join(parts)).set_class(self.live is False, "lost")

    def _state(self) -> str:
        if self.live is None:
            return "connecting …"
        if self.live:
            return "live"
        seen = f"; last read at {self.read_at:%H:%M:%S}" if self.read_at else ""
        return f"CONNECTION LOST, reconnecting{seen}"

    def _show_keys(self) -> None:
        """Shows what the current card allows, as far as there is room."""
        item = self.current
        verbs = [f"{deed.key} {deed.words}" for deed in possible(item)] if item else []
        some = ["enter open", *verbs, "x pick"] if item else ["a add"]
        room = max(0, self.app.size.width - len(_ALWAYS) - 4)
        while some and len("  ".join(some)) > room:
            some.pop()
        self._write("keys", f"{'  '.join(some):<{room}}  {_ALWAYS}")

    def _write(self, name: str, text: str, layout: bool = False) -> Static:
        """Draws a line only if it has changed; an empty line takes no room."""
        line = self.query_one(f"#{name}", Static)
        if self._written.get(name) != text:
            self._written[name] = text
            line.update(text, layout=layout)
            line.display = bool(text)
        return line
