"""What a run says, while it says it."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Log, Static

from rota.cli.text import lines, local_time, one_line
from rota.client import WorkQueueClient
from rota.model.errors import RotaError

Json = dict[str, Any]

_MOST_LINES = 20_000  # the last ones; `rota run log` has all


class LogScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,left,h", "dismiss(None)"),
        Binding("j", "scroll(1)"),
        Binding("k", "scroll(-1)"),
    ]

    def __init__(self, client: WorkQueueClient, run: Json) -> None:
        super().__init__()
        self._client = client
        self._run = run

    def compose(self) -> ComposeResult:
        head = f"{self._run['agent']} since {local_time(self._run['started_at'])}"
        yield Static(one_line(head), classes="heading", markup=False)
        yield Log(max_lines=_MOST_LINES)
        yield Static("loading …   escape back", id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(Log).focus()
        self.run_worker(self._read())

    async def _read(self) -> None:
        log, state = self.query_one(Log), "the run has ended"
        try:
            async for line in self._client.read_log(self._run["id"], follow=True):
                # Agents repeat text from strangers.
                log.write_lines(lines(line.get("text", "")).split("\n"))
        except RotaError as error:
            state = one_line(error.message)
        for keys in self.query("#keys").results(Static):  # none while the screen is closed
            keys.update(f"{state}   escape back")

    def action_scroll(self, way: int) -> None:
        log = self.query_one(Log)
        log.scroll_relative(y=way, animate=False)
