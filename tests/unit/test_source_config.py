"""`rota.yaml` and `work_source`: what may be written there, and how mistakes are told."""

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.config.document import DEEPEST, LARGEST_FILE
from rota.config.fleet import MOST_MISTAKES, FleetConfig, load, source_config, source_name
from rota.config.sources import (
    Forge,
    GiteaSource,
    GitHubSource,
    MarkdownSource,
    OtherSource,
    QueueSource,
)
from rota.model.errors import InvalidInput

Write = Callable[[str], Path]
GITHUB = "sources:\n  - type: github\n    repo: octocat/hello\n"
GITEA = "sources:\n  - type: gitea\n    repo: octocat/hello\n    api_url: https://git.example.org\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    path = tmp_path / "rota.yaml"

    def put(text: str) -> Path:
        path.write_text(text, "utf-8")
        return path

    return put


def mistakes(path: Path) -> list[str]:
    """Each from its line on: `3:5: sources[0].repo: …`."""
    with pytest.raises(InvalidInput) as refused:
        load(path)
    told = refused.value.message.splitlines()
    assert all(one.startswith(f"{path}:") for one in told)
    return [one.removeprefix(f"{path}:") for one in told]


def mistake(path: Path) -> str:
    (told,) = mistakes(path)
    return told


def refusal(**config: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        source_config(config)
    assert refused.value.details == {"field": "work_source"}
    return refused.value.message


# what may be written


def test_a_file_that_is_not_there_or_empty_configures_nothing(tmp_path: Path, write: Write) -> None:
    assert load(tmp_path / "none.yaml") == FleetConfig()
    assert load(write("")) == load(write("# nothing yet\n")) == load(write("{}")) == FleetConfig()


def test_a_repository_alone_is_enough(write: Write) -> None:
    (source,) = load(write(GITHUB)).sources
    assert isinstance(source, GitHubSource)
    assert source.api_url == "https://api.github.com"
    assert source.auth.token_env == "GITHUB_TOKEN"
    assert (source.labels.ready, source.labels.in_progress) == ("ready", "agent-working")
    assert source.exclude_labels == ("blocked", "wip")
    assert source.claim_mode == "comments"
    assert source.cleanup_on_failure
    assert source.trust_required is None


def test_everything_can_be_said(write: Write) -> None:
    (source,) = load(
        write(
            GITHUB
            + "    name: engine\n"
            + "    labels: {ready: go, in_progress: on it, pr_open: pr, done: ok, failed: sad}\n"
            + "    exclude_labels: [later]\n"
            + "    cleanup_on_failure: false\n"
            + "    claim_mode: strict\n"
            + "    trusted: [583231]\n"
            + "    fleets: [0x10]\n"
            + "    trust_required: true\n"
            + "    poll_seconds: 5\n"
            + "    lease_seconds: 60.5\n"
            + "    webhook_secret_env: HOOK\n"
            + "    times: {settle: 2, poll: 30, grace: 60, margin: 5, quiet: 3600}\n"
            + "    auth: {token_env: BOT, account_id: 7}\n"
            + "    api_url: https://git.example.org:8443/api/v3\n"
        )
    ).sources
    assert isinstance(source, GitHubSource)
    assert source.labels.in_progress == "on it"
    assert (source.trusted, source.fleets) == ((583231,), (16,))
    assert (source.times.settle, source.lease_seconds) == (2.0, 60.5)
    assert source_name(source) == "engine"


def test_forgejo_is_gitea_by_another_name(write: Write) -> None:
    gitea, forgejo = load(
        write(GITEA + GITEA.removeprefix("sources:\n").replace("gitea", "forgejo"))
    ).sources
    assert isinstance(gitea, GiteaSource)
    assert isinstance(forgejo, GiteaSource)
    assert gitea.auth.token_env == forgejo.auth.token_env == "GITEA_TOKEN"
    assert [source_name(one) for one in (gitea, forgejo)] == [
        "gitea:octocat/hello",
        "forgejo:octocat/hello",
    ]


def test_the_other_types_are_known_too(write: Write) -> None:
    found = load(write("sources:\n- {type: queue}\n- {type: markdown, path: backlog}\n")).sources
    assert [type(one) for one in found] == [QueueSource, MarkdownSource]
    assert [source_name(one) for one in found] == ["queue", "markdown"]


def test_a_type_of_another_package_keeps_its_own_keys(write: Write) -> None:
    (source,) = load(write("sources: [{type: linear, team: ENG, labels: {deep: [1]}}]")).sources
    assert isinstance(source, OtherSource)
    assert source.model_extra == {"team": "ENG", "labels": {"deep": [1]}}
    assert source_name(source) == "linear"


def test_anchors_and_merges_may_be_used(write: Write) -> None:
    path = write(
        "sources:\n"
        "  - &engine {type: github, repo: ada/engine, auth: &bot {token_env: BOT}}\n"
        "  - {<<: *engine, repo: ada/mill}\n"
        "  - {type: github, repo: ada/loom, auth: *bot}\n"
    )
    found = load(path).sources
    assert [one.repo for one in found if isinstance(one, Forge)] == [
        "ada/engine",
        "ada/mill",
        "ada/loom",
    ]
    assert {one.auth.token_env for one in found if isinstance(one, GitHubSource)} == {"BOT"}


def test_owner_and_repo_may_be_given_apart_as_in_herdctl(write: Write) -> None:
    apart = {"type": "github", "owner": "octocat", "repo": "hello"}
    for source in (
        source_config(apart),
        source_config({**apart, "repo": "octocat/hello"}),
        *load(write("sources: [{type: github, owner: octocat, repo: hello}]")).sources,
    ):
        assert isinstance(source, GitHubSource)
        assert source.repo == "octocat/hello"
    assert apart == {"type": "github", "owner": "octocat", "repo": "hello"}


def test_an_owner_that_contradicts_the_repository_is_an_unknown_key() -> None:
    said = refusal(type="github", owner="mallory", repo="octocat/hello")
    assert said.startswith("work_source.owner: unknown key")


def test_a_configuration_of_ours_passes_unchanged() -> None:
    source = source_config({"type": "github", "repo": "octocat/hello"})
    with pytest.raises(ValueError, match="frozen"):
        source.name = "other"


# mistakes


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            GITHUB + "    lables: {}\n",
            "4:5: sources[0].lables: unknown key; did you mean 'labels'?",
        ),
        (
            GITHUB + "    labels:\n      redy: go\n",
            "5:7: sources[0].labels.redy: unknown key; did you mean 'ready'?",
        ),
        (
            GITHUB + "    auth: {token: x}\n",
            "4:12: sources[0].auth.token: unknown key; did you mean 'token_env'?",
        ),
        (
            GITHUB + "    times: {settel: 1}\n",
            "4:13: sources[0].times.settel: unknown key; did you mean 'settle'?",
        ),
        ("source: []\n", "1:1: source: unknown key; did you mean 'sources'?"),
        ("version: 2\n", "1:1: version: 2 is not known; write 1"),
        ("sources:\n- {}\n", "2:3: sources[0].type: is missing"),
        ("sources:\n- {type: github}\n", "2:3: sources[0].repo: is missing"),
        ("sources:\n- {type: markdown}\n", "2:3: sources[0].path: is missing"),
        (
            "sources:\n- {type: gitea, repo: a/b}\n",
            "2:3: sources[0].api_url: is missing",
        ),
        ("sources:\n- just text\n", "2:3: sources[0]: write keys and values: `key: value`"),
        ("sources: {type: queue}\n", "1:1: sources: write a list: [a, b]"),
        ("- a\n", "1:1: the file: write keys and values: `key: value`"),
        ("3\n", "1:1: the file: write keys and values: `key: value`"),
        ("1: 2\n", "1:1: [1]: a key is a text"),
        (
            GITHUB + "    claim_mode: comment\n",
            "4:5: sources[0].claim_mode: 'comment' is not known; write 'comments', 'strict' or"
            " 'labels'",
        ),
        (
            GITEA + "    claim_mode: strict\n",
            "5:5: sources[0].claim_mode: strict needs GitHub: this API cannot create references"
            " outside branches and tags; write comments or labels",
        ),
        (
            GITHUB + "    trusted: [octocat]\n",
            "4:15: sources[0].trusted[0]: the number of an account is wanted; `rota issue whois"
            " LOGIN` tells it",
        ),
        (GITHUB + "    trusted: 7\n", "4:5: sources[0].trusted: write a list: [a, b]"),
        (
            GITHUB + "    cleanup_on_failure: yes\n",
            "4:5: sources[0].cleanup_on_failure: write true or false",
        ),
        (
            GITHUB + "    labels: {ready: Go, failed: go}\n",
            "4:5: sources[0].labels: ready and failed are both called 'go'; they must differ",
        ),
        (
            GITHUB + "    times: {settle: 60, grace: 80}\n",
            "4:5: sources[0].times: grace (80 s) must be longer than settle and margin together"
            " (80 s), or no claim could be trusted for a moment",
        ),
        (
            GITHUB + "    exclude_labels: [READY]\n",
            "2:5: sources[0]: exclude_labels keeps agents away from 'ready', which is what"
            " labels.ready calls an issue that may be taken; nothing would ever be taken",
        ),
        (
            GITHUB.replace("github", "gitea") + "    api_url: git.example.org\n",
            "4:5: sources[0].api_url: 'git.example.org' is not an address like"
            " https://git.example.org/api/v1",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_to_do(
    write: Write, text: str, told: str
) -> None:
    assert mistake(write(text)) == told


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(write: Write) -> None:
    told = mistakes(
        write(GITHUB.replace("octocat/", "") + "    labels: {ready: 3}\n    x: 1\ny: 2\n")
    )
    assert [one.partition(": ")[0] for one in told] == ["3:5", "4:14", "5:5", "6:1"]


def test_a_file_full_of_mistakes_does_not_fill_the_screen(write: Write) -> None:
    told = mistakes(write("".join(f"key{n}: 1\n" for n in range(MOST_MISTAKES + 7))))
    assert len(told) == MOST_MISTAKES + 1
    assert told[-1] == " and 7 more mistakes"


NO_REPOSITORIES = [
    "hello", "", "a/b/c", "octocat/", "/hello", "a b/c", "octocat/hel lo", "../hello", "a/..",
    "https://github.com/a/b", "a/b\n", "a/b#1", "日本/x",
]  # fmt: skip


@pytest.mark.parametrize("repo", NO_REPOSITORIES)
def test_what_is_not_owner_and_repo_is_refused(repo: str) -> None:
    said = refusal(type="github", repo=repo)
    assert said == (
        f"work_source.repo: {repo!r} is not a repository; write owner/repo, for example"
        " octocat/hello"
    )


def test_every_kind_of_mistake_is_told_of_a_work_source_too() -> None:
    said = refusal(type="github", repo="a/b", labels={"reddy": 1}, poll_seconds=0, trusted=["x"])
    assert [line.partition(": ")[0] for line in said.splitlines()] == [
        "work_source.labels.reddy",
        "work_source.trusted[0]",
        "work_source.poll_seconds",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trusted", [0]),  # by this number deleted accounts go
        ("fleets", [-1]),
        ("auth", {"account_id": 0}),
        ("trusted", [True]),
        ("trusted", ["583231"]),
        ("poll_seconds", 0),
        ("lease_seconds", 10**9),
        ("lease_seconds", float("nan")),
        ("times", {"settle": 0}),
        ("times", {"settle": float("inf")}),
        ("labels", {"ready": ""}),
        ("labels", {"ready": "  "}),
        ("labels", {"ready": "a\nb"}),
        ("labels", {"ready": "x" * 51}),
        ("auth", {"token_env": "MY TOKEN"}),
        ("auth", {"token_env": ""}),
        ("webhook_secret_env", "not a name"),
        ("api_url", "ftp://example.org"),
        ("api_url", "https://"),
        ("api_url", "https://example.org:notaport"),
        ("api_url", "https://example.org/?token=1"),
        ("name", 3),
    ],
)
def test_values_out_of_range_are_refused(key: str, value: Any) -> None:
    assert refusal(type="github", repo="a/b", **{key: value}).startswith(f"work_source.{key}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auth", {"token_env": "ghp_1234567890abcdefghij1234567890abcdef"}),
        ("auth", {"token_env": "github_pat_11AAAAAAA0abcdefghijkl_mnopqrstuvwxyz"}),
        ("auth", {"token": "ghp_1234567890abcdefghij1234567890abcdef"}),
        ("webhook_secret_env", "a" * 40),
        ("api_url", "https://ada:ghp_1234567890abcdefghij@example.org"),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_repeated(key: str, value: Any) -> None:
    said = refusal(type="github", repo="a/b", **{key: value})
    assert not re.search(r"1234567890|11AAAA|a{40}", said)


