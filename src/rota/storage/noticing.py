"""The verbs about notifications; the statements are in sql/notices.sql."""

import json

from rota.model.notices import WaitingNotice
from rota.storage.primitives import Primitives, Row
from rota.storage.rows import encode


class NoticeStatements(Primitives):
    def get_mark(self, name: str) -> str | None:
        return self._value("get_mark", name=name)

    def lock_mark(self, name: str) -> str | None:
        return self._value("lock_mark", name=name)

    def begin_mark(self, name: str, value: str) -> bool:
        return bool(self._rows("begin_mark", name=name, value=value))

    def put_mark(self, name: str, value: str) -> None:
        self._do("put_mark", name=name, value=value)

    def forget_notifications(self) -> int:
        self._changed("forget_marks")
        return self._changed("forget_notices")

    def put_notice(self, notice: WaitingNotice) -> None:
        self._do(
            "put_notice",
            id=notice.id,
            channel=notice.channel,
            bundle=notice.bundle,
            event_seq=notice.event_seq,
            content=encode(notice.content),
            created_at=notice.created_at,
            due_at=notice.due_at,
        )

    def bundle_due(self, channel: str, bundle: str) -> str | None:
        return self._value("bundle_due", channel=channel, bundle=bundle)

    def due_bundles(self, now: str) -> list[tuple[str, str]]:
        return [(row[0], row[1]) for row in self._rows("due_bundles", now=now)]

    def take_notices(self, channel: str, bundle: str, limit: int) -> list[WaitingNotice]:
        rows = self._rows("take_notices", channel=channel, bundle=bundle, want=limit)
        return sorted((notice_of(row) for row in rows), key=lambda one: (one.event_seq, one.id))

    def next_notice(self) -> str | None:
        return self._value("next_notice")


def notice_of(row: Row) -> WaitingNotice:
    values = list(row)
    values[4] = json.loads(values[4])
    return WaitingNotice(*values)
