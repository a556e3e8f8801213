"""Every error of ours, as one tree.

RotaError
├── InvalidInput            the request cannot be right, whatever the state        422
│   ├── MissingRequirement  the verb needs a field that was not given              422
│   └── BadCursor           a page cursor that we did not hand out                 400
├── NotFound                no such item, project, agent, token, route             404
├── Refused                 right in form, but not in this state                   409
│   ├── TransitionRefused   the status machine has no such arrow from here
│   ├── ClaimLost           the caller's claim has ended; somebody else may own it
│   ├── ClaimedByAnother    the item is claimed and no token was given
│   ├── NoFreeSlot          the agent works on as many items as it may
│   │   └── InReviewLimit   too much of its work waits for a review
│   └── KeyReused           an Idempotency-Key came back with another request
├── VersionMismatch         If-Match named a version that has passed               412
├── Unauthenticated         no token, or one that we do not know                   401
├── Forbidden               the token lacks the scope                              403
├── StorageError
│   ├── NoLedger            nobody has made one here yet, and reading does not     500
│   ├── StorageUnavailable  locked, full, read-only, unreachable: ask again        503
│   │   ├── StorageBusy     this change was in others' way; another may succeed    503
│   │   └── CommitUnknown   the connection broke while committing: ask what stands 503
│   ├── SchemaBehind        the database wants `rota db upgrade`                   503
│   └── SchemaAhead         the database was written by a newer Rota               503
├── WorkSourceError         a place that work comes from cannot do what was asked  502
│   ├── UnknownWorkSourceError    no adapter of this type is registered            422
│   ├── DuplicateWorkSourceError  the type is registered already                   409
│   ├── MalformedReference        not an item id or issue reference of this source 422
│   ├── IssueNotFound             deleted, transferred or hidden                   404
│   ├── PauseUnreadable           the list of paused repositories cannot be read   503
│   └── TrackerError              the tracker refused, or could not be reached
│       └── AnswerUnknown         no answer: the write may have taken effect
├── DeliveryFailed          whoever was to be told did not take it                 502
└── SchedulerError          the scheduler cannot do what was asked                 500
    ├── IntervalParseError        not an interval like 5m                          422
    ├── CronParseError            not a cron expression, or one that never comes   422
    ├── ScheduleTriggerError      a schedule's agent could not be woken            500
    └── SchedulerShutdownError    runs did not end within the time for stopping    503

`code` is for programs and never changes; the message is for people and says what to do.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class RotaError(Exception):
    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details


class InvalidInput(RotaError):
    code = "invalid_input"


class MissingRequirement(InvalidInput):
    code = "missing_requirement"


class BadCursor(InvalidInput):
    code = "bad_cursor"


class NotFound(RotaError):
    code = "not_found"


class Refused(RotaError):
    code = "refused"


class TransitionRefused(Refused):
    code = "transition_refused"


class ClaimLost(Refused):
    code = "claim_lost"


class ClaimedByAnother(Refused):
    code = "claimed"


class NoFreeSlot(Refused):
    code = "no_free_slot"


class InReviewLimit(NoFreeSlot):
    code = "in_review_limit"


class KeyReused(Refused):
    code = "idempotency_key_reused"


class VersionMismatch(RotaError):
    code = "version_mismatch"


class Unauthenticated(RotaError):
    code = "unauthenticated"


class Forbidden(RotaError):
    code = "forbidden"


class StorageError(RotaError):
    code = "storage_error"


class NoLedger(StorageError):
    code = "no_ledger"


class StorageUnavailable(StorageError):
    code = "storage_unavailable"


class StorageBusy(StorageUnavailable):
    code = "storage_busy"


class CommitUnknown(StorageUnavailable):
    code = "commit_unknown"


class SchemaBehind(StorageError):
    code = "schema_behind"


class SchemaAhead(StorageError):
    code = "schema_ahead"


class WorkSourceError(RotaError):
    code = "work_source_error"


class UnknownWorkSourceError(WorkSourceError):
    code = "unknown_work_source"


class DuplicateWorkSourceError(WorkSourceError):
    code = "duplicate_work_source"


class MalformedReference(WorkSourceError):
    code = "malformed_reference"


class IssueNotFound(WorkSourceError):
    code = "issue_not_found"


class PauseUnreadable(WorkSourceError):
    code = "pause_unreadable"


class TrackerError(WorkSourceError):
    code = "tracker_error"


class AnswerUnknown(TrackerError):
    code = "answer_unknown"


class DeliveryFailed(RotaError):
    code = "delivery_failed"

    def __init__(
        self, message: str, *, final: bool = False, after: float | None = None, **details: Any
    ) -> None:
        """`final`: it will not be taken later either. `after`: not before so many seconds."""
        super().__init__(message, **details)
        self.final = final
        self.after = after


class SchedulerError(RotaError):
    code = "scheduler_error"


class IntervalParseError(SchedulerError):
    code = "interval_parse_error"

    @property
    def interval(self) -> str:
        """The text as it was given."""
        return str(self.details["interval"])


class CronParseError(SchedulerError):
    code = "cron_parse_error"

    @property
    def expression(self) -> str:
        """The text as it was given."""
        return str(self.details["expression"])


class ScheduleTriggerError(SchedulerError):
    code = "schedule_trigger_error"

    @property
    def context(self) -> Mapping[str, Any]:
        """`agent` and `schedule`."""
        return self.details


class SchedulerShutdownError(SchedulerError):
    code = "scheduler_shutdown_error"

    @property
    def context(self) -> Mapping[str, Any]:
        """`timed_out`, and `running_job_count`."""
        return self.details
