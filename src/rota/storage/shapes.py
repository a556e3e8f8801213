"""The records of an export: one kind for each table, their fields in the order of the file.

Not exported: API tokens (secrets), the index of labels (it follows from the items), the rosters of
nodes (each server writes its own when it starts), and the list of migrations.
"""

from dataclasses import dataclass
from enum import StrEnum

from rota.storage.primitives import Row


class FieldType(StrEnum):
    TEXT = "text"
    ID = "id"  # may become part of a path
    NAME = "name"  # of an agent or a schedule; may become part of a path
    TIME = "time"
    WHOLE = "whole"
    REAL = "real"
    FLAG = "flag"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: FieldType
    optional: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of record.

    `hidden` is a column that is never exported; the import writes a new secret value there, if
    `hidden_with` is None or that field has a value. `within` narrows the table to one project, if
    the table allows that; `counted` are fields that must then be counted again. `later` are fields
    that files of an older Rota lack, each with the field whose value it takes, or None for null.
    Such files may be sorted by the `older_key`.
    """

    kind: str
    table: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]
    hidden: str | None = None
    hidden_with: str | None = None
    within: str | None = None
    kept: str = "1 = 1"  # which rows are worth exporting at all
    counted: tuple[tuple[str, str], ...] = ()
    later: tuple[tuple[str, str | None], ...] = ()
    older_key: tuple[str, ...] = ()

    def key_of(self, row: Row) -> Row:
        return self.values(row, self.key)

    def values(self, row: Row, names: tuple[str, ...]) -> Row:
        places = [field.name for field in self.fields]
        return tuple(row[places.index(name)] for name in names)


def _field(word: str) -> Field:
    name, _, kind = word.partition(":")
    return Field(name, FieldType(kind.rstrip("?") or "text"), kind.endswith("?"))


def _shape(
    kind: str,
    table: str,
    key: str,
    fields: str,
    *,
    hidden: str | None = None,
    hidden_with: str | None = None,
    within: str | None = None,
    kept: str = "1 = 1",
    counted: tuple[tuple[str, str], ...] = (),
    later: tuple[tuple[str, str | None], ...] = (),
    older_key: str = "",
) -> Shape:
    named, keys, older = tuple(map(_field, fields.split())), key.split(), older_key.split()
    return Shape(
        kind, table, tuple(keys), named, hidden, hidden_with, within, kept, counted, later,
        tuple(older),
    )  # fmt: skip


_OF_ITEMS = "work_item_id IN (SELECT id FROM work_items WHERE project_id = :project)"
_OF_SIGNALS = f"signal_id IN (SELECT id FROM work_signals WHERE {_OF_ITEMS})"

# Links to items of other projects are left out, so they must not be counted either.
_OPEN_BLOCKERS = """(SELECT count(*) FROM work_item_links l
  JOIN work_items b ON b.id = l.blocker_id
  WHERE l.work_item_id = work_items.id AND b.project_id = :project AND b.status <> 'completed')"""
_DEPENDENTS = """(SELECT count(*) FROM work_item_links l
  JOIN work_items d ON d.id = l.work_item_id
  WHERE l.blocker_id = work_items.id AND d.project_id = :project)"""

# In the order of a file: records come before those that refer to them, and events before the
# signals that would react to them.
SHAPES: tuple[Shape, ...] = (
    _shape(
        "project",
        "projects",
        "id",
        "id:id name external_ref:text? created_at:time updated_at:time",
        within="id = :project",
    ),
    _shape(
        "agent",
        "agents",
        "name",
        "name:name max_concurrent:whole max_in_review:whole? paused:flag created_at:time"
        " updated_at:time",
        later=(("max_in_review", None),),
    ),
    _shape(
        "agent_limit",
        "agent_limits",
        "agent",
        "agent:name failures:whole breaker_until:time? usage_until:time? note:text?"
        " updated_at:time",
    ),
    _shape(
        "node",
        "nodes",
        "id",
        "id:id place pid:whole started_at:time seen_at:time ended_at:time?",
    ),
    _shape(
        "item",
        "work_items",
        "id",
        "id:id project_id:id? type description body:text? payload:json? priority:whole status"
        " reason:text? assigned_agent:name? pinned:flag slot:whole? created_by:text?"
        " created_at:time updated_at:time completed_at:time? outcome:text? notes:text?"
        " labels:json artifact_url:text? attempts:whole max_attempts:whole available_at:time?"
        " deferred:flag hold_reason:text? hold_by:text? open_blockers:whole dependents:whole"
        " epoch:whole lease_expires_at:time? heartbeat_at:time? progress:text? version:whole"
        " source:text? source_ref:text? came_from:text?",
        hidden="claim_token",
        hidden_with="lease_expires_at",
        within="project_id = :project",
        counted=(("open_blockers", _OPEN_BLOCKERS), ("dependents", _DEPENDENTS)),
    ),
    _shape(
        "link",
        "work_item_links",
        "work_item_id blocker_id",
        "work_item_id:id blocker_id:id",
        within=f"{_OF_ITEMS} AND blocker_id IN"
        " (SELECT id FROM work_items WHERE project_id = :project)",
    ),
    _shape(
        "dispatch",
        "dispatch_log",
        "work_item_id id",
        "id:id work_item_id:id dispatched_at:time agent completed_at:time? outcome:text?",
        within=_OF_ITEMS,
        older_key="id",
    ),
    _shape(
        "claim",
        "claims",
        "work_item_id epoch",
        "work_item_id:id epoch:whole agent slot:whole claimed_at:time lease_seconds:real",
        hidden="token",
        within=_OF_ITEMS,
    ),
    _shape(
        "source_claim",
        "source_claims",
        "firing_id",
        "firing_id source source_ref work_item_id:id epoch:whole codename fleet nonce"
        " entry_id:whole? created_at:time ended_at:time? outcome:text? given_back_at:time?",
        within=_OF_ITEMS,
        later=(("given_back_at", "ended_at"),),
    ),
    _shape(
        "review",
        "reviews",
        "work_item_id",
        "work_item_id:id source address found looked_at:time",
        within=_OF_ITEMS,
    ),
    _shape(
        "approval",
        "approvals",
        "source source_ref text_hash",
        "source source_ref text_hash approved_by:whole approved_at:time seen_at:time",
    ),
    _shape(
        "source_state",
        "source_states",
        "source",
        "source polled_at:time? poll_error:text? swept_at:time? warning:text?"
        " settle_seconds:real? requests:whole rate_remaining:whole? rate_limit:whole?"
        " rate_reset_at:time?",
    ),
    _shape("fleet", "fleet", "only_one", "only_one:whole id"),
    _shape(
        "event",
        "events",
        "seq",
        "seq:whole type occurred_at:time actor:text? work_item_id:text? project_id:text?"
        " agent:text? reason:text? from_status:text? to_status:text? epoch:whole? data:json",
        within=f"(project_id = :project OR {_OF_ITEMS})",
    ),
    _shape(
        "signal",
        "work_signals",
        "id",
        "id:id work_item_id:id? name:text? trigger_kind trigger_spec:json action:json status"
        " max_fires:whole? fires:whole max_depth:whole expires_at:time? created_by:text?"
        " configured:flag created_at:time updated_at:time last_fired_at:time?"
        " last_fired_seq:whole",
        within=_OF_ITEMS,
    ),
    _shape("signal_key", "signal_keys", "key signal_id", "key signal_id:id", within=_OF_SIGNALS),
    _shape(
        "firing",
        "work_signal_firings",
        "id",
        "id:id signal_id:id dedupe_key event_seq:whole? work_item_id:text? status attempt:whole"
        " next_attempt_at:time created_at:time lease_owner:text? lease_expires_at:time?"
        " processed_at:time? error:text? result:json",
        within=_OF_SIGNALS,
    ),
    _shape(
        "follow_up",
        "work_item_tasks",
        "id",
        "id:id work_item_id:id signal_id:text? firing_id:text? title body:text? status agent:text?"
        " created_at:time holder:text? lease_expires_at:time? attempts:whole completed_at:time?"
        " outcome:text? notes:text?",
        hidden="lease_token",
        hidden_with="lease_expires_at",
        within=_OF_ITEMS,
    ),
    _shape(
        "lineage",
        "signal_lineage",
        "work_item_id",
        "work_item_id:id parent_id:text? signal_id follows_id:text?",
        within=_OF_ITEMS,
    ),
    _shape(
        "schedule",
        "schedules",
        "agent name",
        "agent:name name:name type definition configured:flag enabled:flag next_at:time?"
        " slot:time? source:text? last_run_at:time? last_completed_at:time? last_error:text?"
        " last_skip_reason:text? last_skip_at:time? last_skip_detail:text? skip_count:whole"
        " trigger_count:whole",
    ),
    _shape(
        "trigger",
        "triggers",
        "id",
        "id:id agent:name schedule:name slot kind node triggered_at:time message:text?"
        " ended_at:time? outcome:text? error:text?",
    ),
    _shape(
        "run",
        "runs",
        "id",
        "id:id agent:name schedule:text? trigger_kind trigger_id:text? node work_item_id:text?"
        " epoch:whole? item_title:text? attempt:whole? started_at:time ended_at:time? status"
        " summary:text? artifacts:json error:text? exit_code:whole? session_id:text?"
        " input_tokens:whole output_tokens:whole cost_usd:real? turns:whole? seconds:real?"
        " hook_errors:json cancel_requested:flag",
        within=_OF_ITEMS,
    ),
    _shape(
        "report",
        "outbox",
        "id",
        "id kind agent:text? subject payload:json created_at:time attempts:whole"
        " next_attempt_at:time delivered_at:time? failed_at:time? error:text?",
        kept="delivered_at IS NULL",
    ),
    _shape("notify_mark", "notify_marks", "name", "name value"),
    _shape(
        "notice",
        "notices",
        "id",
        "id channel bundle event_seq:whole content created_at:time due_at:time",
    ),
    _shape("declaration", "declarations", "kind name home", "kind name home wanted:flag"),
    _shape("delivery", "deliveries", "id", "id received_at:time"),
    _shape(
        "request",
        "idempotency_keys",
        "key",
        "key request_hash item_ids:json created_at:time",
    ),
)

BY_KIND = {shape.kind: shape for shape in SHAPES}
