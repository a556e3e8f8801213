"""Finds missing token rights where a tracker only answers "not found".

GitHub answers "not found" to a classic token without the scope, even for issues that anybody can
see in a browser. A second request tells the reason.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rota.claims.port import Tracker
from rota.model.errors import IssueNotFound, WorkSourceError
from rota.sources.github.tracker import GitHubTracker
from rota.sources.http.errors import ApiError, TokenError


@asynccontextmanager
async def explained(tracker: Tracker) -> AsyncIterator[None]:
    """Replaces "not found" or "forbidden" by the missing scopes, if they are the reason."""
    try:
        yield
    except (IssueNotFound, ApiError) as error:
        lack = await missing_scopes(tracker) if _may_be_hidden(error) else None
        if lack is None:
            raise
        raise lack from error


async def missing_scopes(tracker: Tracker) -> TokenError | None:
    """None when they suffice, or when the tracker does not tell."""
    if not isinstance(tracker, GitHubTracker):
        return None
    try:
        await tracker.validate_token()
    except TokenError as lack:
        return lack if lack.missing_scopes else None
    except WorkSourceError:
        return None
    return None


def _may_be_hidden(error: IssueNotFound | ApiError) -> bool:
    if isinstance(error, ApiError):
        return error.is_not_found() or error.is_permission_denied()
    return True
