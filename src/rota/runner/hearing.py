"""Reads the output of a run: it goes into the log, and its meaning into a report."""

import asyncio
from collections.abc import Callable, Iterable

from rota.model.fleet import Limits
from rota.model.runs import RunStatus, Usage
from rota.runner.execution import Stop
from rota.runner.logs import END_KEPT, RunLog, for_people
from rota.runner.output import LastLines, Lines
from rota.runner.redaction import Redactor
from rota.runner.results import LONGEST_SUMMARY
from rota.runner.runtimes.port import Event, Listener

HEARD_EVERY = 0.2  # seconds between two lines for people
LONGEST_HEARD = 500


class Ear:
    """One stream of a program's output."""

    def __init__(
        self, log: RunLog, understand: Callable[[str], Iterable[Event]], *, must_parse: bool
    ) -> None:
        self._log = log
        self._understand = understand
        self._must_parse = must_parse
        self._lines = Lines(log.redactor)
        self._unread = b""  # the last bytes that were skipped
        self.last = LastLines(LONGEST_SUMMARY, log.redactor)

    def hear(self, data: bytes) -> str:
        """Returns the latest text."""
        if self._log.is_full and not self._must_parse:
            self._pass_over(data)
            return ""
        return self._take(self._lines.feed(data))

    def finish(self) -> None:
        if self._unread:
            _, newline, whole = self._unread.partition(b"\n")
            if not newline:
                cut = self._unread.decode(errors="replace")
                whole = self._log.redactor.end(cut).encode()
            self._log.drop(-len(whole))
            self._take(self._lines.feed(whole))
        self._take(self._lines.finish())

    def _take(self, lines: Iterable[str]) -> str:
        events: list[Event] = []
        for line in lines:
            self.last.add(line)
            events.extend(self._understand(line))
        self._log.write(events)
        return str(events[-1].get("text", "")) if events else ""

    def _pass_over(self, data: bytes) -> None:
        """The output of a program that floods us is only counted, and its end is kept."""
        if not self._unread:
            self._lines = Lines(self._log.redactor)
        self._log.drop(len(data))
        self._unread = (self._unread + data)[-END_KEPT:]


class Hearing:
    def __init__(
        self,
        listener: Listener,
        log: RunLog,
        *,
        streams: bool,
        limits: Limits,
        stop: Stop,
        heard: Callable[[str], None] | None,
    ) -> None:
        self.report = listener.report
        self.streams = streams
        self._listener = listener
        self._log = log
        self._limits = limits
        self._stop = stop
        self._heard = heard
        self._quiet_until = 0.0
        self._out = Ear(log, listener.hear, must_parse=streams)
        self._err = Ear(log, _stderr, must_parse=False)

    def out(self, data: bytes) -> None:
        self._tell(self._out.hear(data))
        if (why := beyond(self._limits, self.report.usage)) is not None:
            self._stop.because(RunStatus.FAILED, why)

    def err(self, data: bytes) -> None:
        self._tell(self._err.hear(data))

    @property
    def redactor(self) -> Redactor:
        return self._log.redactor

    def finish(self) -> None:
        self._out.finish()
        self._err.finish()
        self._log.write(self._listener.finish())

    @property
    def printed(self) -> str:
        return self._out.last.text

    @property
    def complained(self) -> str:
        return self._err.last.text

    def _tell(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if self._heard is None or not text or now < self._quiet_until:
            return
        self._quiet_until = now + HEARD_EVERY
        self._heard(for_people(self._log.redactor.text(text))[:LONGEST_HEARD])


def _stderr(line: str) -> Iterable[Event]:
    return ({"stream": "stderr", "text": line},)


def beyond(limits: Limits, usage: Usage) -> str | None:
    """The limit of a run that its usage has exceeded, in words."""
    if limits.tokens is not None and usage.tokens > limits.tokens:
        return f"it used {usage.tokens} tokens, and its limit is {limits.tokens} (budget tokens)"
    if limits.usd is not None and (usage.cost_usd or 0) > limits.usd:
        return f"it cost {usage.cost_usd:.2f} USD, and its limit is {limits.usd:g} (budget usd)"
    return None
