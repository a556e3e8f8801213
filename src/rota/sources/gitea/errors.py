"""Refusals and failures of Gitea and Forgejo, by name."""

from rota.sources.http.errors import ApiError, TokenError


class GiteaAPIError(ApiError):
    code = "gitea_api_error"


class GiteaAuthError(TokenError):
    code = "gitea_auth_error"
