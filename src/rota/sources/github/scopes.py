"""Checks that a token may read and write issues."""

from collections.abc import Mapping
from typing import Any

from rota.sources.github.errors import GitHubAuthError
from rota.sources.http.answers import Answer

REQUIRED = "repo"
ENOUGH_FOR_PUBLIC = "public_repo"

_WRITERS = ("admin", "maintain", "push", "triage")


def scopes_of(answer: Answer) -> tuple[str, ...] | None:
    """None: a fine-grained token or one of an app, which have permissions instead of scopes."""
    told = answer.headers.get("x-oauth-scopes")
    if told is None:
        return None
    return tuple(scope.strip() for scope in told.split(",") if scope.strip())


def lack_of_rights(
    scopes: tuple[str, ...] | None, repository: Mapping[str, Any], variable: str
) -> GitHubAuthError | None:
    if scopes is None:
        return _lack_of_permissions(repository, variable)
    return lack_of_scopes(scopes, variable, public=not repository["private"])


def lack_of_scopes(
    scopes: tuple[str, ...] | None, variable: str, *, public: bool = False
) -> GitHubAuthError | None:
    if scopes is None or REQUIRED in scopes or (public and ENOUGH_FOR_PUBLIC in scopes):
        return None
    or_less = f" (`{ENOUGH_FOR_PUBLIC}` is enough for a public repository)" if public else ""
    return GitHubAuthError(
        f"the token in {variable} has the scopes {', '.join(scopes) or 'none'} and lacks"
        f" `{REQUIRED}`{or_less}; add it in GitHub's settings, or make a new token",
        found_scopes=scopes,
        required_scopes=(REQUIRED,),
    )


def _lack_of_permissions(repository: Mapping[str, Any], variable: str) -> GitHubAuthError | None:
    """For an app the list shows nothing granted, whatever it may do. Any other account that can
    read sees at least `pull`."""
    granted = repository.get("permissions") or {}
    if not granted.get("pull") or any(granted.get(name) for name in _WRITERS):
        return None
    return GitHubAuthError(
        f"the token in {variable} may read {repository['full_name']} but not write to it; give its"
        " account the role Triage or Write there"
    )
