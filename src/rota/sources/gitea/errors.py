"""Gitea's refusals and failures, by name; Forgejo's too."""

from rota.sources.http.errors import ApiError, TokenError


class GiteaAPIError(ApiError):
    code = "gitea_api_error"


class GiteaAuthError(TokenError):
    code = "gitea_auth_error"
