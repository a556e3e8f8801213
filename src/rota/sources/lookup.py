"""Finds the repository that a name means, and its configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rota.claims.labels import LIFECYCLE_LABELS
from rota.claims.port import Tracker
from rota.config.sources import AnySource, Auth, Forge, GiteaSource, GitHubSource, Labels
from rota.model.errors import MalformedReference
from rota.sources.assembly import make_tracker
from rota.sources.http.tracker import check_repo
from rota.sources.registry import SourceContext

# Without configuration, labels have the names of `label-state`.
_READY, _IN_FLIGHT, _PR_OPEN, _DONE = (name for name, _, _ in LIFECYCLE_LABELS)
AnyForge = GitHubSource | GiteaSource

_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")


def find_repository(
    repo: str, sources: Sequence[AnySource], environ: Mapping[str, str], host: str | None = None
) -> AnyForge:
    """`repo` is `owner/repo`, or a name alone where one source has that name. A repository that is
    not configured is taken from GitHub, with the label names of `label-state`. With `host`, the
    host of the web pages must match too."""
    forges = [source for source in sources if isinstance(source, Forge)]
    named = [source for source in forges if _is_called(source, repo) and _is_on(source, host)]
    if len(named) == 1:
        return named[0]
    if named:
        choice = ", ".join(f"{source.type}:{source.repo}" for source in named)
        raise MalformedReference(f"{repo!r} may be any of {choice}; write OWNER/REPO")
    if "/" not in repo:
        raise MalformedReference(
            f"no source is configured for a repository called {repo!r}; write OWNER/REPO,"
            " or add it to 'sources' in rota.yaml"
        )
    return _on_github(repo, environ, host)


def knows(host: str, repo: str, sources: Sequence[AnySource], environ: Mapping[str, str]) -> bool:
    """A source is configured for it, or it is on GitHub and there is a token."""
    forges = [source for source in sources if isinstance(source, Forge)]
    if any(_is_called(source, repo) and _is_on(source, host) for source in forges):
        return True
    return any(map(environ.get, _TOKENS)) and _is_on(_unconfigured(repo, environ), host)


def web_host(source: Forge) -> str:
    """The host of its pages, as the address of an issue names it."""
    return _tracker(source).host


def ledger_name(source: Forge) -> str:
    """The source's name in the ledger."""
    return _tracker(source).source


def _tracker(source: Forge) -> Tracker:
    """Used only for its names: it opens no connection and must not be asked anything."""
    return make_tracker(source, SourceContext(environ={}, paused_repos=Path()))


def _is_called(source: Forge, repo: str) -> bool:
    name = source.repo.lower()
    wanted = repo.lower()
    return name == wanted or ("/" not in wanted and name.partition("/")[2] == wanted)


def _is_on(source: Forge, host: str | None) -> bool:
    return host is None or web_host(source) == host


def _on_github(repo: str, environ: Mapping[str, str], host: str | None) -> GitHubSource:
    found = _unconfigured(repo, environ)
    if not _is_on(found, host):
        raise MalformedReference(
            f"no source is configured for {host}/{repo}; add it to 'sources' in rota.yaml"
        )
    return found


def _unconfigured(repo: str, environ: Mapping[str, str]) -> GitHubSource:
    return GitHubSource(
        type="github",
        repo=check_repo(repo),
        labels=Labels(ready=_READY, in_progress=_IN_FLIGHT, pr_open=_PR_OPEN, done=_DONE),
        exclude_labels=(),
        auth=Auth(token_env=_token(environ)),
        # GitHub's own runners set this variable, also for an enterprise server.
        api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
    )


def _token(environ: Mapping[str, str]) -> str:
    return next((name for name in _TOKENS if environ.get(name)), _TOKENS[0])
