"""Hooks: tell programs and web addresses how a run ended."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.model.errors import InvalidInput, RotaError
from rota.model.fleet import Hook
from rota.model.runs import RunEnd, RunStatus
from rota.runner.addresses import Allowed
from rota.runner.environment import inherited
from rota.runner.execution import Finished, Order, Stop, run_program
from rota.runner.logs import RunLog
from rota.runner.orphans import RUN_ID, RUN_ROOT
from rota.runner.output import LastWords
from rota.runner.port import RunRequest
from rota.runner.process import Nursery, Program
from rota.runner.results import ended_by

if TYPE_CHECKING:
    import httpx2

LONGEST_WORDS = 2000
_ERRORS = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What hooks need from the server."""

    nursery: Nursery
    environ: Mapping[str, str]
    root: Path
    place: Path  # the run's working directory
    allowed: Allowed
    grace: float
    transport: "httpx2.AsyncBaseTransport | None" = None


class Hooks:
    """The hooks of one run."""

    def __init__(self, request: RunRequest, log: RunLog, here: Surroundings) -> None:
        self._request = request
        self._log = log
        self._here = here

    async def run(self, end: RunEnd) -> RunEnd:
        """One after the other. A failure is recorded; it changes the result only where
        configured."""
        due = list(self._due(end))
        if not due:
            return end
        body = json.dumps(self._log.redactor.value(self._told(end)), default=str).encode()
        for hook, event in due:
            try:
                await self._tell(hook, event, body)
            except (RotaError, OSError) as error:
                said = f"hook {hook.name}: {self._log.redactor.text(str(error))}"
                self._log.say(said, type="hook_error")
                end = _marked(end, hook, said)
        return end

    def _due(self, end: RunEnd) -> Iterator[tuple[Hook, str]]:
        settings = self._request.settings
        lists = {"after_run": settings.after_run}
        if end.status in _ERRORS:
            lists["on_error"] = settings.on_error
        for event, hooks in lists.items():
            for hook in hooks:
                if not hook.when or end.status in hook.when:
                    yield hook, event

    def _told(self, end: RunEnd) -> dict[str, Any]:
        run = asdict(end)
        del run["hook_errors"]
        return {
            "run_id": self._request.run_id,
            "agent": self._request.agent,
            "context": dict(self._request.context),
            "run": run,
        }

    async def _tell(self, hook: Hook, event: str, body: bytes) -> None:
        here = self._here
        if hook.url is not None:
            # Loaded only for agents with a webhook.
            from rota.runner.webhooks import post  # noqa: PLC0415

            await post(hook, body, environ=here.environ, allowed=here.allowed, via=here.transport)
        elif hook.command:
            await self._call(hook, hook.command, event, body)
        else:
            raise InvalidInput("it has neither a command nor a url")

    async def _call(
        self, hook: Hook, command: tuple[str, ...] | str, event: str, body: bytes
    ) -> None:
        """A command line goes to the shell as its author wrote it. Facts about the run are on
        stdin, and never in the line."""
        argv = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        words = LastWords(LONGEST_WORDS, self._log.redactor)
        order = Order(
            program=Program(argv, self._here.place, self._environ(event), self._here.grace),
            stdin=body,
            out=words.hear,
            err=words.hear,
            seconds=hook.timeout.total_seconds(),
        )
        finished = await run_program(self._here.nursery, order, Stop())
        if said := words.finish():
            self._log.say(said, type="hook", hook=hook.name)
        if (why := _failure(finished, said)) is not None:
            raise InvalidInput(why)

    def _environ(self, event: str) -> dict[str, str]:
        settings = self._request.settings
        return {
            **inherited(self._here.environ, settings.env_pass),
            **settings.env,
            "ROTA_HOOK_EVENT": event,
            "ROTA_AGENT": self._request.agent,
            RUN_ID: self._request.run_id,
            RUN_ROOT: str(self._here.root),
        }


def _failure(finished: Finished, said: str) -> str | None:
    if finished.stopped is not None:
        return finished.stopped.why
    if finished.exit_code == 0:
        return None
    return ended_by(finished.exit_code) + (f": {said[-500:]}" if said else "")


def _marked(end: RunEnd, hook: Hook, said: str) -> RunEnd:
    end = replace(end, hook_errors=(*end.hook_errors, said))
    if hook.continue_on_error or end.status in _ERRORS:
        return end
    return replace(end, status=RunStatus.FAILED, error=end.error or said)
