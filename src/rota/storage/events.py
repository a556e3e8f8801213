"""The verbs about the event log; the statements are in sql/events.sql."""

from collections.abc import Sequence
from itertools import takewhile

from rota.model.events import EVERY_EVENT, Event, EventFilter, EventType, NewEvent
from rota.storage.port import Topic
from rota.storage.primitives import Primitives
from rota.storage.rows import EVENT_FIELDS, event_of, event_row
from rota.storage.select import narrowed


class EventStatements(Primitives):
    def append(self, events: Sequence[NewEvent]) -> None:
        if events:
            rows = [event_row(event) for event in events]
            self._run_all(("append_events",), EVENT_FIELDS, rows)
            self.topics.add(Topic.EVENTS)

    def events_after(
        self, after: int, limit: int, wanted: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        return self._events_on(after, limit, wanted)[0]

    def events_on(self, after: int, limit: int) -> tuple[list[Event], bool]:
        return self._events_on(after, limit, EVERY_EVENT)

    def _events_on(self, after: int, limit: int, wanted: EventFilter) -> tuple[list[Event], bool]:
        text, parameters = narrowed(self._sql["events_after"], wanted)
        rows = self._text(text, parameters | {"after": after, "limit": limit})
        settled = [event_of(row[:-1]) for row in takewhile(lambda row: row[-1], rows)]
        return settled, len(settled) < len(rows)

    def events_of(self, item_id: str, limit: int, kind: EventType | None = None) -> list[Event]:
        if kind is None:
            rows = self._rows("events_of", id=item_id, limit=limit)
        else:
            rows = self._rows("events_of_type", id=item_id, limit=limit, type=kind)
        return [event_of(row) for row in rows]

    def last_event(self) -> int:
        return self._count("last_event")

    def highest_event(self) -> int:
        return self._count("highest_event")
