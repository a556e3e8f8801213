"""Every error as a problem document (RFC 9457). Only this module maps errors to statuses."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from rota.model.errors import (
    BadCursor,
    CronParseError,
    DeliveryFailed,
    DuplicateWorkSourceError,
    Forbidden,
    IntervalParseError,
    InvalidInput,
    IssueNotFound,
    MalformedReference,
    NotFound,
    PauseUnreadable,
    Refused,
    RotaError,
    SchedulerShutdownError,
    SchemaAhead,
    SchemaBehind,
    StorageUnavailable,
    Unauthenticated,
    UnknownWorkSourceError,
    VersionMismatch,
    WorkSourceError,
)


class FaceError(RotaError):
    """An error of the HTTP request itself, whatever the ledger would say to it."""

    status: ClassVar[int] = 400


class BadRequest(FaceError):
    code = "bad_request"


class BadJson(FaceError):
    code = "bad_json"


class MethodNotAllowed(FaceError):
    code = "method_not_allowed"
    status = 405


class RequestTimeout(FaceError):
    code = "request_timeout"
    status = 408


class TooLarge(FaceError):
    code = "too_large"
    status = 413


class UnsupportedMedia(FaceError):
    code = "unsupported_media_type"
    status = 415


class CrossOrigin(FaceError):
    code = "cross_origin"
    status = 403


class BadHost(FaceError):
    code = "bad_host"
    status = 421


class TooManyFailures(FaceError):
    code = "too_many_failures"
    status = 429


class HeadTooLarge(FaceError):
    code = "head_too_large"
    status = 431


class Stopping(FaceError):
    code = "stopping"
    status = 503


STATUS_OF: dict[type[RotaError], int] = {
    InvalidInput: 422,
    BadCursor: 400,
    NotFound: 404,
    Refused: 409,
    VersionMismatch: 412,
    Unauthenticated: 401,
    Forbidden: 403,
    StorageUnavailable: 503,
    SchemaBehind: 503,
    SchemaAhead: 503,
    WorkSourceError: 502,
    UnknownWorkSourceError: 422,
    DuplicateWorkSourceError: 409,
    MalformedReference: 422,
    IssueNotFound: 404,
    PauseUnreadable: 503,
    DeliveryFailed: 502,
    IntervalParseError: 422,
    CronParseError: 422,
    SchedulerShutdownError: 503,
}

# An error's details go into the document under their own names, unless the document itself has a
# field of that name.
_RENAMED = {"status": "item_status", "type": "of_type"}
_NOT_SHOWN = frozenset(
    {"field", "headers", "type", "title", "status", "detail", "instance", "code"}
)


def status_of(error: RotaError) -> int:
    if isinstance(error, FaceError):
        return error.status
    return next((STATUS_OF[kind] for kind in type(error).__mro__ if kind in STATUS_OF), 500)


def document(error: RotaError) -> dict[str, Any]:
    status = status_of(error)
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "code": error.code,
    }
    for name, value in error.details.items():
        if (shown := _RENAMED.get(name, name)) not in _NOT_SHOWN:
            problem[shown] = value
    if (field := error.details.get("field")) is not None:
        problem.setdefault("errors", [{"field": field, "message": error.message}])
    return problem


def headers(error: RotaError) -> Mapping[str, str]:
    if isinstance(error, Unauthenticated):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, StorageUnavailable):
        return {"retry-after": "1"}
    found: Mapping[str, str] = error.details.get("headers", {})
    return found


class Internal(RotaError):
    """What a caller is told of an internal error; the details are in the log."""

    code = "internal"
