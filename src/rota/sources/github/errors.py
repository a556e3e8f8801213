"""GitHub's refusals and failures, by name.

WorkSourceError
├── GitHubAuthError   the token is missing, not accepted, or lacks scopes
└── TrackerError
    └── GitHubAPIError  the API refused, failed, or could not be reached
"""

from rota.sources.http.errors import ApiError, TokenError


class GitHubAPIError(ApiError):
    code = "github_api_error"


class GitHubAuthError(TokenError):
    code = "github_auth_error"
