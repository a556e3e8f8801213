"""Which repository a name means, and on which tracker."""

import pytest

from rota.config.sources import AnySource, GiteaSource, GitHubSource
from rota.model.errors import MalformedReference
from rota.sources.lookup import find_repository, knows

NO_TOKEN: dict[str, str] = {}


def gitea(api_url: str, repo: str = "ada/engine") -> GiteaSource:
    return GiteaSource(type="gitea", repo=repo, api_url=api_url)


@pytest.mark.parametrize(
    ("api_url", "host"),
    [
        ("https://git.example.org", "git.example.org"),
        ("http://git.example.org:3000", "git.example.org:3000"),
        ("http://git.example.org:3000", "git.example.org"),
        ("http://[::1]:3000", "[::1]"),
    ],
)
def test_a_host_without_a_port_is_the_tracker_on_any(api_url: str, host: str) -> None:
    """Who pushes by SSH names a host, and never the port of its web pages."""
    source = gitea(api_url)
    assert knows(host, "ada/engine", [source], NO_TOKEN)
    assert find_repository("ada/engine", [source], NO_TOKEN, host) == source


@pytest.mark.parametrize("host", ["git.example.org:3001", "example.org", "git.example.org:"])
def test_another_port_or_host_is_another_tracker(host: str) -> None:
    source = gitea("http://git.example.org:3000")
    assert not knows(host, "ada/engine", [source], NO_TOKEN)
    with pytest.raises(MalformedReference, match="no source is configured"):
        find_repository("ada/engine", [source], NO_TOKEN, host)


def test_of_two_trackers_on_one_host_the_one_on_the_usual_port_needs_no_port() -> None:
    plain, other = gitea("https://git.example.org"), gitea("https://git.example.org:3000")
    for sources in ([plain, other], [other, plain]):
        assert find_repository("ada/engine", sources, NO_TOKEN, "git.example.org") == plain
        assert find_repository("ada/engine", sources, NO_TOKEN, "git.example.org:3000") == other


def test_what_may_be_either_of_two_is_not_guessed() -> None:
    sources: list[AnySource] = [gitea("https://git.org:3000"), gitea("https://git.org:4000")]
    with pytest.raises(MalformedReference, match="may be any of"):
        find_repository("ada/engine", sources, NO_TOKEN, "git.org")


def test_a_repository_without_configuration_is_on_github_if_there_is_a_token() -> None:
    token = {"GH_TOKEN": "t"}
    assert knows("github.com", "ada/engine", [], token)
    assert not knows("github.com", "ada/engine", [], NO_TOKEN)
    assert not knows("git.example.org", "ada/engine", [], token)
    enterprise = token | {"GITHUB_API_URL": "https://ghe.example.org:8443/api/v3"}
    assert knows("ghe.example.org", "ada/engine", [], enterprise)
    found = find_repository("ada/engine", [], enterprise, "ghe.example.org")
    assert (found.api_url, found.auth.token_env) == (enterprise["GITHUB_API_URL"], "GH_TOKEN")


def test_a_name_alone_needs_a_source() -> None:
    source = GitHubSource(type="github", repo="ada/engine")
    assert find_repository("ENGINE", [source], NO_TOKEN) == source
    with pytest.raises(MalformedReference, match="OWNER/REPO"):
        find_repository("mill", [source], NO_TOKEN)
