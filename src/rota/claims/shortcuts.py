"""Claims for scripts: plain functions. The repository, configuration and database come from the
environment and the working directory.

They may be called within a running event loop, which is blocked until they return.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def claim_issue(repo: str, num: int, *, codename: str, firing_id: str) -> bool:
    """True: the issue is yours until `release_issue`, for four hours at most. The call takes ten
    seconds or so, because it waits until the claim is certain. Raises when the tracker fails."""
    return _done(_claim(repo, num, codename, firing_id))


def release_issue(
    repo: str,
    num: int,
    *,
    codename: str,
    firing_id: str,
    outcome: str = "success",
    transition_to: str | None = None,
    pr_url: str | None = None,
) -> bool:
    """False: the claim was no longer yours, and nothing was changed.

    With a pull request the issue goes to `agent:pr-open`; `transition_to` names another lifecycle
    label. Otherwise it is ready again, unless the outcome is "failure" or "partial".
    """
    return _done(
        _release(
            repo,
            num,
            codename=codename,
            firing=firing_id,
            outcome=outcome,
            transition_to=transition_to,
            pr=pr_url,
        )
    )


def issue_dedup_check(repo: str, num: int) -> dict[str, Any]:
    """The issue's state; `claimable` says whether an agent may take it, `reason` why not."""
    return _done(_status(repo, num))


def find_stale_claims(repo: str, *, max_age_hours: float = 4) -> list[dict[str, Any]]:
    """Claims of this fleet whose run is dead, and claims of other fleets that were silent for that
    long. Changes nothing."""
    return _done(_stale(repo, max_age_hours))


def force_release_stale_claim(
    repo: str,
    num: int,
    *,
    sweep_id: str,
    released_codename: str | None = None,
    released_firing_id: str | None = None,
) -> bool:
    """True when the claim has ended. A live claim is not ended. A claim of another fleet is first
    suspected (False); a later call ends it if nobody has answered within five minutes."""
    return _done(_end(repo, num, sweep_id, released_codename, released_firing_id))


async def _claim(repo: str, num: int, codename: str, firing_id: str) -> bool:
    from rota import app
    from rota.claims.protocol import Refusal

    async with app.open_claimants(repo) as claimants:
        answer = await claimants.claim(num, codename, firing=firing_id)
        return not isinstance(answer, Refusal)


async def _release(repo: str, num: int, **how: Any) -> bool:
    from rota import app

    async with app.open_claimants(repo) as claimants:
        return await claimants.release(num, **how)


async def _status(repo: str, num: int) -> dict[str, Any]:
    from rota import app

    async with app.open_operators(repo) as operators:
        return (await operators.status(num)).as_dict()


async def _stale(repo: str, max_age_hours: float) -> list[dict[str, Any]]:
    from rota import app

    async with app.open_stale_claims(repo) as stale:
        return await stale.found(max_age_hours)


async def _end(
    repo: str, num: int, sweep_id: str, codename: str | None, firing_id: str | None
) -> bool:
    from rota import app

    async with app.open_stale_claims(repo) as stale:
        return await stale.end(num, by=sweep_id, codename=codename, firing=firing_id)


def _done(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(asyncio.run, work).result()
