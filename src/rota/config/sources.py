"""The settings of a source, by type. Pydantic, so that all mistakes are reported at once."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from rota.config.variables import Lax, Switch

_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# How tokens of GitHub and of other trackers begin.
_TOKEN = re.compile(r"(gh[a-z]|github_pat|glpat|gto|rota)_\w{16,}|[0-9a-f]{40}")


def _repo(value: str) -> str:
    if not _REPO.fullmatch(value) or {".", ".."} & set(value.split("/")):
        raise ValueError(
            f"{value[:100]!r} is not a repository; write owner/repo, for example octocat/hello"
        )
    return value


def _api_url(value: str) -> str:
    if "@" in value:  # before any part of it is repeated
        raise ValueError("holds a user name or password; name a variable in auth.token_env instead")
    if not is_address(value):
        raise ValueError(f"{value[:100]!r} is not an address like https://git.example.org/api/v1")
    return value


def is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return fine and not parts.query and not parts.fragment


def _label(value: str) -> str:
    if not value.strip() or _CONTROL.search(value):
        raise ValueError("a label has at least one letter, and one line")
    return value


def _token_env(value: str) -> str:
    if _TOKEN.fullmatch(value):
        raise ValueError(
            "this is a token, and the name of the environment variable that holds it is wanted;"
            " revoke the token, for whoever has seen this file has it"
        )
    return value


# No account has the id 0: it means a deleted account.
AccountId = Annotated[int, Field(ge=1), Lax]
LeaseSeconds = Annotated[float, Field(ge=1, le=7 * 24 * 3600), Lax]
Label = Annotated[str, Field(max_length=50), AfterValidator(_label)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_token_env)]


class Section(BaseModel):
    """Keys are described with `Field(description=…)`: editors show it. Attribute docstrings would
    do the same, but pydantic parses the source again for them, at each start."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, given: Any) -> Any:
        """`key:` without a value, as remains when all below it is commented out, says nothing."""
        if not isinstance(given, dict):
            return given
        known = {field.alias or name for name, field in cls.model_fields.items()}
        return {name: one for name, one in given.items() if one is not None or name not in known}


