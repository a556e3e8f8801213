"""Refusals and failures of a tracker's API, below the tree of `rota.model.errors`.

WorkSourceError
├── TokenError        the token is missing, not accepted, or lacks rights
└── TrackerError
    └── ApiError      the API refused, failed, or could not be reached (`status_code` is None)
"""

from collections.abc import Sequence
from datetime import datetime

from rota.model.clock import to_text
from rota.model.errors import TrackerError, WorkSourceError
from rota.sources.http.limits import RateLimitInfo


class ApiError(TrackerError):
    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        endpoint: str | None = None,
        rate_limit_info: RateLimitInfo | None = None,
        rate_limit_reset: datetime | None = None,
        is_rate_limit_error: bool = False,
        has_moved: bool = False,
    ) -> None:
        told = {
            "status_code": status_code,
            "endpoint": endpoint,
            "rate_limit_reset": rate_limit_reset and to_text(rate_limit_reset),
        }
        super().__init__(message, **{name: value for name, value in told.items() if value})
        self.status_code = status_code
        self.endpoint = endpoint
        self.rate_limit_info = rate_limit_info
        self.rate_limit_reset = rate_limit_reset
        self.is_rate_limit_error = is_rate_limit_error
        self.has_moved = has_moved  # to another repository, which is not ours

    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        if self.is_rate_limit_error or self.status_code is None:
            return True
        return self.status_code >= 500 or self.status_code in (408, 429)

    def is_not_found(self) -> bool:
        return self.status_code == 404

    def is_permission_denied(self) -> bool:
        return self.status_code == 403 and not self.is_rate_limit_error


class TokenError(WorkSourceError):
    def __init__(
        self,
        message: str,
        *,
        found_scopes: Sequence[str] | None = None,
        required_scopes: Sequence[str] = (),
    ) -> None:
        """`found_scopes`: None if there was nothing to find, because no token was accepted."""
        self.found_scopes = tuple(found_scopes or ())
        self.required_scopes = tuple(required_scopes)
        self.missing_scopes = tuple(s for s in required_scopes if s not in self.found_scopes)
        told = {
            "found_scopes": self.found_scopes,
            "required_scopes": self.required_scopes,
            "missing_scopes": self.missing_scopes,
        }
        known = told if found_scopes is not None else {}
        super().__init__(
            message, **{name: list(scopes) for name, scopes in known.items() if scopes}
        )
