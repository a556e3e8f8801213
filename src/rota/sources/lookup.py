"""Which repository is meant, and how it is configured."""

from collections.abc import Mapping, Sequence

from rota.claims.labels import LIFECYCLE_LABELS
from rota.config.sources import AnySource, Auth, Forge, GitHubSource, Labels
from rota.model.errors import MalformedReference

# Where nothing is configured, labels are called what `label-state` calls them.
_READY, _IN_FLIGHT, _PR_OPEN, _DONE = (name for name, _, _ in LIFECYCLE_LABELS)


def find_repository(
    repo: str, sources: Sequence[AnySource], environ: Mapping[str, str], host: str | None = None
) -> Forge:
    """`owner/repo`, or `repo` alone where one source has that name; a repository that is not
    configured is looked for on GitHub, with the names of `label-state`."""
    forges = [source for source in sources if isinstance(source, Forge)]
    named = [source for source in forges if _is_called(source, repo)]
    if len(named) == 1:
        return named[0]
    if named:
        choice = ", ".join(f"{source.type}:{source.repo}" for source in named)
        raise MalformedReference(f"{repo!r} may be any of {choice}; write OWNER/REPO")
    if "/" not in repo:
        raise MalformedReference(
            f"no source is configured for a repository called {repo!r}; write OWNER/REPO#NUMBER,"
            " or add it to 'sources' in rota.yaml"
        )
    return _unconfigured(repo, environ)


def _is_called(source: Forge, repo: str) -> bool:
    name = source.repo.lower()
    wanted = repo.lower()
    return name == wanted or ("/" not in wanted and name.partition("/")[2] == wanted)


def _unconfigured(repo: str, environ: Mapping[str, str]) -> GitHubSource:
    return GitHubSource(
        type="github",
        repo=repo,
        labels=Labels(ready=_READY, in_progress=_IN_FLIGHT, pr_open=_PR_OPEN, done=_DONE),
        exclude_labels=(),
        auth=Auth(token_env=_token(environ)),
        # The variable that GitHub's own runners set, also for an enterprise server.
        api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
    )


def _token(environ: Mapping[str, str]) -> str:
    return "GH_TOKEN" if "GITHUB_TOKEN" not in environ and "GH_TOKEN" in environ else "GITHUB_TOKEN"
