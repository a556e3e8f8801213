"""The time by the server's clock, which wrote the times that are shown.

The clock of this machine may differ by minutes; ages counted by it would be wrong, or negative. An
answer says when it was made, in whole seconds, and that was between request and answer. Servers
write that time once a second, so it may be two seconds old. Where this machine's clock agrees with
that, it is right enough; otherwise it is corrected by as little as agrees.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rota.client.transport import Answer, Request, SyncStream, SyncTransport

_STALE, _AGREED = timedelta(seconds=3), timedelta()


class ServerClock:
    def __init__(self) -> None:
        self._lead = _AGREED

    def now(self) -> datetime:
        return datetime.now(UTC) + self._lead

    def forget(self) -> None:
        self._lead = _AGREED

    def hear(self, date: str | None, asked: datetime) -> None:
        """`date` is the header of an answer that has just come; `asked` is when this machine's
        clock says it was asked for."""
        from email.utils import parsedate_to_datetime  # slow to import, and a help page needs none

        try:
            made = parsedate_to_datetime(date or "")
        except ValueError:
            return
        if made.tzinfo is not None:
            nearest = min(made + _STALE - asked, _AGREED)
            self._lead = max(made - datetime.now(UTC), nearest)


theirs = ServerClock()  # one for the process: a command asks one server


class Dated:
    """A transport that hears the server's clock."""

    def __init__(self, inner: "SyncTransport") -> None:
        self._inner = inner

    def send(self, request: "Request") -> "Answer":
        asked = datetime.now(UTC)
        answer = self._inner.send(request)
        theirs.hear(answer.headers.get("date"), asked)
        return answer

    def open(self, request: "Request") -> "SyncStream":
        return self._inner.open(request)

    def close(self) -> None:
        self._inner.close()

    def beside(self) -> "SyncTransport":
        return self._inner.beside()
