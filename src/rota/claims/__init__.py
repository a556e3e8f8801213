"""Claims on a tracker: they show everybody who works on an issue.

    from rota.claims import claim_issue, release_issue

    if claim_issue("ada/engine", 7, codename="lucius", firing_id="20260501-194217-643a"):
        ...  # work, open a pull request
        release_issue("ada/engine", 7, codename="lucius", firing_id="20260501-194217-643a",
                      transition_to="agent:pr-open", pr_url="https://github.com/ada/engine/pull/8")

The functions and names are those of `label-state`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.claims.comments import CLAIM_COMMENT_PREFIX as CLAIM_COMMENT_PREFIX
    from rota.claims.comments import RELEASE_COMMENT_PREFIX as RELEASE_COMMENT_PREFIX
    from rota.claims.labels import LIFECYCLE_LABELS as LIFECYCLE_LABELS
    from rota.claims.pauses import PAUSED_REPOS_FILE as PAUSED_REPOS_FILE
    from rota.claims.pauses import is_repo_paused as is_repo_paused
    from rota.claims.pauses import list_paused_repos as list_paused_repos
    from rota.claims.pauses import set_repo_paused as set_repo_paused
    from rota.claims.shortcuts import claim_issue as claim_issue
    from rota.claims.shortcuts import find_stale_claims as find_stale_claims
    from rota.claims.shortcuts import force_release_stale_claim as force_release_stale_claim
    from rota.claims.shortcuts import issue_dedup_check as issue_dedup_check
    from rota.claims.shortcuts import release_issue as release_issue

# Resolved on first access, so that reading a constant does not load the rest of the package.
_HOMES = {
    "rota.claims.comments": ("CLAIM_COMMENT_PREFIX", "RELEASE_COMMENT_PREFIX"),
    "rota.claims.labels": ("LIFECYCLE_LABELS",),
    "rota.claims.pauses": (
        "PAUSED_REPOS_FILE",
        "is_repo_paused",
        "list_paused_repos",
        "set_repo_paused",
    ),
    "rota.claims.shortcuts": (
        "claim_issue",
        "find_stale_claims",
        "force_release_stale_claim",
        "issue_dedup_check",
        "release_issue",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - the one list of names is above


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
