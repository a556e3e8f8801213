"""Who may see and change what: by the token, and by the account behind it."""

from rota.testing.tracker.http import Rejection
from rota.testing.tracker.hub import Repository, Token, TokenKind

_FORBIDDEN = {
    TokenKind.CLASSIC: "Must have admin rights to Repository.",
    TokenKind.FINE_GRAINED: "Resource not accessible by personal access token",
    TokenKind.INSTALLATION: "Resource not accessible by integration",
}


def may_see(token: Token | None, repo: Repository) -> bool:
    if not repo.private:
        return True
    return token is not None and covers(token, repo) and belongs(token, repo)


def covers(token: Token, repo: Repository) -> bool:
    """Whether the token was made for this repository."""
    if token.kind is TokenKind.CLASSIC:
        return "repo" in token.scopes or (not repo.private and "public_repo" in token.scopes)
    return token.repos is None or repo.full_name.casefold() in token.repos


def belongs(token: Token, repo: Repository) -> bool:
    """Whether the account may write here. An installation belongs where it is installed."""
    login = token.account.login.casefold()
    installed = token.kind is TokenKind.INSTALLATION
    return installed or login == repo.owner.login.casefold() or login in repo.collaborators


def must_comment(token: Token | None, repo: Repository) -> None:
    """Anybody may comment in a public repository; refused as GitHub refuses."""
    if token is None:
        raise Rejection(401, "Requires authentication")
    if not covers(token, repo):
        # For a classic token without the scope, the repository does not exist.
        if token.kind is TokenKind.CLASSIC:
            raise Rejection(404, "Not Found")
        raise Rejection(403, _FORBIDDEN[token.kind])
    if "issues" in token.lacks:
        raise Rejection(403, _FORBIDDEN[token.kind])


def must_write(token: Token | None, repo: Repository, permission: str = "issues") -> None:
    must_comment(token, repo)
    assert token is not None
    if not belongs(token, repo) or permission in token.lacks:
        raise Rejection(403, _FORBIDDEN[token.kind])
