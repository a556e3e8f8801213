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
AccountId = Annotated[int, Field(ge=1)]
Label = Annotated[str, Field(max_length=50), AfterValidator(_label)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_token_env)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Labels(Section):
    """What the stations of an issue are called in this repository."""

    ready: Label = "ready"
    in_progress: Label = "agent-working"
    pr_open: Label = "agent:pr-open"
    done: Label = "agent:done"
    failed: Label = "agent:failed"

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
    """Secrets are named, never written down."""

    token_env: Variable = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable
    account_id: AccountId | None = None  # for tokens of GitHub Apps, which cannot ask for it


class GiteaAuth(Auth):
    token_env: Variable = "GITEA_TOKEN"  # noqa: S105


class ClaimTimes(Section):
    """Seconds; see the page on claims before you shorten any of them."""

    settle: float = Field(10.0, gt=0, le=600)
    poll: float = Field(60.0, gt=0, le=3600)
    grace: float = Field(300.0, gt=0, le=24 * 3600)
    margin: float = Field(20.0, gt=0, le=600)
    quiet: float = Field(4 * 3600.0, gt=0, le=30 * 24 * 3600)


class Forge(Section):
    """Issues of a repository, whoever hosts it."""

    name: str | None = None
    repo: Annotated[str, AfterValidator(_repo)]
    labels: Labels = Labels()
    exclude_labels: tuple[str, ...] = Field(("blocked", "wip"), strict=False)
    cleanup_on_failure: bool = True
    claim_mode: Literal["comments", "strict", "labels"] = "comments"
    # Numeric ids of people whose issues, labels and revocations count (see `rota issue whois`).
    trusted: tuple[AccountId, ...] = Field((), strict=False)
    # Accounts of other fleets that work on the same repository; their claims are honoured.
    fleets: tuple[AccountId, ...] = Field((), strict=False)
    trust_required: bool | None = None  # None: only on public repositories
    poll_seconds: float = Field(60.0, ge=1, le=24 * 3600)
    lease_seconds: float = Field(900.0, ge=1, le=7 * 24 * 3600)
    webhook_secret_env: Variable | None = None
    times: ClaimTimes = ClaimTimes()

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
    type: Literal["github"]
    auth: Auth = Auth()
    api_url: Annotated[str, AfterValidator(_api_url)] = "https://api.github.com"


class GiteaSource(Forge):
    """Gitea and Forgejo."""

    type: Literal["gitea", "forgejo"]
    auth: GiteaAuth = GiteaAuth()
    api_url: Annotated[str, AfterValidator(_api_url)]

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

    type: Literal["markdown"]
    name: str | None = None
    path: str = Field(min_length=1)
    labels: tuple[str, ...] = Field((), strict=False)
    exclude_labels: tuple[str, ...] = Field(("blocked", "wip"), strict=False)
    lease_seconds: float = Field(900.0, ge=1, le=7 * 24 * 3600)


class QueueSource(Section):
    """Rota's own ledger."""

    type: Literal["queue"]
    name: str | None = None
    types: tuple[str, ...] = Field((), strict=False)
    labels: tuple[str, ...] = Field((), strict=False)
    project_id: str | None = None
    lease_seconds: float = Field(900.0, ge=1, le=7 * 24 * 3600)


class MemorySource(Section):
    """For tests and examples: items that live as long as the process."""

    type: Literal["memory"]
    name: str | None = None
    items: tuple[dict[str, object], ...] = Field((), strict=False)


class OtherSource(Section):
    """Of a type that another package brings; its own factory reads the rest."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str
    name: str | None = None


OURS = ("github", "gitea", "forgejo", "markdown", "queue", "memory")


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
