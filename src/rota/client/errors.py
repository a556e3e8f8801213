"""Answers of the server as errors: the tree of `rota.model.errors`, and three of the client.

RotaError
├── …                      every refusal, as the server meant it: ClaimLost, NotFound, InvalidInput
├── ConnectionFailed       no answer; `sent` says whether the request may have been carried out
└── ServerFailed           an answer that is not Rota's: a crash, a proxy, another program
    └── ServerUnavailable  the same, but temporary: 408, 429, 502, 503, 504

`StorageUnavailable`, `ServerUnavailable` and `ConnectionFailed` are worth a retry; see
`rota.client.retries` for when that is safe.
"""

import json
from typing import Any

from rota.client.transport import Answer
from rota.model import errors
from rota.model.errors import (
    Forbidden,
    InvalidInput,
    NotFound,
    Refused,
    RotaError,
    StorageUnavailable,
    Unauthenticated,
    VersionMismatch,
)


class ConnectionFailed(RotaError):
    code = "connection_failed"

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, sent=sent)
        self.sent = sent


class ServerFailed(RotaError):
    code = "server_error"


class ServerUnavailable(ServerFailed):
    code = "server_unavailable"


PASSING = (ConnectionFailed, ServerUnavailable, StorageUnavailable)

_BY_STATUS: dict[int, type[RotaError]] = {
    400: InvalidInput,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    405: InvalidInput,
    408: ServerUnavailable,
    409: Refused,
    412: VersionMismatch,
    413: InvalidInput,
    415: InvalidInput,
    421: InvalidInput,
    422: InvalidInput,
    429: ServerUnavailable,
    431: InvalidInput,
    502: ServerUnavailable,
    503: ServerUnavailable,
    504: ServerUnavailable,
}
_OF_THE_FORM = frozenset({"type", "title", "status", "detail", "code", "instance"})


# Only codes of the ledger; a face's own codes are told apart by their status.
_BY_CODE: dict[str, type[RotaError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RotaError)
}


def _class_of(code: object, status: int) -> type[RotaError]:
    return _BY_CODE.get(str(code)) or _BY_STATUS.get(status, ServerFailed)


def error_of(answer: Answer) -> RotaError:
    """The error for an answer with a status of 300 or more."""
    problem = _problem(answer)
    code = problem.get("code")
    kind = _class_of(code, answer.status)
    details = {name: value for name, value in problem.items() if name not in _OF_THE_FORM}
    if retry_after := answer.headers.get("retry-after"):
        details["retry_after"] = retry_after
    if code is not None and code != kind.code:
        details["code"] = code
    message = problem.get("detail") or problem.get("title") or _blank(answer)
    return kind(str(message), **{**details, "http_status": answer.status})


def _problem(answer: Answer) -> dict[str, Any]:
    """A proxy, or another server, may answer with anything."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _blank(answer: Answer) -> str:
    if 300 <= answer.status < 400:
        return f"the server answered {answer.status} and wants us elsewhere; check ROTA_URL"
    return f"the server answered {answer.status} and did not say why; is it a Rota server?"
