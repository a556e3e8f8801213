"""GitHub as a tracker: its issues, labels, comments and references."""

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

__all__ = [
    "GitHubAPIError",
    "GitHubAuthError",
    "GitHubTracker",
    "RateLimitInfo",
    "RateLimitWarningOptions",
    "RetryOptions",
    "Timeouts",
    "calculate_backoff_delay",
    "extract_rate_limit_info",
    "infer_priority",
    "is_rate_limit_response",
]
