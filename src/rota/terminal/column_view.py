"""A column on the screen. Only visible lines are drawn: thousands of cards cost what ten do."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rota.terminal.board import Column
from rota.terminal.card import card_lines, wrapped

_TALL = 30  # a terminal with room for one more line on each card
_MARGIN = 2
_NEAR_THE_END = 10


class ColumnView(ScrollView, can_focus=False):
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "column--title",
        "column--facts",
        "column--current",
        "column--picked",
        "column--empty",
        "column--urgent",
        "column--kept",
    }

    class Chosen(Message):
        """A card was clicked on."""

        def __init__(self, view: "ColumnView", place: int) -> None:
            super().__init__()
            self.view = view
            self.place = place

    class NearTheEnd(Message):
        def __init__(self, view: "ColumnView") -> None:
            super().__init__()
            self.view = view

    def __init__(self, column: Column) -> None:
        super().__init__(id=column.status)
        self.column = column
        self.place = 0
        self.picked: frozenset[str] = frozenset()
        self._current_id: str | None = None
        self._shown: tuple[object, ...] = ()
        self._plain = Style()

    @property
    def lines(self) -> int:
        """Lines of a card; an empty line follows."""
        return 4 if self.app.size.height >= _TALL else 3

    @property
    def current_id(self) -> str | None:
        items = self.column.items
        return items[self.place]["id"] if self.place < len(items) else None

    def show(self, picked: frozenset[str]) -> None:
        """After the column was read: the current card stays current if it is still here; otherwise
        the card in its place becomes current."""
        self.picked = picked
        found = self.column.place_of(self._current_id)
        self.place = self.place if found is None else found
        self.place = max(0, min(self.place, len(self.column.items) - 1))
        self._current_id = self.current_id
        title = f"{self.column.title} {self.column.count}"
        column = self.column
        shown = (column.items, len(column.items), picked, self.place, title, column.empty)
        if self._shown and all(a is b or a == b for a, b in zip(shown, self._shown, strict=True)):
            return
        self._shown = shown
        self.border_title = title
        self._measure()
        self.refresh()

    def move(self, place: int) -> None:
        self.place = max(0, min(place, len(self.column.items) - 1))
        self._current_id = self.current_id
        self.reveal()
        self.refresh()

    def reveal(self) -> None:
        card = Region(0, self.place * (self.lines + 1), 1, self.lines)
        self.scroll_to_region(card, animate=False, force=True)

    def on_resize(self) -> None:
        self._measure()

    def _measure(self) -> None:
        more = 1 if self.column.has_more else 0
        height = len(self.column.items) * (self.lines + 1) + more
        self.virtual_size = Size(self.scrollable_content_region.width, height)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        seen = (new_value + self.size.height) / (self.lines + 1)
        if self.column.cursor is not None and seen > len(self.column.items) - _NEAR_THE_END:
            self.post_message(self.NearTheEnd(self))

    def on_click(self, event: events.Click) -> None:
        place = (event.y - self.gutter.top + self.scroll_offset.y) // (self.lines + 1)
        if 0 <= place < len(self.column.items):
            self.post_message(self.Chosen(self, place))

    # drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        self._plain = self.rich_style  # Textual computes it anew on each access
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        place, row = divmod(y + self.scroll_offset.y, self.lines + 1)
        if not self.column.items:
            return self._told(self.column.empty, y, width)
        if place >= len(self.column.items):
            # Below the last card: the text at the end of the list.
            return self._told("… there are more" if self.column.has_more else "", row, width)
        if row >= self.lines:
            return Strip.blank(width, self._plain)
        return self._card_line(place, row, width)

    def _told(self, text: str, y: int, width: int) -> Strip:
        lines = wrapped(text.split(), width - _MARGIN, 6)
        words = " ".join(lines[y]) if 0 <= y < len(lines) else ""
        quiet = self.get_component_rich_style("column--empty")
        return _strip([(" " * _MARGIN + words, quiet)], width, self._plain)

    def _card_line(self, place: int, row: int, width: int) -> Strip:
        item = self.column.items[place]
        title, facts = card_lines(item, width - _MARGIN - 1, self.lines)
        current = self.has_class("current") and place == self.place
        picked = item["id"] in self.picked
        always = ["column--picked"] * picked + ["column--current"] * current
        mark = ("▌" if current else " ") + ("✓" if picked and row == 0 else " ")
        if row < len(title):
            style = self._style("column--title", *always)
            return _strip([(mark + " ".join(title[row]), style)], width, style)
        line = facts[row - len(title)] if row - len(title) < len(facts) else []
        plain = self._style("column--facts", *always)
        words = [(f"{word} ", self._style(_class_of(word), *always)) for word in line]
        return _strip([(mark, plain), *words], width, plain)

    def _style(self, *names: str) -> Style:
        return self.get_component_rich_style(*names)


def _class_of(word: str) -> str:
    if word in ("P1", "P2"):
        return "column--urgent"
    if word in ("held", "deferred") or word.startswith("waits"):
        return "column--kept"
    return "column--facts"


def _strip(parts: list[tuple[str, Style]], width: int, rest: Style) -> Strip:
    return Strip([Segment(text, style) for text, style in parts]).adjust_cell_length(width, rest)
