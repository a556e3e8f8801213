"""Dialogs over the board: questions, the menu, and help."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from rota.cli.text import one_line
from rota.terminal.deeds import Blank, Deed

_AGENTS_NAMED = 12
_ESCAPE = Binding("escape", "dismiss(None)", "Close")


class Ask(ModalScreen[dict[str, str] | None]):
    """Some fields to fill in: enter goes on, escape gives up."""

    BINDINGS: ClassVar[list[BindingType]] = [_ESCAPE]

    def __init__(
        self,
        heading: str,
        blanks: Sequence[Blank],
        known: Sequence[str] = (),
        *,
        problem: str = "",
        at: str = "",
    ) -> None:
        """`known` are names of agents; `problem` is what was wrong with the field `at`."""
        super().__init__()
        self._heading = heading
        self._blanks = blanks
        self._known = known
        self._problem = problem
        self._at = at

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=False):
            yield Label(one_line(self._heading), classes="heading", markup=False)
            for blank in self._blanks:
                yield Label(self._label(blank), markup=False)
                yield Input(
                    blank.value, id=blank.name, suggester=self._suggester(blank), compact=True
                )
            yield Label(self._problem, id="missing", markup=False)
            yield Label(
                "enter: next field, or submit   escape: close", classes="quiet", markup=False
            )

    def on_mount(self) -> None:
        for field in self.query(Input):
            if field.id == self._at:
                field.focus()

    def _label(self, blank: Blank) -> str:
        agents = ", ".join(self._known[:_AGENTS_NAMED])
        return (
            f"{blank.label} Known agents: {agents}"
            if agents and blank.name == "agent"
            else blank.label
        )

    def _suggester(self, blank: Blank) -> SuggestFromList | None:
        return SuggestFromList(self._known) if blank.name == "agent" and self._known else None

    @on(Input.Submitted)
    def go_on(self, event: Input.Submitted) -> None:
        """Go to the next field or, from the last one, submit."""
        names = [blank.name for blank in self._blanks]
        place = names.index(event.input.id or "")
        if place + 1 < len(names):
            self.query_one(f"#{names[place + 1]}", Input).focus()
            return
        answers = {name: self.query_one(f"#{name}", Input).value.strip() for name in names}
        for blank in self._blanks:
            if blank.needed and not answers[blank.name]:
                self.query_one("#missing", Label).update(f"This field is required: {blank.label}")
                self.query_one(f"#{blank.name}", Input).focus()
                return
        if self.is_current:  # a second enter may have been on its way already
            self.dismiss({name: value for name, value in answers.items() if value})


class Menu(ModalScreen[str | None]):
    """Everything that may be done to an item; the keys of the deeds work here, too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _ESCAPE,
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, heading: str, deeds: Sequence[Deed]) -> None:
        super().__init__()
        self._heading = heading
        self._deeds = deeds

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(one_line(self._heading), classes="heading", markup=False)
            options = [
                Option(Text(f"{deed.key}  {deed.label}"), id=deed.name) for deed in self._deeds
            ]
            yield OptionList(*options, markup=False)
            yield Label("enter: choose   escape: close", classes="quiet", markup=False)

    def on_key(self, event: events.Key) -> None:
        chosen = [deed.name for deed in self._deeds if deed.key == event.key]
        if chosen and self.is_current:
            event.stop()
            self.dismiss(chosen[0])

    @on(OptionList.OptionSelected)
    def chosen(self, event: OptionList.OptionSelected) -> None:
        if self.is_current:
            self.dismiss(event.option_id)

    def action_down(self) -> None:
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(OptionList).action_cursor_up()


class Confirm(ModalScreen[bool]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n", "dismiss(False)", "No"),
        Binding("escape", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(one_line(self._question), markup=False)
            yield Label("y: yes   n: no", classes="quiet", markup=False)


HELP = """\
arrows, h j k l   move between cards
g, G              first card, last card
enter             open the item; L there: the log of its latest run
m                 menu of what may be done to the item
x or space        pick cards to act on together; escape: unpick them
/                 filter: agent:NAME type:NAME label:NAME
                  project:NAME, and words to search for
a, n              add an item; add a note to one

d dispatch   s start     c complete   b block   u resume
v hand over  F fail      X cancel     o hold, or remove the hold
r back to the queue: release, reopen, retry

?, q              this help; quit
ctrl+r, ctrl+t    reload everything; light or dark
"""


class Help(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        _ESCAPE,
        Binding("question_mark,q,enter", "dismiss(None)", "Close"),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog wide"):
            yield Label("Keys", classes="heading")
            yield Static(HELP, markup=False)
            yield Label("escape: close", classes="quiet")
