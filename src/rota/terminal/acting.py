"""From a key to a move: asks for what the move needs, and puts a refusal into words."""

import re
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from rota.cli.text import one_line, shortened
from rota.model.errors import ClaimedByAnother, RotaError
from rota.terminal.deeds import Blank, Deed
from rota.terminal.dialogs import Ask, Confirm

if TYPE_CHECKING:
    from rota.terminal.app import BoardApp

Json = dict[str, Any]

_TITLE = 40
_NEW_ITEM = (
    Blank("description", "What needs to be done?", needed=True),
    Blank("type", "Type", value="work"),
    Blank("priority", "Priority, 1 (highest) to 5", value="3"),
    Blank("agent", "Only for this agent (optional)"),
    Blank("labels", "Labels, separated by commas (optional)"),
    Blank("body", "Details (optional)"),
)


_CALLED = {"assigned_agent": "agent"}  # fields of the API by their names here
_ENTRY = re.compile(r"(\w+)\[(\d+)\]")  # of a list


async def carry_out(app: "BoardApp", deed: Deed, items: Sequence[Json]) -> None:
    if deed.warning and not await _is_meant(app, deed, items):
        return
    agent = {"agent": items[0]["assigned_agent"] or ""}
    answers = await _answers(app, deed, items, agent) if deed.blanks else {}
    while answers is not None:
        refused = await _refused(app, deed, items, answers)
        app.picked -= {item["id"] for item in items}
        app.show()
        problem = _report(app, deed, items, [*refused.values()])
        if not (refused and answers):
            return
        items = [item for item in items if item["id"] in refused]
        answers = await _answers(app, deed, items, answers, problem)


async def _is_meant(app: "BoardApp", deed: Deed, items: Sequence[Json]) -> bool:
    what = f"“{named(items)}”" if len(items) == 1 else named(items)
    return await app.push_screen_wait(Confirm(f"{deed.label} {what}? {deed.warning}"))


async def _answers(
    app: "BoardApp",
    deed: Deed,
    items: Sequence[Json],
    values: dict[str, str],
    problem: str = "",
) -> dict[str, str] | None:
    agents = [one["name"] for one in await _agents(app)] if deed.name == "dispatch" else []
    heading = f"{deed.label}: {named(items)}"
    return await app.push_screen_wait(
        Ask(heading, _filled(deed.blanks, values), agents, problem=problem)
    )


def _filled(blanks: Sequence[Blank], values: dict[str, str]) -> list[Blank]:
    """With what was written before, because nobody likes to write it twice."""
    return [replace(blank, value=values.get(blank.name, "")) for blank in blanks]


async def _agents(app: "BoardApp") -> list[Json]:
    try:
        return await app.client.agents()
    except RotaError:  # only suggestions
        return []


async def _refused(
    app: "BoardApp", deed: Deed, items: Sequence[Json], answers: dict[str, str]
) -> dict[str, str]:
    """The reasons by the ids of the items."""
    reasons = {}
    for item in items:
        why = await _one(app, deed, item, answers)
        if why:
            reasons[item["id"]] = f"“{shortened(item['description'], _TITLE)}”: {why}"
    return reasons


async def _one(app: "BoardApp", deed: Deed, item: Json, answers: dict[str, str]) -> str | None:
    """None if it was done, else the reason why not."""
    act = getattr(app.client, deed.name)
    try:
        try:
            await act(item["id"], **answers)
        except ClaimedByAnother as error:
            question = f"{said(error, item)}. End that claim and {deed.words} anyway?"
            if not deed.forcible or not await app.push_screen_wait(Confirm(question)):
                return said(error, item)
            await act(item["id"], **answers, force=True)
    except RotaError as error:
        return said(error, item)
    return None


def said(error: RotaError, item: Json) -> str:
    """The ledger's message, with “it” for the item's id, except in a command."""
    called = rf"(rota [\w-]+ )?{re.escape(item['id'])}"
    return re.sub(called, lambda found: found[0] if found[1] else "it", one_line(error.message))


def named(items: Sequence[Json]) -> str:
    return shortened(items[0]["description"], 60) if len(items) == 1 else f"{len(items)} items"


def _report(app: "BoardApp", deed: Deed, items: Sequence[Json], refused: Sequence[str]) -> str:
    done = len(items) - len(refused)
    also = f"{done} of {len(items)} done; " if len(items) > 1 else ""
    told = (
        f"{deed.label} refused: {also}{'; '.join(refused)}"
        if refused
        else f"{deed.done}: {named(items)}"
    )
    app.say(told, bad=bool(refused))
    return told


async def add(app: "BoardApp") -> None:
    dialog, sent, key = Ask("Add an item", _NEW_ITEM), None, ""
    while (answers := await app.push_screen_wait(dialog)) is not None:
        if answers != sent:  # else an answer may have been lost, and the item must not be doubled
            sent, key = answers, token_hex(16)
        try:
            item = await app.client.work_add(**_fields(answers), idempotency_key=key)
        except RotaError as error:
            dialog = _again(answers, one_line(error.message))
        else:
            app.say(f"Added: {shortened(item['description'], 60)}")
            return


def _again(answers: dict[str, str], message: str) -> Ask:
    field, _, rest = message.partition(": ")
    at, entry = field, _ENTRY.fullmatch(field)
    if entry:
        at, message = entry[1], f"{entry[1]} (number {int(entry[2]) + 1}): {rest}"
    elif field in _CALLED:
        at = _CALLED[field]
        message = f"{at}: {rest}"
    return Ask("Add an item", _filled(_NEW_ITEM, answers), problem=f"Not added: {message}", at=at)


def _fields(answers: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": "work", **answers}
    if "labels" in fields:
        fields["labels"] = [one.strip() for one in fields["labels"].split(",") if one.strip()]
    if fields.get("priority", "").isdigit():  # else the ledger says what is wrong with it
        fields["priority"] = int(fields["priority"])
    return fields
