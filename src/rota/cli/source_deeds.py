"""Taking items from a source for an agent, and giving them back."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rota.cli.desks import refuse_url, run
from rota.cli.source_choice import choose
from rota.cli.text import lines, one_line
from rota.model.clock import to_text
from rota.model.errors import ClaimLost, Forbidden, InvalidInput, TrackerError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.config.sources import AnySource
    from rota.queue.ledger import Ledger
    from rota.sources.desk import IssueDesk
    from rota.sources.holding import Sourced
    from rota.sources.manager import NextWorkItem, WorkSourceManager
    from rota.sources.port import ClaimResult, ReleaseResult

T = TypeVar("T")

MOST_TOLD = 5
# Only the process that made such a claim keeps it alive, and this one ends at once.
_SHORT_LIVED = ("markdown", "memory")


@dataclass(frozen=True)
class Errand:
    """An agent at its source, with the ledger at hand."""

    who: "Sourced"
    manager: "WorkSourceManager"
    ledger: "Ledger"


async def _held_back(errand: Errand) -> list[str]:
    """Why the source offers nothing, in a few lines."""
    adapter = await errand.manager.get_adapter(errand.who)
    tell = getattr(adapter, "held_back", None)
    found: list[str] = [] if tell is None else await tell()
    more = [f"and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else []
    return [*found[:MOST_TOLD], *more]


def next_item(
    session: "Session", name: str, agent: str, *, claim: bool, prompt: str | None
) -> None:
    source = choose(session, name)
    if claim and source.type in _SHORT_LIVED:
        raise InvalidInput(
            f"a claim on {name} ends with the process that made it, so it cannot be made from here;"
            " look with --no-claim"
        )

    async def deed(errand: Errand) -> "tuple[NextWorkItem, str | None, list[str]]":
        found = await errand.manager.get_next_work_item(errand.who, auto_claim=claim)
        if claim and not found.claimed and found.claim_result is not None:
            await _raise_refusal(errand, found.claim_result)
        told = found.item is not None and (found.claimed or not claim) and prompt is not None
        text = await _prompt(errand, found, prompt) if told else None
        return found, text, await _held_back(errand) if found.item is None else []

    found, told, held_back = _sent(session, agent, source, deed)
    if found.item is None:
        message = "\n".join([f"nothing is ready for {agent} in {name}", *held_back])
        session.output.negative(None, "nothing_ready", message)
    elif claim and not found.claimed:
        why = found.claim_result
        reason = str(why.reason) if why and why.reason else "not_claimed"
        message = f"{found.item.id} could not be claimed: {why.message if why else ''}"
        session.output.negative(None, reason, message)
    else:
        _show(session, found, told)


async def _raise_refusal(errand: Errand, refused: "ClaimResult") -> None:
    """A refusal that no other candidate would have changed is an error, not an answer."""
    from rota.sources.port import ClaimFailureReason
    from rota.sources.rights import missing_scopes

    desk, message = await _desk(errand), refused.message or str(refused.reason)
    hidden = (ClaimFailureReason.NOT_FOUND, ClaimFailureReason.PERMISSION_DENIED)
    if desk is not None and refused.reason in hidden:
        lack = await missing_scopes(desk.tracker)
        if lack is not None:
            raise lack
    if refused.reason is ClaimFailureReason.SOURCE_ERROR:
        raise TrackerError(message)
    denied = refused.reason is ClaimFailureReason.PERMISSION_DENIED
    if denied and await _may_work(errand):
        raise Forbidden(message)


async def _may_work(errand: Errand) -> bool:
    """False if we turned the agent away ourselves: it is paused, or has no free slot."""
    loads = await errand.ledger.views.agents()
    ours = [load for load in loads if load.agent.name == errand.who.name]
    return not any(
        load.agent.paused or load.in_progress >= load.agent.max_concurrent for load in ours
    )


async def _desk(errand: Errand) -> "IssueDesk | None":
    from rota.sources.forge import ForgeWorkSource

    adapter = await errand.manager.get_adapter(errand.who)
    return await adapter.desk() if isinstance(adapter, ForgeWorkSource) else None


async def _prompt(errand: Errand, found: "NextWorkItem", prompt: str | None) -> str:
    from rota.prompts import full_prompt
    from rota.sources.holding import notes_so_far

    notes = await notes_so_far(errand.ledger, _ledger_id(found))
    return full_prompt(prompt, found.item, notes, trusted=await _is_trusted(errand))


def _ledger_id(found: "NextWorkItem") -> str | None:
    """An item that was not claimed has a ledger id only if it comes from the ledger."""
    if found.claim_result is not None:
        return found.claim_result.ledger_id
    item = found.item
    return item.external_id if item is not None and item.source == "queue" else None


async def _is_trusted(errand: Errand) -> bool:
    """Our own ledger and folders are trusted. A repository is if strangers cannot write there. For
    a source from another package nobody can say."""
    from rota.runner.telling import OUR_OWN

    desk = await _desk(errand)
    if desk is not None:
        return not (await desk.keeper.gate.is_required() or await desk.tracker.is_public())
    return (errand.who.work_source or {}).get("type") in OUR_OWN


def _show(session: "Session", found: "NextWorkItem", prompt: str | None) -> None:
    item, claim = found.item, found.claim_result
    if item is None:
        raise AssertionError("there is an item to be shown")
    ledger_id, token = (claim.ledger_id, claim.token) if claim else (None, None)
    name = claim.claim if claim else None
    times = {"created_at": to_text(item.created_at), "updated_at": to_text(item.updated_at)}
    data = {
        "item": asdict(item) | times,
        "claimed": found.claimed,
        "ledger_id": ledger_id,
        "token": token,
        "claim": name,
        "number": claim.number if claim else None,
        "prompt": prompt,
    }
    facts = [
        ("item", item.id),
        ("ledger id", ledger_id),
        ("token", token),
        ("claim", name),
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

    async def deed(errand: Errand) -> None:
        await errand.manager.report_outcome(item, ended, agent=errand.who)

    _sent(session, agent, choose(session, name), deed)
    _said(session, item, f"is reported: {ended.outcome}", outcome=ended.outcome)


def release(
    session: "Session",
    name: str,
    item: str,
    agent: str,
    *,
    claim: str | None,
    reason: str | None,
    comment: bool,
) -> None:
    async def deed(errand: Errand) -> "ReleaseResult":
        return await errand.manager.release_work_item(
            item, agent=errand.who, reason=reason, add_comment=comment, claim=claim
        )

    answer = _sent(session, agent, choose(session, name), deed)
    if not answer.success or answer.message:
        raise ClaimLost(answer.message or f"{agent} does not hold {item}")
    _said(session, item, "is given back", released=True)


def _said(session: "Session", item: str, words: str, **data: Any) -> None:
    session.output.line({"item": item, **data}, f"{item} {words}")


def _sent(
    session: "Session", agent: str, source: "AnySource", deed: Callable[[Errand], Awaitable[T]]
) -> T:
    from rota.model.work import check_name
    from rota.sources.holding import Sourced

    refuse_url(session)
    who = Sourced(check_name(agent, "agent"), source.model_dump())

    async def done() -> T:
        from rota.app import open_ledger, source_context
        from rota.sources.manager import WorkSourceManager

        async with (
            open_ledger(session.settings.database) as ledger,
            WorkSourceManager(source_context(session.settings, ledger)) as manager,
        ):
            return await deed(Errand(who, manager, ledger))

    return run(done())
