"""What commands do with an issue, shared by `rota issue` and `label-state`."""

from typing import TYPE_CHECKING, Any

from rota.cli.desks import at_issue
from rota.cli.text import one_line
from rota.model.errors import ClaimLost, TrackerError

if TYPE_CHECKING:
    from rota.claims.protocol import Grant, Refusal
    from rota.cli.session import Session
    from rota.sources.desk import Held, IssueDesk
    from rota.sources.operators import IssueStatus

_LEASE_SECONDS = 4 * 3600.0


def claim_as_person(session: "Session", issue: str, *, force: bool) -> None:
    from rota.claims.protocol import Refusal
    from rota.sources.operators import Operators

    async def deed(desk: "IssueDesk", number: int) -> "tuple[Grant | Refusal, str]":
        return await Operators(desk).claim(number, force=force), desk.tracker.repo

    answer, repo = at_issue(session, issue, deed)
    if isinstance(answer, Refusal):
        return _refused(session, issue, answer)
    return _claimed(session, _grant(repo, answer), f"rota issue release {repo}#{answer.number}")


def claim_as_agent(
    session: "Session", issue: str, *, agent: str, firing: str | None, lease: float | None
) -> None:
    from rota.claims.protocol import Refusal
    from rota.sources.claimants import Claimants

    async def deed(desk: "IssueDesk", number: int) -> "tuple[Held | Refusal, str]":
        held = await Claimants(desk).claim(
            number, agent, firing=firing, lease_seconds=lease or _LEASE_SECONDS
        )
        return held, desk.tracker.repo

    answer, repo = at_issue(session, issue, deed)
    if isinstance(answer, Refusal):
        return _refused(session, issue, answer)
    data = _grant(repo, answer.grant) | {"item": answer.item_id, "token": answer.token}
    end = f"rota issue release {repo}#{answer.grant.number} --agent {agent} [--pr URL]"
    keep = f"rota heartbeat {answer.item_id} --token {answer.token}"
    return _claimed(session, data, end, keep)


def _grant(repo: str, grant: "Grant") -> dict[str, Any]:
    return {
        "repo": repo,
        "number": grant.number,
        "claim": grant.claim_id,
        "codename": grant.claimant.codename,
        "firing_id": grant.claimant.firing_id,
    }


def _claimed(session: "Session", data: dict[str, Any], end: str, keep: str | None = None) -> None:
    session.output.facts(data, data.items())
    kept = f"keep it       {keep}\n" if keep else ""
    session.output.say(f"{kept}give it back  {end}")


def _refused(session: "Session", issue: str, refusal: "Refusal") -> None:
    if refusal.objection is None:
        raise TrackerError(refusal.message)
    message = f"{issue} cannot be claimed: {refusal.objection}"
    session.output.negative(None, str(refusal.objection.obstacle), message)


def release_as_person(session: "Session", issue: str, *, force: bool) -> None:
    from rota.sources.operators import Operators

    async def deed(desk: "IssueDesk", number: int) -> bool:
        return await Operators(desk).release(number, force=force)

    released = at_issue(session, issue, deed)
    words = "is given back" if released else "was not claimed by you; the hold is off"
    _said(session, issue, words, released=released)


def release_as_agent(session: "Session", issue: str, *, agent: str, **how: Any) -> None:
    from rota.sources.claimants import Claimants

    async def deed(desk: "IssueDesk", number: int) -> bool:
        return await Claimants(desk).release(number, agent, **how)

    if not at_issue(session, issue, deed):
        raise ClaimLost(f"'{agent}' does not hold {issue} (any more); nothing was changed")
    _said(session, issue, f"is not with {agent} any more", released=True)


def hold(session: "Session", issue: str) -> None:
    from rota.sources.operators import Operators

    at_issue(session, issue, lambda desk, number: Operators(desk).hold(number))
    _said(session, issue, "is held; agents stay away", held=True)


def unhold(session: "Session", issue: str) -> None:
    from rota.sources.operators import Operators

    at_issue(session, issue, lambda desk, number: Operators(desk).unhold(number))
    _said(session, issue, "is not held any more", held=False)


def approve(session: "Session", issue: str) -> None:
    from rota.sources.operators import Operators

    read = at_issue(session, issue, lambda desk, number: Operators(desk).approve(number))
    _said(session, issue, f"may be worked from as it stands: {read.title}", approved=True)


def reopen(session: "Session", issue: str) -> None:
    from rota.sources.operators import Operators

    reopened = at_issue(session, issue, lambda desk, number: Operators(desk).reopen(number))
    if not reopened:
        session.output.negative(
            {"issue": issue, "reopened": False}, "not_finished", f"{issue} was not finished"
        )
    _said(session, issue, "may be worked again", reopened=True)


def _said(session: "Session", issue: str, words: str, **data: Any) -> None:
    session.output.line({"issue": issue, **data}, f"{issue} {words}")


def status(session: "Session", issue: str) -> None:
    found = _status(session, issue)
    session.output.facts(found.as_dict(), _facts(found))


def dedup_check(session: "Session", issue: str) -> None:
    found = _status(session, issue)
    if not found.claimable:
        message = f"{issue} is not to be picked up: {found.message}"
        session.output.negative(found.as_dict(), found.reason or "", message)
    session.output.line(found.as_dict(), f"{issue} may be picked up")


def _status(session: "Session", issue: str) -> "IssueStatus":
    from rota.sources.operators import Operators

    return at_issue(
        session, issue, lambda desk, number: Operators(desk).status(number), only_looks=True
    )


def _facts(found: "IssueStatus") -> list[tuple[str, object]]:
    holder = found.holder
    return [
        ("issue", f"{found.repo}#{found.number}"),
        ("title", one_line(found.title)),
        ("url", found.url),
        ("state", found.state),
        ("labels", ", ".join(found.labels)),
        ("held by", f"{holder.get('codename')} (claim {holder['claim']})" if holder else None),
        ("suspected", "nobody has answered for it yet" if found.suspected else None),
        ("pull request", found.pr),
        ("paused", "the repository is paused" if found.repo_paused else None),
        ("claimable", "yes" if found.claimable else f"no: {found.message}"),
    ]
