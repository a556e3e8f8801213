"""What the commands about sources do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.cli.desks import refuse_url
from rota.cli.ending import NEGATIVE
from rota.cli.findings import FAIL, show
from rota.cli.source_choice import Worker, choose, configured, worker
from rota.cli.text import lines, one_line
from rota.model.errors import ClaimLost, Forbidden, TrackerError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.sources import AnySource
    from rota.model.sources import SourceState
    from rota.sources.manager import NextWorkItem, WorkSourceManager
    from rota.sources.port import ClaimResult, WorkItem

T = TypeVar("T")


# how they stand


def states(session: "Session") -> list[dict[str, Any]]:
    sources = configured(session)
    known = {state.source: state for state in asyncio.run(_states(session))} if sources else {}
    return [_row(source, known) for source in sources]


async def _states(session: "Session") -> "list[SourceState]":
    from rota.app import open_ledger

    async with open_ledger(session.settings.database) as ledger:
        return await ledger.outside.states()


def _row(source: "AnySource", known: "Mapping[str, SourceState]") -> dict[str, Any]:
    from rota.config.fleet import source_name
    from rota.config.sources import Forge, MarkdownSource

    row: dict[str, Any] = {"name": source_name(source), "type": source.type}
    place = source.repo if isinstance(source, Forge) else None
    if isinstance(source, MarkdownSource):
        place = source.path
    mode = source.claim_mode if isinstance(source, Forge) else None
    found = known.get(f"{_kind(source)}:{place}") if mode else None
    return row | {"place": place, "claim_mode": mode} | _state(found, polled=mode is not None)


def _kind(source: "AnySource") -> str:
    return "gitea" if source.type == "forgejo" else source.type  # one adapter serves both


def _state(found: "SourceState | None", *, polled: bool) -> dict[str, Any]:
    fields = ("polled_at", "poll_error", "swept_at", "warning", "settle_seconds", "requests")
    limits = ("rate_remaining", "rate_limit", "rate_reset_at")
    told = {name: getattr(found, name, None) for name in (*fields, *limits)}
    if told["poll_error"]:
        word = "error"
    elif found is None:
        word = "not polled yet" if polled else ""
    else:
        word = "warning" if told["warning"] else "ok"
    return {"state": word, **told, "note": told["poll_error"] or told["warning"]}


def check(session: "Session", name: str | None) -> None:
    from rota.cli.source_checks import examine_source

    sources = configured(session) if name is None else [choose(session, name)]
    if not sources:
        raise click.UsageError("rota.yaml names no source; name one: TYPE:OWNER/REPO")
    findings = [one for source in sources for one in examine_source(source, session.settings)]
    if session.as_json:
        session.output.document([one.told() for one in findings])
    else:
        show(findings)
    if any(one.status == FAIL for one in findings):
        raise click.exceptions.Exit(NEGATIVE)


# work


def next_item(
    session: "Session", name: str, agent: str, *, claim: bool, prompt: str | None
) -> None:
    source = choose(session, name)

    async def deed(manager: "WorkSourceManager", who: Worker) -> "tuple[NextWorkItem, str | None]":
        found = await manager.get_next_work_item(who, auto_claim=claim)
        if claim and not found.claimed and found.claim_result is not None:
            await _raise_refusal(manager, who, found.claim_result)
        told = found.item is not None and (found.claimed or not claim) and prompt is not None
        return found, await _prompt(manager, who, found.item, prompt) if told else None

    found, told = _with_manager(session, worker(agent, source), deed)
    if found.item is None:
        session.output.negative(None, "nothing_ready", f"nothing is ready for {agent} in {name}")
    elif claim and not found.claimed:
        why = found.claim_result
        reason = str(why.reason) if why and why.reason else "not_claimed"
        message = f"{found.item.id} could not be claimed: {why.message if why else ''}"
        session.output.negative(None, reason, message)
    else:
        _show(session, found, told)


async def _raise_refusal(manager: "WorkSourceManager", who: Worker, refused: "ClaimResult") -> None:
    """What no other candidate would have changed is an error, not an answer."""
    from rota.sources.forge import ForgeWorkSource
    from rota.sources.port import ClaimFailureReason
    from rota.sources.rights import missing_scopes

    adapter = await manager.get_adapter(who)
    if isinstance(adapter, ForgeWorkSource) and refused.reason in (
        ClaimFailureReason.NOT_FOUND,
        ClaimFailureReason.PERMISSION_DENIED,
    ):
        lack = await missing_scopes((await adapter.desk()).tracker)
        if lack is not None:
            raise lack
    message = refused.message or str(refused.reason)
    if refused.reason is ClaimFailureReason.PERMISSION_DENIED:
        raise Forbidden(message)
    if refused.reason is ClaimFailureReason.SOURCE_ERROR:
        raise TrackerError(message)


async def _prompt(
    manager: "WorkSourceManager", who: Worker, item: "WorkItem | None", prompt: str | None
) -> str:
    from rota.prompts import build_prompt

    return build_prompt(prompt, item, trusted=await _is_trusted(manager, who))


async def _is_trusted(manager: "WorkSourceManager", who: Worker) -> bool:
    """Our own ledger and folders are; a repository is when strangers cannot write there; of a
    source that another package brings, nobody can say."""
    from rota.sources.forge import ForgeWorkSource

    adapter = await manager.get_adapter(who)
    if isinstance(adapter, ForgeWorkSource):
        desk = await adapter.desk()
        return not (await desk.keeper.gate.is_required() or await desk.tracker.is_public())
    return who.work_source["type"] in ("queue", "markdown", "memory")


def _show(session: "Session", found: "NextWorkItem", prompt: str | None) -> None:
    item, claim = found.item, found.claim_result
    if item is None:
        raise AssertionError("there is an item to be shown")
    ledger_id, token = (claim.ledger_id, claim.token) if claim else (None, None)
    data = {
        "item": asdict(item) | {"created_at": str(item.created_at), "updated_at": str(item.updated_at)},
        "claimed": found.claimed,
        "ledger_id": ledger_id,
        "token": token,
        "prompt": prompt,
    }  # fmt: skip
    facts = [
        ("item", item.id),
        ("ledger id", ledger_id),
        ("token", token),
        ("priority", item.priority.name.lower()),
        ("labels", ", ".join(item.labels)),
        ("url", item.url),
        ("title", one_line(item.title)),
    ]
    session.output.facts(data, facts)
    if prompt is not None and not session.as_json:
        print(f"\n{lines(prompt)}")


def report(session: "Session", name: str, item: str, agent: str, result: Mapping[str, Any]) -> None:
    from rota.sources.port import WorkResult

    ended = WorkResult(**{**result, "artifacts": tuple(result["artifacts"])})

    async def deed(manager: "WorkSourceManager", who: Worker) -> None:
        await manager.report_outcome(item, ended, agent=who)

    _with_manager(session, worker(agent, choose(session, name)), deed)
    _said(session, item, f"is reported: {ended.outcome}", outcome=ended.outcome)


def release(
    session: "Session", name: str, item: str, agent: str, *, reason: str | None, comment: bool
) -> None:
    async def deed(manager: "WorkSourceManager", who: Worker) -> tuple[bool, str | None]:
        answer = await manager.release_work_item(
            item, agent=who, reason=reason, add_comment=comment
        )
        return answer.success, answer.message

    released, message = _with_manager(session, worker(agent, choose(session, name)), deed)
    if not released:
        raise ClaimLost(message or f"{agent} does not hold {item}")
    _said(session, item, message or "is given back", released=True)


def _said(session: "Session", item: str, words: str, **data: Any) -> None:
    if session.as_json:
        session.output.document({"item": item, **data})
    else:
        print(one_line(f"{item} {words}"))


def _with_manager(
    session: "Session",
    who: Worker,
    deed: "Callable[[WorkSourceManager, Worker], Awaitable[T]]",
) -> T:
    from rota.model.work import check_name

    refuse_url(session)
    check_name(who.name, "agent")

    async def done() -> T:
        async with _manager(session) as manager:
            return await deed(manager, who)

    return asyncio.run(done())


@asynccontextmanager
async def _manager(session: "Session") -> "AsyncIterator[WorkSourceManager]":
    from rota.app import open_ledger, source_context
    from rota.sources.manager import WorkSourceManager

    async with (
        open_ledger(session.settings.database) as ledger,
        WorkSourceManager(source_context(session.settings, ledger)) as manager,
    ):
        yield manager
