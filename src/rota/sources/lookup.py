"""Finds the repository that a name means, and its configuration."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rota.claims.labels import LIFECYCLE_LABELS
from rota.claims.port import Tracker
from rota.config.sources import AnySource, Auth, Forge, GiteaSource, GitHubSource, Labels
from rota.model.errors import MalformedReference, RotaError
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
    named = _named(repo, sources, host)
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
    if _named(repo, sources, host):
        return True
    return any(map(environ.get, _TOKENS)) and _is_on(_unconfigured(repo, environ), host)


def web_host(source: Forge) -> str:
    """The host of its pages, as the address of an issue names it."""
    return _tracker(source).host


def ledger_name(source: Forge) -> str:
    """The source's name in the ledger."""
    return _tracker(source).source


def agents_at(place: str, agents: Sequence[tuple[str, AnyForge]]) -> list[tuple[str, AnyForge]]:
    """The agents that work this repository, by its name in the ledger."""
    return [(agent, source) for agent, source in agents if _place(source) == place]


def _place(source: AnyForge) -> str | None:
    """A source with a mistake is nowhere; its agent's schedules show the mistake."""
    try:
        return ledger_name(source)
    except RotaError:
        return None


def _tracker(source: Forge) -> Tracker:
    """Used only for its names: it opens no connection and must not be asked anything."""
    return make_tracker(source, SourceContext(environ={}, paused_repos=Path()))


def _named(repo: str, sources: Sequence[AnySource], host: str | None) -> list[AnyForge]:
    found = [one for one in sources if isinstance(one, AnyForge) and _is_called(one, repo)]
    exact = [one for one in found if web_host(one) == host]
    return exact or [one for one in found if _is_on(one, host)]


def _is_called(source: Forge, repo: str) -> bool:
    name = source.repo.lower()
    wanted = repo.lower()
    return name == wanted or ("/" not in wanted and name.partition("/")[2] == wanted)


def _is_on(source: Forge, host: str | None) -> bool:
    """A host without a port is there on any: a remote by SSH does not tell the port of the web
    pages."""
    return host is None or host in (web := web_host(source), re.sub(r":\d+$", "", web))


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
