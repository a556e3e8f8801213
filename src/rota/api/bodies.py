"""Models of request bodies and query parameters. The limits are the ledger's own."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from rota.model.access import AGENT_PREFIX, PLAIN_SCOPES
from rota.model.claims import (
    DEFAULT_LEASE_SECONDS,
    MAX_IN_REVIEW,
    MAX_LEASE_SECONDS,
    MAX_SLOTS,
    MAX_WAIT_SECONDS,
)
from rota.model.events import EventType
from rota.model.status import Outcome, Status
from rota.model.work import (
    DEFAULT_MAX_ATTEMPTS,
    MAX_BATCH,
    MAX_BLOCKERS,
    MAX_LABELS,
    MAX_PAGE,
    NAME,
    NO_NAME,
)
from rota.queue.intake import LONGEST

NOT_PLAIN = "is not allowed; use ASCII without spaces and control characters"
_WRITTEN = r"\S"


def whole(pattern: str) -> str:
    r"""A pattern for the whole text. In Python `$` also matches before a final line end, and
    readers of the API document do not know `\Z`."""
    return rf"^{pattern}$(?!\n)"


PLAIN = whole("[!-~]+")  # printable ASCII: nothing that a database rejects
_LONGEST_FILTER = 500
_LAST_SEQ = 2**63 - 1

Id = Annotated[
    str,
    Meta(min_length=1, max_length=100, pattern=PLAIN, extra={"wrong": "is not an id of ours"}),
]
IdPrefix = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=36,
        pattern=whole("[0-9a-f-]+"),
        extra={"wrong": "is not the beginning of an id"},
    ),
]
ClaimToken = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        extra={"unshown": "it is no claim's token; give the one that the claim was answered with"},
    ),
]
AgentName = Annotated[
    str, Meta(pattern=whole(NAME.pattern), examples=["smith"], extra={"wrong": NO_NAME})
]
Moment = Annotated[
    str,
    Meta(
        max_length=64, extra_json_schema={"format": "date-time"}, examples=["2026-05-01T19:42:33Z"]
    ),
]
Type = Annotated[
    str,
    Meta(
        max_length=LONGEST["type"],
        pattern=_WRITTEN,
        examples=["code_review"],
        extra={"empty": "say what kind of work it is, such as code_review"},
    ),
]
Description = Annotated[
    str,
    Meta(
        max_length=LONGEST["description"],
        pattern=_WRITTEN,
        extra={"empty": "say in a few words what is to be done"},
    ),
]
Body = Annotated[str, Meta(max_length=LONGEST["body"])]
Notes = Annotated[str, Meta(max_length=LONGEST["notes"])]
Why = Annotated[str, Meta(max_length=LONGEST["reason"])]
Label = Annotated[str, Meta(max_length=LONGEST["label"], pattern=_WRITTEN)]
Labels = Annotated[tuple[Label, ...], Meta(max_length=MAX_LABELS)]
Blockers = Annotated[tuple[Id, ...], Meta(max_length=MAX_BLOCKERS)]
Priority = Annotated[int, Meta(ge=1, le=5, description="1 is the highest")]
Attempts = Annotated[int, Meta(ge=1, le=1_000)]
Url = Annotated[
    str,
    Meta(
        max_length=LONGEST["artifact_url"],
        pattern=whole(r"https?://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#]\S*)?"),
        examples=["https://example.org/pull/3"],
        extra={
            "wrong": "is not an address; write it in full, with http:// or https://:"
            " https://example.org/pull/3"
        },
    ),
]
LeaseSeconds = Annotated[float, Meta(ge=1, le=MAX_LEASE_SECONDS)]
StatusName = Annotated[str, Meta(extra_json_schema={"enum": [str(one) for one in Status]})]
EventName = Annotated[str, Meta(extra_json_schema={"enum": [str(one) for one in EventType]})]
OutcomeName = Annotated[
    str, Meta(extra_json_schema={"enum": [*(str(one) for one in Outcome), "failure"]})
]
Scope = Annotated[
    str,
    Meta(
        pattern=whole(f"({'|'.join(sorted(PLAIN_SCOPES))}|{AGENT_PREFIX}{NAME.pattern})"),
        extra={
            "wrong": f"is unknown; there are {', '.join(sorted(PLAIN_SCOPES))} and"
            f" {AGENT_PREFIX}<name>"
        },
    ),
]
Wanted = Annotated[
    str,
    Meta(
        max_length=_LONGEST_FILTER,
        pattern=_WRITTEN,
        extra={"empty": "leave it out to see all"},
    ),
]
ZoneName = Annotated[
    str,
    Meta(
        max_length=64,
        pattern=whole("[A-Za-z0-9_+/-]+"),
        examples=["Europe/Berlin"],
        extra={"wrong": "is not a time zone; write it like Europe/Berlin"},
    ),
]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Cursor = Annotated[str, Meta(max_length=1_000, description="from the Link header of a page")]


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """Wrong types and unknown fields are refused."""


class Nothing(Strict, frozen=True):
    """For a call that takes no body, or has no field left over."""


# projects, agents, tokens


class NewProject(Strict, frozen=True):
    name: Annotated[str, Meta(max_length=LONGEST["name"], pattern=_WRITTEN)]
    external_ref: Annotated[str, Meta(max_length=LONGEST["external_ref"])] | None = None


class ProjectChange(Strict, frozen=True):
    name: Annotated[str, Meta(max_length=LONGEST["name"], pattern=_WRITTEN)] | UnsetType = UNSET
    external_ref: Annotated[str, Meta(max_length=LONGEST["external_ref"])] | UnsetType | None = (
        UNSET
    )


class AgentChange(Strict, frozen=True):
    max_concurrent: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] | None = None
    paused: bool | None = None
    max_in_review: Annotated[int, Meta(ge=1, le=MAX_IN_REVIEW)] | UnsetType | None = UNSET


class NewToken(Strict, frozen=True):
    name: Annotated[str, Meta(max_length=100, pattern=_WRITTEN)]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=100)]
    expires_at: Moment | None = None


# items


class NewWork(Strict, frozen=True):
    type: Type
    description: Description
    payload: Any = None
    priority: Priority = 3
    project_id: Id | None = None
    assigned_agent: AgentName | None = None
    created_by: Annotated[str, Meta(max_length=LONGEST["created_by"])] | None = None
    body: Body | None = None
    labels: Labels = ()
    blocked_by: Blockers = ()
    max_attempts: Attempts = DEFAULT_MAX_ATTEMPTS
    available_at: Moment | None = None


NewBatch = Annotated[tuple[NewWork, ...], Meta(min_length=1, max_length=MAX_BATCH)]


class Change(Strict, frozen=True):
    """A field that is absent stays as it is; null removes its value."""

    status: StatusName | None = None
    outcome: OutcomeName | None = None
    notes: Notes | UnsetType | None = UNSET
    assigned_agent: AgentName | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET
    type: Type | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    body: Body | UnsetType | None = UNSET
    payload: Any | UnsetType = UNSET
    labels: Labels | UnsetType | None = UNSET
    project_id: Id | UnsetType | None = UNSET
    blocked_by: Blockers | UnsetType | None = UNSET
    max_attempts: Attempts | UnsetType = UNSET
    available_at: Moment | UnsetType | None = UNSET
    artifact_url: Url | UnsetType | None = UNSET
    token: ClaimToken | None = None
    force: bool = False
    reason: Why | None = None


# claims


class NextClaim(Strict, frozen=True):
    agent: AgentName
    limit: Annotated[int, Meta(ge=1, le=MAX_BATCH)] = 1
    types: Annotated[tuple[Type, ...], Meta(max_length=50)] = ()
    labels: Labels = ()
    project_id: Id | None = None
    lease_seconds: LeaseSeconds = DEFAULT_LEASE_SECONDS


class ClaimWork(NextClaim, frozen=True):
    wait_seconds: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0


class Heartbeat(Strict, frozen=True):
    token: ClaimToken
    notes: Notes | None = None
    progress: Annotated[str, Meta(max_length=LONGEST["progress"])] | int | float | None = None


class CompleteOne(Strict, frozen=True):
    id: Id
    token: ClaimToken | None = None
    outcome: OutcomeName = "success"
    notes: Notes | None = None
    artifact_url: Url | None = None
    next: NextClaim | None = None


CompleteBatch = Annotated[tuple[CompleteOne, ...], Meta(min_length=1, max_length=MAX_BATCH)]


# the verbs


class Start(Strict, frozen=True):
    agent: AgentName | None = None
    token: ClaimToken | None = None
    lease_seconds: LeaseSeconds | None = None
    notes: Notes | None = None
    reason: Why | None = None


class Resume(Start, frozen=True):
    force: Annotated[
        bool,
        Meta(
            description="resume it although its agent, woken by the fleet, would not go on with it"
        ),
    ] = False


class _Finish(Strict, frozen=True, kw_only=True):
    token: ClaimToken | None = None
    notes: Notes | None = None
    artifact_url: Url | None = None
    reason: Why | None = None
    force: bool = False


class Complete(_Finish, frozen=True, kw_only=True):
    outcome: Annotated[str, Meta(extra_json_schema={"enum": ["success"]})] | None = None
    next: NextClaim | None = None


class Fail(_Finish, frozen=True, kw_only=True):
    outcome: Annotated[str, Meta(extra_json_schema={"enum": ["failed", "failure"]})] | None = None


class Block(Strict, frozen=True):
    notes: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST["notes"],
            extra={"empty": "say what it has to wait for"},
        ),
    ]
    token: ClaimToken | None = None
    reason: Why | None = None
    force: bool = False


class HandOver(Strict, frozen=True):
    artifact_url: Url
    token: ClaimToken | None = None
    notes: Notes | None = None
    reason: Why | None = None
    force: bool = False


class Release(Strict, frozen=True):
    token: ClaimToken | None = None
    available_at: Moment | None = None
    notes: Notes | None = None
    reason: Why | None = None
    force: bool = False
    counted: Annotated[bool, Meta(description="false: do not count this as an attempt")] = True


class Requeue(Strict, frozen=True):
    token: ClaimToken | None = None
    available_at: Moment | None = None
    notes: Notes | None = None
    reason: Why | None = None


class DispatchOrder(Strict, frozen=True):
    assigned_agent: AgentName | None = None
    notes: Notes | None = None
    reason: Why | None = None


class Cancel(Strict, frozen=True):
    notes: Notes | None = None
    reason: Why | None = None


class Hold(Strict, frozen=True):
    reason: Annotated[
        str,
        Meta(
            max_length=LONGEST["hold_reason"],
            pattern=_WRITTEN,
            extra={"empty": "say why nobody may begin it"},
        ),
    ]


class Unhold(Strict, frozen=True):
    pass


class Note(Strict, frozen=True):
    notes: Annotated[str, Meta(min_length=1, max_length=LONGEST["notes"])]
    token: ClaimToken | None = None


# query parameters


class WorkQuery(Strict, frozen=True):
    status: tuple[StatusName, ...] = ()
    agent: Wanted | None = None
    project_id: Wanted | None = None
    type: Wanted | None = None
    label: Wanted | None = None
    q: Wanted | None = None
    since: Moment | None = None
    updated_since: Moment | None = None
    id_prefix: IdPrefix | None = None
    ready: bool = False
    limit: Limit = 50
    cursor: Cursor | None = None


class PageQuery(Strict, frozen=True):
    limit: Limit = 50
    cursor: Cursor | None = None


class AgentQuery(Strict, frozen=True):
    timezone: ZoneName = "UTC"


class EventQuery(Strict, frozen=True):
    after: Annotated[int, Meta(ge=0, le=_LAST_SEQ)] | UnsetType = UNSET
    limit: Limit = 50
    work_item_id: Id | None = None
    type: tuple[EventName, ...] = ()
