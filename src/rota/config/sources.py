"""What a work source can be told, by type. Pydantic, so that all mistakes come at once."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

REPO = r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Labels(Section):
    """What the stations of an issue are called in this repository."""

    ready: str = Field("ready", min_length=1)
    in_progress: str = Field("agent-working", min_length=1)
    pr_open: str = Field("agent:pr-open", min_length=1)
    done: str = Field("agent:done", min_length=1)
    failed: str = Field("agent:failed", min_length=1)


class Auth(Section):
    """Secrets are named, never written down."""

    token_env: str = Field("GITHUB_TOKEN", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    account_id: int | None = None  # for tokens of GitHub Apps, which cannot ask who they are


class GiteaAuth(Auth):
    token_env: str = Field("GITEA_TOKEN", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")


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
    repo: str = Field(pattern=REPO)
    labels: Labels = Labels()
    exclude_labels: tuple[str, ...] = Field(("blocked", "wip"), strict=False)
    cleanup_on_failure: bool = True
    claim_mode: Literal["comments", "strict", "labels"] = "comments"
    # Numeric ids of people whose issues, labels and revocations count (see `rota issue whois`).
    trusted: tuple[int, ...] = Field((), strict=False)
    # Accounts of other fleets that work on the same repository; their claims are honoured.
    fleets: tuple[int, ...] = Field((), strict=False)
    trust_required: bool | None = None  # None: on public repositories
    poll_seconds: float = Field(60.0, ge=1, le=24 * 3600)
    lease_seconds: float = Field(900.0, ge=1, le=7 * 24 * 3600)
    webhook_secret_env: str | None = None
    times: ClaimTimes = ClaimTimes()

    @field_validator("repo", mode="before")
    @classmethod
    def _owner_and_repo(cls, value: object) -> object:
        if isinstance(value, str) and value.count("/") != 1:
            raise ValueError("a repository is written owner/repo, for example octocat/hello")
        return value


class GitHubSource(Forge):
    type: Literal["github"]
    auth: Auth = Auth()
    api_url: str = Field("https://api.github.com", pattern=r"^https?://")


class GiteaSource(Forge):
    """Gitea and Forgejo."""

    type: Literal["gitea", "forgejo"]
    auth: GiteaAuth = GiteaAuth()
    api_url: str = Field(pattern=r"^https?://")


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