def test_two_sources_cannot_have_one_name(write: Write) -> None:
    inside = "    api_url: https://git.example.org\n"
    again = GITHUB + GITHUB.removeprefix("sources:\n") + inside
    assert mistake(write(again)) == (
        "4:5: sources[1]: 'github:octocat/hello' is what sources[0] is called; give each its own"
        " 'name'"
    )
    assert len(load(write(again + "    name: other\n")).sources) == 2


@pytest.mark.parametrize("more", ["", "    name: other\n"])
def test_a_repository_is_one_source_whatever_it_is_called(write: Write, more: str) -> None:
    again = GITHUB + GITHUB.removeprefix("sources:\n").replace("octocat", "OctoCat") + more
    assert mistake(write(again)) == "4:5: sources[1]: sources[0] is this repository, too; keep one"


# files that are no YAML, or too much of it


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sources: [\n", "2:1: the file ends where a value is expected; is a [ or { not"),
        ("a: 1\n\tb: 2\n", "2:1: a tab stands here; YAML is indented by spaces alone"),
        ("version: 1\nversion: 1\n", '2:1: the key "version" is there twice; keep one'),
        (GITHUB + "    repo: x/y\n", '4:5: the key "repo" is there twice; keep one'),
        ("version: 1\n---\nversion: 1\n", "2:1: a second document begins here (---)"),
        ("version: 1\nsources: \x07\n", "2:10: the character #x0007 is not allowed"),
        ("sources: *nowhere\n", "1:10: nothing is marked &nowhere, so *nowhere means"),
        ("sources: [{type: queue}\nversion: 1\n", "2:1: the [ of line 1 is not closed, or a comma"),
        ("sources: []\nfleet: {name: a\n", "3:1: the { of line 2 is not closed, or a comma"),
        ("fleet: {name: it's, a: 'b}\n", "2:1: the quote of line 1 is not closed"),
        ("a: b: c\n", "1:5: no ':' can stand here; put a text that has one in quotes"),
        ("a: 1\nb\nc: 2\n", "3:1: a ':' is missing in line 2; write `key: value`"),
        ("a:\n  b: 1\n c: 2\n", "3:2: this line is not indented as those that it follows, from"),
        ("a: @b\n", "1:4: a text cannot begin with @; put it in quotes"),
        ("a: ]\n", "1:4: a value is expected here, and not ]; put a text in quotes"),
        ("<<: 3\n", "1:5: expected a mapping or list of mappings for merging"),
        ("version: " + "9" * 5_000, "1:1: cannot be read: Exceeds the limit"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(write: Write, text: str, told: str) -> None:
    assert mistake(write(text)).startswith(told)


def test_bytes_that_are_not_utf_8_are_told_with_their_place(write: Write) -> None:
    path = write("")
    path.write_bytes("version: 1\nsources: [ö".encode("latin-1"))
    assert mistake(path) == "2:11: this is not UTF-8"


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert "cannot be read" in mistake(tmp_path)


def test_a_huge_file_is_not_even_read(write: Write) -> None:
    assert str(LARGEST_FILE) in mistake(write("#" * (LARGEST_FILE + 1)))


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused(write: Write, opening: str) -> None:
    assert f"nested deeper than {DEEPEST} levels" in mistake(write(opening * 2_000))


def test_a_file_that_unfolds_to_a_billion_entries_is_refused_at_once(write: Write) -> None:
    """Nothing is copied by an alias alone; a merge copies, and takes long over it."""
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    keys = ", ".join(f"k{n}: 1" for n in range(2_000))
    merges = f"a: &a {{{keys}}}\nb:\n" + "- {<<: *a}\n" * 2_000
    for bomb in (laughs, "sources: " + laughs.splitlines()[0][3:], merges):
        began = time.process_time()
        assert mistakes(write(bomb))
        assert time.process_time() - began < 5


def test_a_structure_that_holds_itself_is_refused(write: Write) -> None:
    why = "*a cannot be within what it stands for"
    assert mistakes(write("sources: &a [*a]\n")) == [f"1:14: {why}"]
    path = write("sources: [&a {type: github, repo: a/b, labels: *a}]\n")
    assert mistakes(path) == [f"1:48: {why}"]


def test_a_tag_runs_nothing(write: Write, tmp_path: Path) -> None:
    path = write(f'sources: !!python/object/apply:os.mkdir ["{tmp_path}/made"]\n')
    assert mistakes(path)
    assert not (tmp_path / "made").exists()


PIECES = [
    "sources: ", "- ", "  ", "\n", "type: ", "github", "gitea", "repo: ", "a/b", "&a ", "*a",
    "<<: ", "{", "}", "[", "]", ", ", ": ", "? ", "!!set ", "!!int ", "!x ", "|", ">", "'", "#",
    "true", "~", "0x1f", ".nan", "2024-01-01", "\x00", "\ufeff", "\u2028", "é", "%YAML",
]  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_whatever_stands_there_is_read_or_refused(tmp_path: Path, pieces: list[str]) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text("".join(pieces), "utf-8")
    with contextlib.suppress(InvalidInput):
        assert isinstance(load(path), FleetConfig)
