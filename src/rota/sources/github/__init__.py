"""GitHub as a tracker: its issues, labels, comments and references."""

from typing import TYPE_CHECKING, Any

from rota.sources.github.errors import GitHubAPIError, GitHubAuthError
from rota.sources.github.mapping import infer_priority
from rota.sources.github.tracker import GitHubTracker
from rota.sources.http.limits import (
    RateLimitInfo,
    RateLimitWarningOptions,
    RetryOptions,
    calculate_backoff_delay,
    extract_rate_limit_info,
    is_rate_limit_response,
)
from rota.sources.http.wire import Timeouts

if TYPE_CHECKING:
    from rota.sources.forge import GitHubWorkSource

__all__ = [
    "GitHubAPIError",
    "GitHubAuthError",
    "GitHubTracker",
    "GitHubWorkSource",
    "RateLimitInfo",
    "RateLimitWarningOptions",
    "RetryOptions",
    "Timeouts",
    "calculate_backoff_delay",
    "extract_rate_limit_info",
    "infer_priority",
    "is_rate_limit_response",
]


def __getattr__(name: str) -> Any:
    """Resolved on first access: the work source imports this package."""
    if name != "GitHubWorkSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rota.sources.forge import GitHubWorkSource  # noqa: PLC0415

    return GitHubWorkSource
