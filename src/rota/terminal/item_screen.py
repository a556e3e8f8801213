"""One item in full, over the board; it follows the item's events."""

import time
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from rota.cli.text import one_line
from rota.model.errors import RotaError
from rota.terminal.card import facts_of
from rota.terminal.deeds import DEEDS, possible
from rota.terminal.item_text import countdown, whole
from rota.terminal.log_screen import LogScreen

if TYPE_CHECKING:
    from rota.terminal.app import BoardApp

Json = dict[str, Any]

_RUNS_SHOWN = 20
_LOOK_SECONDS = 10.0  # a heartbeat extends the lease without an event
_KEYS = sorted({deed.key for deed in DEEDS.values()})


class ItemScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,left,h", "dismiss(None)"),
        Binding("j", "scroll('down')"),
        Binding("k", "scroll('up')"),
        Binding("m", "app.menu"),
        Binding("L", "log"),
        Binding("question_mark", "app.help"),
        *(Binding(key, f"app.deed('{key}')") for key in _KEYS),
    ]

    def __init__(self, item: Json) -> None:
        super().__init__()
        self.item = item
        self._runs: list[Json] = []
        self._projects: dict[str, str] = {}  # names by id
        self._looked = time.monotonic()

    @property
    def board(self) -> "BoardApp":
        app: Any = self.app
        board: BoardApp = app
        return board

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="item") as pane:
            pane.can_focus = True
            yield Static(one_line(self.item["description"]), classes="heading", markup=False)
            yield Static("", id="facts", markup=False)
            yield Static("", id="claim", markup=False)
            yield Static("loading …", id="rest", markup=False)
        yield Static("", id="said", markup=False)
        yield Static("", id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.read_again()
        self.set_interval(1, self._tick)

    def touched(self, item_id: str | None) -> None:
        """Called for every event of an item."""
        if item_id == self.item["id"]:
            self.read_again()

    def read_again(self) -> None:
        self._looked = time.monotonic()
        self.run_worker(self._read(), exclusive=True)

    def say(self, text: str, bad: bool) -> None:
        self._put("#said", one_line(text))
        self.query("#said").set_class(bad, "bad")

    def _put(self, where: str, content: Any) -> None:
        """An answer may come before the screen is composed, or while it is closed: it has no
        widgets then."""
        for widget in self.query(where).results(Static):
            widget.update(content)

    async def _read(self) -> None:
        client, item_id = self.board.client, self.item["id"]
        try:
            item = await client.work_get(item_id)
            explained = await client.explain(item_id)
            self._runs = await client.list_runs(work_item_id=item_id, limit=_RUNS_SHOWN)
            project = await self._project(item)
        except RotaError as error:
            self.say(error.message, True)
            return
        self.item = item
        self._show(whole(item, explained, self._runs, project))

    async def _project(self, item: Json) -> str | None:
        found = item["project_id"]
        if found is not None and found not in self._projects:
            self._projects[found] = (await self.board.client.get_project(found))["name"]
        return self._projects.get(found)

    def _show(self, text: Any) -> None:
        item = self.item
        self._put(".heading", one_line(item["description"]))
        status = str(item["status"]).replace("_", " ")
        self._put("#facts", " · ".join([status, *facts_of(item)]))
        self._put("#rest", text)
        verbs = [f"{deed.key} {deed.words}" for deed in possible(item)]
        log = ["L log"] if self._runs else []
        keys = ["escape back", "m menu", *log, *verbs]
        self._put("#keys", "  ".join(keys))
        self._tick()

    def _tick(self) -> None:
        claim = self.item.get("claim")
        self.query("#claim").set(display=bool(claim))
        self._put("#claim", countdown(self.item) if claim else "")
        if claim and time.monotonic() - self._looked > _LOOK_SECONDS:
            self.read_again()

    def action_log(self) -> None:
        """The log of the latest run."""
        if self._runs:
            self.app.push_screen(LogScreen(self.board.client, self._runs[0]))
        else:
            self.say("No run has worked on this item yet", True)

    def action_scroll(self, way: str) -> None:
        pane = self.query_one(VerticalScroll)
        pane.scroll_down() if way == "down" else pane.scroll_up()
