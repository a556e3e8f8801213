"""The OpenAPI 3.1 document, built from the endpoints themselves."""

from collections.abc import Sequence
from http import HTTPStatus
from inspect import cleandoc
from typing import Any

import msgspec

from rota.api.routing import Endpoint
from rota.api.schemas import Problem
from rota.model.work import NAME

_REF = "#/components/schemas/{name}"

_HEADERS_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "Idempotency-Key": (
        "Names this request, so that a repeat does nothing new. `POST /work` and `POST /work/batch`"
        " answer 409 if the body differs.",
        {"type": "string", "pattern": "^[!-~]{1,150}$"},
    ),
    "If-Match": (
        "The item's `version`; 412 if the item has another one.",
        {"type": "string", "pattern": r'^(\*|(W/)?"?[0-9]{1,9}"?)$'},
    ),
    "Last-Event-ID": (
        "Resume an event stream after this event.",
        {"type": "string", "pattern": "^[0-9]{0,18}$"},
    ),
}
_HEADERS_IN |= {
    name: (text, {"type": "string", "pattern": "^[!-~]{1,150}$"})
    for names, text in (
        (
            ("X-Hub-Signature-256", "X-Gitea-Signature"),
            "HMAC-SHA256 of the body with the secret of the source or schedule, in hexadecimal.",
        ),
        (("X-GitHub-Delivery", "X-Gitea-Delivery"), "The id of the delivery; it counts once."),
        (("X-Gitlab-Token",), "The secret itself, as GitLab sends it."),
    )
    for name in names
}
_HEADERS_OUT = {
    "ETag": "The item's version, for `If-Match`.",
    "Link": 'The next page, as rel="next"; absent on the last one.',
    "Location": "The address of what was created.",
    "Rota-Last-Event": "The number of the last event, if `after` is beyond it.",
    "Rota-Reason": (
        "Why the list is empty: nothing_ready, no_free_slot, in_review_limit or agent_paused."
    ),
}
_PATH_SCHEMAS = {
    "id": {"type": "string", "maxLength": 100, "pattern": "^[A-Za-z0-9._-]+$"},
    "firing": {"type": "string", "maxLength": 100, "pattern": "^[A-Za-z0-9._:-]+$"},
    "name": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "agent": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "schedule": {"type": "string", "pattern": f"^{NAME.pattern}$"},
}
_REFUSALS = {
    400: "The body is not JSON, or the cursor is not valid",
    401: "No token, or one that is not valid",
    403: "The token lacks a scope, or the request comes from a page of another site",
    404: "Not found",
    405: "The path does not have this method; see `Allow`",
    408: "The rest of the request did not arrive in time",
    409: "The request does not fit the present state; see `code` and `allowed`",
    412: "`If-Match` does not name the present version",
    413: "The body is too large",
    415: "The body is not `application/json`, or it is compressed",
    421: "The server does not answer to that host name",
    422: "A field is wrong or missing; see `errors`",
    429: "Too many wrong tokens from this address",
    431: "Request line and headers are too large",
    500: "An error of the server",
    503: "The database cannot be reached, is full or locked, or the server stops; try again",
}
_ALWAYS = (401, 403, 405, 408, 421, 429, 431, 500, 503)
_WITH_BODY = (400, 413, 415, 422)


def document(endpoints: Sequence[Endpoint], version: str, *, protected: bool) -> dict[str, Any]:
    """`protected`: without a token only /health answers."""
    shown = [one for one in endpoints if not one.hidden]
    types = [kind for one in shown for kind in (one.body, one.gives) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    found = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for one in shown:
        body = None if one.body is None else next(found)
        gives = None if one.gives is None else next(found)
        operation = _operation(one, body, gives)
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    components["Problem"]["additionalProperties"] = True
    for schema in components.values():  # before 3.13, Python leaves a docstring its indentation
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rota",
            "version": version,
            "description": "A durable ledger of work for fleets of agents.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}] if protected else [{"token": []}, {}],
        "tags": [{"name": tag} for tag in dict.fromkeys(one.tag for one in shown)],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {_name(status): _refusal(status) for status in _REFUSALS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Endpoint, body: Any, gives: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": one.name,
        "tags": [one.tag],
        "summary": one.summary,
        "description": "\n\n".join(filter(None, [one.text, _needs(one)])),
        "parameters": [*_path(one), *_query(one), *_headers(one)],
        "responses": _responses(one, gives),
    }
    if one.scope is None:
        operation["security"] = []
    if body is not None:
        operation["requestBody"] = {
            "required": not one.body_optional,
            "content": {"application/json": {"schema": body}},
        }
    elif one.accepts is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {one.accepts: {"schema": {"type": "string"}}},
        }
    return operation


def _needs(one: Endpoint) -> str:
    return "" if one.scope is None else f"Needs the scope `{one.scope}`."


def _path(one: Endpoint) -> list[dict[str, Any]]:
    names = [part.strip("{}") for part in one.path.split("/") if part.startswith("{")]
    return [
        {"name": name, "in": "path", "required": True, "schema": _PATH_SCHEMAS[name]}
        for name in names
    ]


def _query(one: Endpoint) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    _, components = msgspec.json.schema_components([one.query], ref_template=_REF)
    properties = components[one.query.__name__]["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _not_empty(_without_null(schema)),
        }
        for name, schema in properties.items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: a parameter is present or absent."""
    plain = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    kinds = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    default = {"default": schema["default"]} if schema.get("default") is not None else {}
    return {**plain, **(kinds[0] if kinds else {}), **default}


def _not_empty(schema: dict[str, Any]) -> dict[str, Any]:
    least = {"string": {"minLength": 1}, "array": {"minItems": 1}}
    return {**least.get(schema.get("type", ""), {}), **schema}


def _headers(one: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "description": text, "schema": schema}
        for name in one.takes
        for text, schema in [_HEADERS_IN[name]]
    ]


def _responses(one: Endpoint, gives: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        str(status): _success(one, status, None if status == 204 else gives)
        for status in (one.status, *one.also)
    }
    statuses = {*_ALWAYS, *one.refuses}
    if one.body is not None:
        statuses |= {*_WITH_BODY}
    if one.query is not None or one.scope is not None:  # also for one it does not take
        statuses |= {422}
    if "{" in one.path:
        statuses |= {404}
    if one.takes:
        statuses |= {422}
    for status in sorted(statuses):
        found[str(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
    return found


def _success(one: Endpoint, status: int, gives: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if one.sets:
        answer["headers"] = {
            name: {"description": _HEADERS_OUT[name], "schema": {"type": "string"}}
            for name in one.sets
        }
    if gives is not None:
        answer["content"] = {one.media_type.partition(";")[0]: {"schema": gives}}
    if one.name in ("list_events", "read_log"):
        answer["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return answer


def _name(status: int) -> str:
    return f"Status{status}"


def _refusal(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {
        "description": _REFUSALS[status],
        "content": {"application/problem+json": {"schema": schema}},
    }
