"""The arguments of the tools, described for agents. The ledger checks their values."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert, json

from rota.model.errors import InvalidInput

Text = str
Id = Annotated[str, Meta(description="The item's id.")]
Token = Annotated[
    str | None,
    Meta(
        description="The claim's token from work_claim. Not needed in the stdio conversation that"
        " claimed the item."
    ),
]
Agent = Annotated[
    str | None,
    Meta(description="Your agent name; required unless the server or your API token names it."),
]
StatusName = Literal[
    "queued", "dispatched", "in_progress", "blocked", "in_review", "completed", "failed",
    "cancelled",
]  # fmt: skip


class Arguments(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class List(Arguments, frozen=True):
    ready: Annotated[bool, Meta(description="Only items that can be claimed now.")] = False
    status: list[StatusName] | None = None
    agent: Annotated[
        str | None, Meta(description="Only items of this agent; with ready, items it can claim.")
    ] = None
    type: Text | None = None
    label: Text | None = None
    project_id: Text | None = None
    search: Annotated[str | None, Meta(description="Text in its title or body.")] = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class Show(Arguments, frozen=True):
    id: Id


class Claim(Arguments, frozen=True):
    agent: Agent = None
    id: Annotated[
        str | None, Meta(description="Claim exactly this item; default: the best one.")
    ] = None
    types: list[str] | None = None
    labels: list[str] | None = None
    project_id: Text | None = None
    lease_seconds: Annotated[
        float | None,
        Meta(description="How long the claim holds without a sign of life; default 900."),
    ] = None
    wait_seconds: Annotated[float, Meta(ge=0, le=30, description="Wait this long for an item.")] = 0


class Progress(Arguments, frozen=True):
    id: Id
    token: Token = None
    progress: Annotated[
        str | int | float | None, Meta(description="How far you are, in a few words.")
    ] = None
    notes: Annotated[str | None, Meta(description="A lasting note on the item.")] = None


class Complete(Arguments, frozen=True):
    id: Id
    notes: Annotated[str | None, Meta(description="What was done, and how it was checked.")] = None
    token: Token = None
    artifact_url: Annotated[str | None, Meta(description="Address of the result: a PR.")] = None
    review: Annotated[
        bool, Meta(description="true: artifact_url must be reviewed before the item is done.")
    ] = False


class Return(Arguments, frozen=True):
    id: Id
    how: Annotated[
        Literal["release", "block", "fail"],
        Meta(
            description="release: back to the queue, others may take it. block: it waits for what"
            " notes names. fail: it cannot be done."
        ),
    ]
    notes: Annotated[str, Meta(description="Why, and what you found out, for the next agent.")]
    token: Token = None


class Add(Arguments, frozen=True):
    description: Annotated[str, Meta(description="One line: what to do.")]
    type: Annotated[str, Meta(description="Type of work: bug_fix, chore, …")] = "work"
    body: Annotated[str | None, Meta(description="Details, in Markdown.")] = None
    priority: Annotated[int, Meta(ge=1, le=5, description="1 is the highest.")] = 3
    labels: list[str] | None = None
    blocked_by: Annotated[list[str] | None, Meta(description="Ids of items it waits for.")] = None
    assigned_agent: Annotated[str | None, Meta(description="Only this agent may take it.")] = None
    project_id: Text | None = None
    payload: Annotated[dict[str, Any] | None, Meta(description="Data for programs.")] = None
    idempotency_key: Annotated[
        str | None, Meta(description="The same key never adds a second item.")
    ] = None


class SignalAdd(Arguments, frozen=True):
    on_status: Annotated[
        list[StatusName], Meta(description="Fires when an item enters one of these.")
    ]
    title: Annotated[str, Meta(description="Title of the new item.")]
    item_id: Annotated[str | None, Meta(description="Only this item; default: any item.")] = None
    of_type: Annotated[str | None, Meta(description="Only items of this type.")] = None
    body: Text | None = None
    assigned_agent: Annotated[
        str | None, Meta(description="Only this agent may take the new item.")
    ] = None
    max_fires: Annotated[int, Meta(ge=1, description="How often it may fire.")] = 1


class ScheduleTrigger(Arguments, frozen=True):
    agent: Annotated[str, Meta(description="The agent to wake.")]
    schedule: Annotated[str, Meta(description="The schedule's name.")]
    message: Annotated[str | None, Meta(description="Text for the agent.")] = None


def read(kind: type[Arguments], given: dict[str, Any] | None) -> Any:
    """Forgiving in form ("3" is a number), because models are not strict; strict in content."""
    try:
        return convert(given or {}, kind, strict=False)
    except ValidationError as error:
        # Not at the top: the HTTP face is large, and an agent's process starts without it.
        from rota.api.mistakes import invalid  # noqa: PLC0415

        raise InvalidInput(invalid(error, kind, given or {}).message) from None


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """As small as possible: a model reads all schemas before it begins."""
    (one,) = (part for name, part in json.schema(kind)["$defs"].items() if name == kind.__name__)
    required = {"required": one["required"]} if one["required"] else {}
    return {
        "type": "object",
        "properties": {name: _small(part) for name, part in one["properties"].items()},
        **required,
        "additionalProperties": False,
    }


def _small(part: dict[str, Any]) -> dict[str, Any]:
    """Optional arguments are simply not required; their null need not be offered, too."""
    chosen = [one for one in part.pop("anyOf", ()) if one != {"type": "null"}]
    if part.get("default", 0) is None:
        del part["default"]
    whole = {**(chosen[0] if chosen else {}), **part}
    return {"type": "string", **whole} if "enum" in whole else whole
