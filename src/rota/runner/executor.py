"""Runs agents on this machine."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rota.model.clock import Clock
from rota.model.errors import InvalidInput, RotaError
from rota.model.runs import RunEnd, RunStatus
from rota.model.work import storable
from rota.runner.addresses import Allowed
from rota.runner.conclusion import conclude
from rota.runner.environment import ITEM_FILE, RESULT_FILE, environment
from rota.runner.execution import Finished, Order, Stop, Stopped, run_program, unbroken
from rota.runner.git import NeverOurTurn
from rota.runner.hearing import Hearing
from rota.runner.hooks import Hooks, Surroundings
from rota.runner.logs import RunLog
from rota.runner.port import RunRequest
from rota.runner.process import Nursery, Program
from rota.runner.redaction import Redactor
from rota.runner.results import Told, read_result
from rota.runner.runtimes import RUNTIMES
from rota.runner.runtimes.sessions import is_gone
from rota.runner.scratch import Scratch
from rota.runner.supervisor import GRACE
from rota.runner.workspace import Place, Workspaces, worktrees_in

if TYPE_CHECKING:
    import httpx2

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ELSEWHERE = Place(Path("/"))  # where hooks run if the run has no directory


class LocalRunner:
    """Implements `Runner`. Close it when no more runs will come.

    `directory` is private to the server (its state directory): scratch files and worktrees are
    there, and the processes of its runs carry its path. `environ` is the server's. `allowed_hosts`
    are names and networks (CIDR) that webhooks may reach although they are not on the public
    internet. `secret_names` returns the variables that hold secrets although their names do not
    show it; it is called for each run.
    """

    def __init__(
        self,
        directory: Path,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        grace: float = GRACE,
        allowed_hosts: Collection[str] = (),
        secret_names: Callable[[], frozenset[str]] = frozenset,
        transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        self._directory = directory.resolve()
        self._environ = environ
        self._clock = clock
        self._grace = grace
        self._allowed = Allowed.of(allowed_hosts)
        self._transport = transport
        self._secret_names = secret_names
        self._nursery = Nursery()
        self._workspaces = Workspaces(worktrees_in(self._directory), environ)

    def close(self) -> None:
        self._nursery.close()

    async def execute(self, request: RunRequest) -> RunEnd:
        settings = request.settings
        secrets = Redactor(self._environ, names=self._secret_names())
        servers = settings.mcp_servers.values()
        redactor = secrets.knowing(
            settings.env, request.environ, *(one.get("env", {}) for one in servers)
        )
        log = RunLog(request.log, settings.output_limit, redactor, self._clock)
        try:
            log.open()
        except OSError as error:
            return RunEnd(RunStatus.FAILED, error=f"its log cannot be written: {error}")
        with log:
            end = await self._execute(request, log)
        return _for_keeping(end, redactor)

    async def _execute(self, request: RunRequest, log: RunLog) -> RunEnd:
        place, status = _ELSEWHERE, RunStatus.CANCELLED
        try:
            try:
                _demand_id(request.run_id)
                place = await self._prepared(request, log)
                end = await self._resume(request, place, log)
            except NeverOurTurn as error:
                _, late = _patience(request)
                end = RunEnd(late.status, error=f"{late.why}, and has not begun: {error}")
            except (RotaError, OSError) as error:
                end = RunEnd(RunStatus.FAILED, error=_words(error))
            if end.error:
                log.say(end.error, type="error")
            end = await Hooks(request, log, self._surroundings(place)).run(end)
            status = end.status
        finally:
            await unbroken(self._leave(place, request, status, log))
        return end

    async def _prepared(self, request: RunRequest, log: RunLog) -> Place:
        seconds, _ = _patience(request)
        return await self._workspaces.prepare(
            request.run_id, request.settings, seconds, lambda why: log.say(why, type="warning")
        )

    async def _resume(self, request: RunRequest, place: Place, log: RunLog) -> RunEnd:
        """Programs forget sessions, and some know them only in the directory where they began. The
        run then begins a new session."""
        end = await self._run(request, place, log)
        if request.session_id is None or not is_gone(end):
            return end
        log.say(f"{end.error}; it begins a new session", type="warning")
        return await self._run(replace(request, session_id=None), place, log)

    async def _run(self, request: RunRequest, place: Place, log: RunLog) -> RunEnd:
        runtime = RUNTIMES[request.settings.runtime]
        stop = Stop()
        hearing = Hearing(
            runtime.listener(),
            log,
            streams=runtime.streams,
            limits=request.limits,
            stop=stop,
            heard=request.heard,
        )
        request.meter.reading = hearing.report
        with Scratch.of(self._directory, request.run_id) as scratch:
            launch = runtime.launch(request, scratch)
            for note in launch.notes:
                log.say(note, type="warning")
            env = environment(request, self._environ, self._directory, _files(request, scratch))
            program = Program(launch.argv, place.directory, env, self._grace)
            order = _order(request, program, launch.stdin, hearing)
            try:
                finished = await run_program(self._nursery, order, stop)
            finally:
                hearing.finish()
            _note_survivors(finished, log)
            told = _told(scratch.result, log)
        return conclude(finished, hearing, told, request.limits, self._clock.now())

    def _surroundings(self, place: Place) -> Surroundings:
        return Surroundings(
            nursery=self._nursery,
            environ=self._environ,
            root=self._directory,
            place=place.directory,
            allowed=self._allowed,
            grace=self._grace,
            transport=self._transport,
        )

    async def _leave(
        self, place: Place, request: RunRequest, status: RunStatus, log: RunLog
    ) -> None:
        if place.worktree is None:
            return
        try:
            if self._workspaces.keeps(place, request.settings, status):
                log.say(f"its worktree is kept: {place.worktree}", type="worktree")
                return
        except OSError as error:  # a full disk; the end of the run is worth more than the mark
            why = f"its worktree is kept only until the next start, for want of a mark: {error}"
            log.say(why, type="warning")
            return
        try:
            removed = await self._workspaces.remove(place, request.agent)
        except (RotaError, OSError) as error:
            log.say(f"its worktree could not be removed: {error}", type="warning")
            return
        if removed is not None and removed.ref is not None:
            kind = "ref" if removed.ref.startswith("refs/") else "branch"
            log.say(f"its commits are kept on the {kind} {removed.ref}", type="worktree")


def _demand_id(run_id: str) -> None:
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidInput(f"{run_id[:60]!r} is not the id of a run")


def _order(request: RunRequest, program: Program, stdin: bytes, hearing: Hearing) -> Order:
    seconds, late = _patience(request)
    return Order(program, stdin, hearing.out, hearing.err, seconds, late)


def _patience(request: RunRequest) -> tuple[float, Stopped]:
    """How many seconds it may take, and the reason for ending it when it takes longer."""
    seconds = request.settings.timeout.total_seconds()
    late = Stopped(RunStatus.TIMED_OUT, f"it ran longer than its timeout of {seconds:g} s")
    limit = request.limits.wall_time
    if limit is not None and limit.total_seconds() < seconds:
        seconds = limit.total_seconds()
        why = f"it ran longer than its limit of {seconds:g} s (budget wall_time)"
        late = Stopped(RunStatus.FAILED, why)
    return seconds, late


def _files(request: RunRequest, scratch: Scratch) -> dict[str, Path]:
    """The files that the agent may read and write, by the variables that name them."""
    files = {RESULT_FILE: scratch.result}
    if request.context.get("item") is not None:
        content = json.dumps(request.context["item"], ensure_ascii=False, default=str)
        files[ITEM_FILE] = scratch.write("item.json", content.encode(errors="replace"))
    return files


def _told(path: Path, log: RunLog) -> Told | None:
    try:
        return read_result(path, log.redactor)
    except InvalidInput as error:
        log.say(f"{error.message}; it is ignored", type="warning")
        return None


def _words(error: RotaError | OSError) -> str:
    return error.message if isinstance(error, RotaError) else f"it could not be prepared: {error}"


def _note_survivors(finished: Finished, log: RunLog) -> None:
    if finished.left:
        pids = ", ".join(map(str, finished.left))
        log.say(f"these processes could not be killed: {pids}", type="warning")


def _for_keeping(end: RunEnd, redactor: Redactor) -> RunEnd:
    """Without secrets, and without characters that no database can hold: the agent's words must not
    cost the end of a run. Such characters go first, because one may have split a secret."""

    def clean(text: str) -> str:
        return redactor.text(storable(text))

    return replace(
        end,
        summary=clean(end.summary),
        error=clean(end.error) if end.error else None,
        artifacts=tuple(clean(one) for one in end.artifacts),
        hook_errors=tuple(clean(one) for one in end.hook_errors),
    )
