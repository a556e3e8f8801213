"""The doctor's checks of `rota.yaml` and of each source that it names."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from rota.cli.desks import run
from rota.cli.findings import FAIL, OK, WARN, Finding, failed
from rota.config import Settings
from rota.model.errors import InvalidInput, RotaError
from rota.model.schedules import SkipReason
from rota.surroundings import environ

if TYPE_CHECKING:
    from rota.claims.port import Tracker
    from rota.config.sources import AnySource, Forge
    from rota.model.schedules import ScheduleState
    from rota.sources.port import WorkSource

_PAGE = 1_000
_MOST_PROBLEMS = 20


def configuration(settings: Settings) -> Iterator[Finding]:
    from rota.app.sources import named_sources, read_fleet

    try:
        loaded = read_fleet(settings)
    except InvalidInput as error:
        yield Finding("configuration", FAIL, error.message, "correct the file")
        return
    agents = loaded.fleet.agents
    sources = named_sources(loaded, settings.config.absolute().parent)
    said = (
        f"{len(agents)} agent{'s' * (len(agents) != 1)},"
        f" {len(sources)} source{'s' * (len(sources) != 1)}"
        if settings.config.exists()
        else "it is not there; rota init writes one"
    )
    yield Finding("configuration", OK, f"{settings.config}: {said}")
    for warning in loaded.warnings:
        yield Finding("configuration", WARN, warning)
    if settings.state_dir.is_dir() or not settings.state_dir.exists():  # else another check says so
        yield _pauses(settings)
    for name, source in sources.items():
        yield from examine_source(name, source, settings)


def _pauses(settings: Settings) -> Finding:
    from rota.claims.pauses import FILE_NAME, PausedRepos

    try:
        names = PausedRepos(settings.state_dir / FILE_NAME).list()
    except RotaError as error:
        return Finding("paused repositories", FAIL, error.message, "mend or delete that file")
    return Finding("paused repositories", OK, ", ".join(names) or "none")


def examine_source(name: str, source: "AnySource", settings: Settings) -> list[Finding]:
    return run(_examined(f"source {name}", source, settings))


async def _examined(check: str, source: "AnySource", settings: Settings) -> list[Finding]:
    from rota.config.sources import Forge

    looks = _forge(source, settings) if isinstance(source, Forge) else _adapter(source, settings)
    findings: list[Finding] = []
    try:
        async for status, message, fix in looks:
            findings.append(Finding(check, status, message, fix))
    except RotaError as error:
        findings.append(failed(check, error))
    except Exception as error:  # noqa: BLE001 - whatever another package's adapter raises
        why = f"{type(error).__name__}: {error}"
        findings.append(Finding(check, FAIL, why, f"ask those who wrote the adapter {source.type}"))
    return findings


Look = tuple[str, str, str | None]


async def _forge(source: "Forge", settings: Settings) -> AsyncIterator[Look]:
    from rota.app import source_context
    from rota.sources.assembly import make_tracker
    from rota.sources.http.limits import RetryOptions

    if secret := _webhook(source):
        yield secret
    # Somebody waits, who can ask again.
    tracker = make_tracker(source, source_context(settings), {"retry": RetryOptions(max_retries=1)})
    try:
        async for look in _tracker(source, tracker):
            yield look
    finally:
        await tracker.aclose()


async def _tracker(source: "Forge", tracker: "Tracker") -> AsyncIterator[Look]:
    """Each step needs the one before it; the first failure ends the checks."""
    from rota.sources.github.tracker import GitHubTracker

    own = await tracker.account()
    yield OK, f"the token is that of {own.login} (account {own.id})", None
    if isinstance(tracker, GitHubTracker):
        scopes = await tracker.validate_token()
        yield OK, f"its scopes are {', '.join(scopes)}" if scopes else "it may write there", None
    public = await tracker.is_public()
    yield OK, f"{source.repo} is {'public' if public else 'private'}", None
    ready = await tracker.issues(labels=[source.labels.ready])
    yield OK, f"open issues with the label '{source.labels.ready}': {len(ready)}", None


def _webhook(source: "Forge") -> Look | None:
    name = source.webhook_secret_env
    if name is None:
        return None
    if not environ.get(name):
        return WARN, f"webhooks are refused: {name} is not set", f"set {name} to their secret"
    return OK, f"webhooks are checked with {name}", None


async def _adapter(source: "AnySource", settings: Settings) -> AsyncIterator[Look]:
    """For any other type: that it is known, and can be read without the ledger."""
    from rota.app import source_context
    from rota.sources.port import FetchOptions, close
    from rota.sources.registry import get_work_source

    if source.type == "queue":
        yield OK, "it is the ledger itself", None
        return
    adapter = get_work_source(source.model_dump(), source_context(settings))
    try:
        found = await adapter.fetch_available_work(FetchOptions(limit=1))
        problems = await _problems(adapter)
    finally:
        await close(adapter)
    yield OK, "it can be read" if found.items else "it can be read; nothing is available", None
    for message in problems[:_MOST_PROBLEMS]:
        yield FAIL, message, "correct the file; until then nobody is offered it"
    if len(problems) > _MOST_PROBLEMS:
        yield FAIL, f"and {len(problems) - _MOST_PROBLEMS} files more are not offered", None


async def _problems(adapter: "WorkSource") -> list[str]:
    """For a source that knows what it leaves out, and why."""
    tell = getattr(adapter, "problems", None)
    return [] if tell is None else [f"{one.name}: {one.message}" for one in await tell()]


def source_errors(database: str) -> Iterator[Finding]:
    """Schedules whose last look for work failed."""
    for one in run(_stuck(database)):
        name = f"{one.agent}/{one.name}"
        why = one.last_skip_detail or "its source could not be read"
        yield Finding(f"schedule {name}", FAIL, why, f"rota schedule show {name}")


async def _stuck(database: str) -> "list[ScheduleState]":
    from rota.app import open_ledger

    stuck: list[ScheduleState] = []
    after: tuple[str, str] | None = None
    async with open_ledger(database) as ledger:
        while page := await ledger.schedules.find(after=after, limit=_PAGE):
            stuck += [one for one in page if _is_stuck(one)]
            after = page[-1].agent, page[-1].name
    return stuck


def _is_stuck(one: "ScheduleState") -> bool:
    """Until it has looked again. A schedule that no server has in its configuration never will."""
    is_kept = one.enabled and (one.next_run_at is not None or not one.type.by_clock)
    is_last = one.last_skip_at is not None and one.last_skip_at == one.last_completed_at
    return is_kept and is_last and one.last_skip_reason is SkipReason.SOURCE_ERROR
