"""Our members and entries in another author's JSON file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.model.errors import InvalidInput, Refused
from rota.setup import json_text
from rota.setup.parts import Facts

Where = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A value under our name. `is_ours` distinguishes it from another value of that name."""

    path: Where
    value: dict[str, Any]
    is_ours: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list. `without_ours` returns what remains of an entry without our part, as a
    list: the same entry if it has no part of ours, an empty list if it is ours alone."""

    path: Where
    value: dict[str, Any]
    without_ours: Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class JsonFile:
    path: Path
    ours: tuple[Member | ListEntry, ...]

    def put(self, text: str | None, facts: Facts | None) -> tuple[str, Facts]:
        known: Facts = {"created": text is None, "blank": [], **(facts or {})}
        text = "{}\n" if text is None else text
        self._demand_json(text)
        for one in self.ours:
            if isinstance(one, Member):
                text = self._put_member(text, one, known)
            else:
                text = self._put_entry(text, one, known)
        return text, known

    def take(self, text: str, facts: Facts | None) -> str | None:
        self._demand_json(text)
        if all(_left(text, one) == text for one in self.ours):
            return text
        for one in reversed(self.ours):
            text = _tidied(_left(text, one), one.path, facts)
        created = (facts or {}).get("created", True)
        if created and json_text.inside(text, ()) is not None:
            return None
        return text

    def _demand_json(self, text: str) -> None:
        try:
            json_text.parse(text)
        except InvalidInput as error:
            raise Refused(
                f"{self.path}: {error.message}; mend it first (nothing was changed)"
            ) from None

    def _put_member(self, text: str, one: Member, facts: Facts) -> str:
        *parents, name = one.path
        text = self._with_containers(text, tuple(parents), {}, facts)
        node = json_text.find(text, one.path)
        if node is None:
            return json_text.insert(text, tuple(parents), name, one.value)
        there = json_text.value_at(text, node)
        if not one.is_ours(there):
            raise Refused(
                f"{self.path} already has {'.'.join(one.path)}, and it is not ours; rename or"
                " remove it first (nothing was changed)"
            )
        return json_text.replace(text, node, {**there, **one.value})

    def _put_entry(self, text: str, one: ListEntry, facts: Facts) -> str:
        text = self._with_containers(text, one.path, [], facts)
        node = json_text.find(text, one.path)
        if node is None:
            raise Refused(f"{self.path} has no list {'.'.join(one.path)}")
        for entry in node.entries:
            if not one.without_ours(json_text.value_at(text, entry.node)):
                return json_text.replace(text, entry.node, one.value)
        return json_text.insert(_take_entries(text, one), one.path, None, one.value)

    def _with_containers(self, text: str, path: Where, last: Any, facts: Facts) -> str:
        """Creates missing containers; records those that were empty before."""
        for depth in range(len(path) + 1):
            here = path[:depth]
            if json_text.find(text, here) is None:
                text = json_text.insert(text, here[:-1], here[-1], last if here == path else {})
                _note(facts, here, None)
            self._check_kind(text, here, last if here == path and path else {})
            blank = json_text.inside(text, here)
            if blank is not None and not _noted(facts, here):
                _note(facts, here, blank)
        return text

    def _check_kind(self, text: str, path: Where, wanted: Any) -> None:
        node = json_text.find(text, path)
        if node is None or not isinstance(json_text.value_at(text, node), type(wanted)):
            kind = "a list" if isinstance(wanted, list) else "an object"
            raise Refused(f"{self.path}: {'.'.join(path)} is not {kind} (nothing was changed)")


def _left(text: str, one: Member | ListEntry) -> str:
    return _take_member(text, one) if isinstance(one, Member) else _take_entries(text, one)


def _take_member(text: str, one: Member) -> str:
    node = json_text.find(text, one.path)
    if node is None or not one.is_ours(json_text.value_at(text, node)):
        return text
    return _without(text, one.path)


def _take_entries(text: str, one: ListEntry) -> str:
    node = json_text.find(text, one.path)
    if node is None or text[node.start] != "[":
        return text
    for index in range(len(node.entries) - 1, -1, -1):
        entry = node.entries[index].node
        there = json_text.value_at(text, entry)
        left = one.without_ours(there)
        if not left:
            text = json_text.drop(text, one.path, index)
        elif left != [there]:
            text = json_text.replace(text, entry, left[0])
    return text


def _tidied(text: str, path: Where, facts: Facts | None) -> str:
    """Restores containers that are empty now: they are removed, or get their old blank content."""
    for depth in range(len(path), -1, -1):
        here = path[:depth]
        if json_text.find(text, here) is None or json_text.inside(text, here) is None:
            continue
        if facts is not None and not _noted(facts, here):
            continue  # somebody else has emptied it
        blank = _blank(facts, here)
        if blank is not None:
            text = json_text.refill(text, here, blank)
        elif here:
            text = _without(text, here)
    return text


def _without(text: str, path: Where) -> str:
    node = json_text.find(text, path[:-1])
    index = None if node is None else json_text.index_of(node, lambda one: one.key == path[-1])
    return text if index is None else json_text.drop(text, path[:-1], index)


# In the receipt: [path, None] for a container that we created, [path, blank] for one that was
# empty, with the text between its brackets.


def _note(facts: Facts, path: Where, blank: str | None) -> None:
    known = {tuple(one[0]): one[1] for one in facts["blank"]} | {path: blank}
    facts["blank"] = [[[*where], one] for where, one in known.items()]


def _noted(facts: Facts, path: Where) -> bool:
    return any(one[0] == [*path] for one in facts["blank"])


def _blank(facts: Facts | None, path: Where) -> str | None:
    known = (facts or {}).get("blank", ())
    return next((one[1] for one in known if one[0] == [*path]), None)
