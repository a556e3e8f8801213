"""A transport that says whether the ledger can be reached, for a screen that shows it."""

from collections.abc import Callable
from datetime import UTC, datetime

from rota.cli.server_clock import theirs
from rota.client.transport import Answer, AsyncStream, AsyncTransport, Request, SyncTransport
from rota.model.errors import RotaError


class Told:
    """Tells when the event stream is open, and when it cannot be opened: `WorkQueueClient.watch`
    opens it again by itself and tells nobody."""

    def __init__(self, inner: AsyncTransport) -> None:
        self._inner = inner
        self.tell: Callable[[bool], None] = lambda there: None

    async def send(self, request: Request) -> Answer:
        asked = datetime.now(UTC)
        answer = await self._inner.send(request)
        theirs.hear(answer.headers.get("date"), asked)
        return answer

    async def open(self, request: Request) -> AsyncStream:
        if not request.path.startswith("/events"):
            return await self._inner.open(request)
        try:
            stream = await self._inner.open(request)
        except RotaError:
            self.tell(False)
            raise
        self.tell(stream.status == 200)
        return stream

    async def aclose(self) -> None:
        await self._inner.aclose()

    def beside(self) -> SyncTransport:
        return self._inner.beside()