class Labels(Section):
    """The labels that show the state of an issue. They must differ, also by more than case."""

    ready: Label = Field(
        "ready",
        description="An agent may take the issue. This is the only label that people set.",
    )
    in_progress: Label = Field("agent-working", description="An agent works on the issue.")
    pr_open: Label = Field(
        "agent:pr-open",
        description="The agent has finished the issue and answered it with a pull request.",
    )
    done: Label = Field(
        "agent:done", description="The agent has finished the issue, and the issue is closed."
    )
    failed: Label = Field(
        "agent:failed",
        description="The agent gave the issue up, or did a part of it. It waits for a person.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        """Trackers compare labels without regard to case."""
        stations: dict[str, str] = {}
        for station, label in self:
            if (other := stations.setdefault(label.lower(), station)) != station:
                raise ValueError(
                    f"{other} and {station} are both called {label!r}; they must differ"
                )
        return self


class Auth(Section):
    """Where the token for GitHub is. The token itself never stands in this file."""

    token_env: Variable = Field(
        "GITHUB_TOKEN", description="The environment variable that holds the token."
    )
    account_id: AccountId | None = Field(
        None,
        description="The number of the account that the token writes as. Default: the tracker is"
        " asked. Tokens of GitHub Apps cannot ask, and need it.",
    )


class GiteaAuth(Auth):
    """Where the token for Gitea or Forgejo is. The token itself never stands in this file."""

    token_env: Variable = Field(
        "GITEA_TOKEN", description="The environment variable that holds the token."
    )


class ClaimTimes(Section):
    """How long the claim protocol waits, in seconds. `grace` must be larger than `settle` and
    `margin` together. Read the page on claims on a tracker before you shorten any of them."""

    settle: Annotated[float, Field(gt=0, le=600), Lax] = Field(
        10.0,
        description="Seconds: the longest that a write stays invisible to readers of the tracker.",
    )
    poll: Annotated[float, Field(gt=0, le=3600), Lax] = Field(
        60.0,
        description="Seconds between two checks that a watched claim is still there.",
    )
    grace: Annotated[float, Field(gt=0, le=24 * 3600), Lax] = Field(
        300.0,
        description="Seconds that a suspicion must remain unanswered before it ends a claim.",
    )
    margin: Annotated[float, Field(gt=0, le=600), Lax] = Field(
        20.0, description="Seconds that a server has to stop an agent."
    )
    quiet: Annotated[float, Field(gt=0, le=30 * 24 * 3600), Lax] = Field(
        4 * 3600.0,
        description="Seconds that a claim of another fleet may be silent before it is suspected."
        " Default: 4 hours.",
    )

    @model_validator(mode="after")
    def _worth_a_look(self) -> Self:
        """What is left of `grace` is how long an agent may go on after a clean look."""
        if self.grace <= self.settle + self.margin:
            raise ValueError(
                f"grace ({self.grace:g} s) must be longer than settle and margin together"
                f" ({self.settle + self.margin:g} s), or no claim could be trusted for a moment"
            )
        return self


class Forge(Section):
    """Issues of a repository on any tracker."""

    name: str | None = Field(
        None,
        description="The name of this source, for people and commands. Default: `TYPE:REPO`, for"
        " example `github:octocat/hello`.",
    )
    repo: Annotated[str, AfterValidator(_repo)] = Field(
        description="The repository, as `OWNER/NAME`: `octocat/hello`. A `work_source` may leave it"
        " out; then it is the agent's `repo`."
    )
    labels: Labels = Field(
        Labels(), description="The labels that show the state of an issue in this repository."
    )
    exclude_labels: tuple[str, ...] = Field(
        ("blocked", "wip"),
        strict=False,
        description="Labels that keep agents away from an issue. The list replaces the default."
        " `do-not-pickup` and `needs:human-scope` always keep agents away.",
    )
    cleanup_on_failure: Switch = Field(
        True,
        description="`true`: an issue that an agent gives back gets its ready label again. `false`:"
        " it stays without one until a person decides.",
    )
    claim_mode: Literal["comments", "strict", "labels"] = Field(
        "comments",
        description="How a claim is made. `comments`: a comment. `strict`: a git reference, on"
        " GitHub only. `labels`: a label, for a repository with a single fleet.",
    )
    trusted: tuple[AccountId, ...] = Field(
        (),
        strict=False,
        description="Numbers of the accounts whose issues, labels and revocations count."
        " `rota issue whois LOGIN` tells a number. The token's own account and the person who owns"
        " the repository are always trusted.",
    )
    fleets: tuple[AccountId, ...] = Field(
        (),
        strict=False,
        description="Numbers of the accounts of other fleets that work on this repository. Their"
        " claims are honoured.",
    )
    trust_required: Switch | None = Field(
        None,
        description="Whether a trusted account must approve a text before an agent sees it."
        " Default: on public repositories only.",
    )
    poll_seconds: Annotated[float, Field(ge=1, le=24 * 3600), Lax] = Field(
        60.0, description="Seconds between two looks for new work."
    )
    lease_seconds: LeaseSeconds = Field(
        900.0,
        description="The lease of a claim in the ledger, in seconds: how long the claim holds"
        " without a heartbeat.",
    )
    webhook_secret_env: Variable | None = Field(
        None,
        description="The environment variable that holds the secret of the tracker's webhook."
        " Default: webhooks are refused.",
    )
    times: ClaimTimes = Field(ClaimTimes(), description="How long the claim protocol waits.")

    @model_validator(mode="before")
    @classmethod
    def _owner_and_repo(cls, given: Any) -> Any:
        """herdctl's programs give `owner` and `repo` separately."""
        if not isinstance(given, dict):
            return given
        owner, repo = given.get("owner"), given.get("repo")
        if not isinstance(owner, str) or not isinstance(repo, str):
            return given
        rest = {name: value for name, value in given.items() if name != "owner"}
        if "/" not in repo:
            return rest | {"repo": f"{owner}/{repo}"}
        return rest if repo.partition("/")[0] == owner else given

    @model_validator(mode="after")
    def _ready_is_not_excluded(self) -> Self:
        if self.labels.ready.lower() in {label.lower() for label in self.exclude_labels}:
            raise ValueError(
                f"exclude_labels keeps agents away from {self.labels.ready!r}, which is what"
                " labels.ready calls an issue that may be taken; nothing would ever be taken"
            )
        return self


class GitHubSource(Forge):
    """Issues of a repository on GitHub or GitHub Enterprise."""

    type: Literal["github"] = Field(description="`github`: issues of a repository on GitHub.")
    auth: Auth = Field(Auth(), description="Where the token is.")
    api_url: Annotated[str, AfterValidator(_api_url)] = Field(
        "https://api.github.com",
        description="The address of the API. For an Enterprise server: `https://HOST/api/v3`.",
    )


class GiteaSource(Forge):
    """Issues of a repository on Gitea or Forgejo."""

    type: Literal["gitea", "forgejo"] = Field(
        description="`gitea` or `forgejo`: issues of a repository there. Both mean the same."
    )
    auth: GiteaAuth = Field(GiteaAuth(), description="Where the token is.")
    api_url: Annotated[str, AfterValidator(_api_url)] = Field(
        description="The address of the server: `https://git.example.org`. `/api/v1` is added where"
        " it is missing."
    )

    @field_validator("claim_mode")
    @classmethod
    def _no_strict_mode(cls, value: str) -> str:
        if value == "strict":
            raise ValueError(
                "strict needs GitHub: this API cannot create references outside branches and"
                " tags; write comments or labels"
            )
        return value


class MarkdownSource(Section):
    """A folder of Markdown files, one item each."""

    type: Literal["markdown"] = Field(
        description="`markdown`: a folder of Markdown files, one item each."
    )
    name: str | None = Field(
        None, description="The name of this source, for people and commands. Default: `markdown`."
    )
    path: str = Field(
        min_length=1, description="The folder. A relative path begins at the folder of this file."
    )
    labels: tuple[str, ...] = Field(
        (), strict=False, description="Offer only files with all of these labels. Default: any."
    )
    exclude_labels: tuple[str, ...] = Field(
        ("blocked", "wip"),
        strict=False,
        description="Do not offer files with one of these labels. The list replaces the default.",
    )
    lease_seconds: LeaseSeconds = Field(
        900.0,
        description="The lease of a claim, in seconds: how long it holds without a heartbeat.",
    )


class QueueSource(Section):
    """The items of Rota's own ledger."""

    type: Literal["queue"] = Field(
        description="`queue`: items of Rota's own ledger, for example those of `rota add`."
    )
    name: str | None = Field(
        None, description="The name of this source, for people and commands. Default: `queue`."
    )
    types: tuple[str, ...] = Field(
        (), strict=False, description="Offer only items of these types. Default: any."
    )
    labels: tuple[str, ...] = Field(
        (), strict=False, description="Offer only items with all of these labels. Default: any."
    )
    project_id: str | None = Field(
        None, description="Offer only items of the project with this id. Default: any."
    )
    lease_seconds: LeaseSeconds = Field(
        900.0,
        description="The lease of a claim, in seconds: how long it holds without a heartbeat.",
    )


class MemorySource(Section):
    """Items that live as long as the process, for tests and examples."""

    type: Literal["memory"] = Field(
        description="`memory`: items that live as long as the process, for tests and examples."
    )
    name: str | None = Field(
        None, description="The name of this source, for people and commands. Default: `memory`."
    )
    items: tuple[dict[str, object], ...] = Field(
        (),
        strict=False,
        description="The items: mappings with `title`, and optionally `description`, `priority`"
        " (1 to 5) and `labels`.",
    )


OURS = ("github", "gitea", "forgejo", "markdown", "queue", "memory")


class OtherSource(Section):
    """A source of a type that another package brings, with the keys of that type."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field(
        description="The type of the source. `rota source types` lists the installed types.",
        # Otherwise a source of ours would fit two branches of the JSON Schema, which is an error.
        json_schema_extra={"not": {"enum": list(OURS)}},
    )
    name: str | None = Field(
        None, description="The name of this source, for people and commands. Default: its type."
    )


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    kind = "gitea" if kind == "forgejo" else kind
    return kind if kind in OURS else "other"


AnySource = Annotated[
    Annotated[GitHubSource, Tag("github")]
    | Annotated[GiteaSource, Tag("gitea")]
    | Annotated[MarkdownSource, Tag("markdown")]
    | Annotated[QueueSource, Tag("queue")]
    | Annotated[MemorySource, Tag("memory")]
    | Annotated[OtherSource, Tag("other")],
    Discriminator(_tag),
]
