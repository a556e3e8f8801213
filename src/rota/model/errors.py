"""All errors of Rota, as one tree, with their HTTP statuses.

RotaError
├── InvalidInput            the request is wrong in any state                      422
│   ├── MissingRequirement  the verb needs a field that was not given              422
│   └── BadCursor           a page cursor that we did not hand out                 400
├── NotFound                no such item, project, agent, token, route             404
├── Refused                 valid, but not possible in this state                  409
│   ├── TransitionRefused   the status machine has no such arrow from here
│   ├── ClaimLost           the caller's claim has ended; somebody else may own it
│   ├── ClaimedByAnother    the item is claimed and no token was given
│   ├── NoFreeSlot          the agent already works on as many items as it may
│   │   └── InReviewLimit   too many of its items are in review
│   └── KeyReused           an Idempotency-Key came back with another request
├── VersionMismatch         If-Match named a version that is not current           412
├── Unauthenticated         no token, or an unknown one                            401
├── Forbidden               the token lacks the scope                              403
├── StorageError
│   ├── NoLedger            there is no ledger here yet, and a read makes none     500
│   ├── StorageUnavailable  locked, full, read-only, unreachable: try again        503
│   │   ├── StorageBusy     too much contention for this change; others may pass   503
│   │   │   └── StorageLocked   another session has held a lock for too long       503
│   │   └── CommitUnknown   the connection broke at commit: read the result again  503
│   ├── SchemaBehind        the database needs `rota db upgrade`                   503
│   └── SchemaAhead         the database was written by a newer Rota               503
├── WorkSourceError         a source cannot do what was asked                      502
│   ├── UnknownWorkSourceError    no adapter of this type is registered            422
│   ├── DuplicateWorkSourceError  the type is registered already                   409
│   ├── MalformedReference        not an item id or issue reference of this source 422
│   ├── IssueNotFound             deleted, transferred or hidden                   404
│   ├── PauseUnreadable           the list of paused repositories cannot be read   503
│   └── TrackerError              the tracker refused, or could not be reached
│       └── AnswerUnknown         no answer: the write may have taken effect
├── DeliveryFailed          the receiver did not accept it                         502
└── SchedulerError          the scheduler cannot do what was asked                 500
    ├── IntervalParseError        not an interval like 5m                          422
    ├── CronParseError            not a cron expression, or one that never occurs  422
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


class StorageLocked(StorageBusy):
    code = "storage_locked"


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
        """`final`: the receiver will not accept it later either. `after`: seconds to wait before
        the next try."""
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

    @property
    def field(self) -> str | None:
        """`minute`, `hour`, `day-of-month`, `month` or `day-of-week`; `fields` if their number is
        wrong; None if it is not one field that is wrong."""
        return self.details.get("field")

    @property
    def example(self) -> str | None:
        """A valid expression, if one would help."""
        return self.details.get("example")


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
