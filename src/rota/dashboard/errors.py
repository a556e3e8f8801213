"""Error pages for a browser. None of them asks the database, which may be the cause."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from rota.api.answers import Answer
from rota.api.asgi import Headers, Scope
from rota.api.cookies import signed, signing_out
from rota.api.problems import headers, status_of
from rota.api.routing import Endpoint
from rota.dashboard.rendering import HTML, render
from rota.dashboard.signing import address, led_to
from rota.model.access import Caller
from rota.model.clock import SystemClock, to_text
from rota.model.errors import InvalidInput, RotaError, StorageError, Unauthenticated

_JSON = ("application/json", "application/problem+json")
_TITLES: Mapping[int, str] = {
    400: "Not understood",
    403: "Not allowed",
    404: "Not found",
    422: "Not understood",
    500: "Something went wrong",
}
_AWAY = "The database does not answer"


def error_page(error: RotaError, scope: Scope, endpoint: Endpoint | None) -> Answer | None:
    """None for programs, which get a problem document."""
    asked: Headers = dict(scope["headers"])
    if not _is_for_a_person(asked, endpoint):
        return None
    if isinstance(error, Unauthenticated):
        return _unknown(error, scope, asked)
    return _page(error, scope, found=endpoint is not None)


def _is_for_a_person(asked: Headers, endpoint: Endpoint | None) -> bool:
    accept = asked.get(b"accept", b"").decode("latin-1").lower()
    page, data = _weight(accept, "text/html"), max(_weight(accept, one) for one in _JSON)
    of_dashboard = endpoint is not None and endpoint.tag == "dashboard"
    return page > data or (page == data and (page > 0 or of_dashboard))


def _weight(accept: str, media_type: str) -> float:
    """The weight of a media type that is named itself; programs say `*/*`."""
    for one in accept.split(","):
        name, *parameters = (part.strip() for part in one.split(";"))
        if name == media_type:
            return next((_number(part[2:]) for part in parameters if part.startswith("q=")), 1.0)
    return 0.0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _unknown(error: RotaError, scope: Scope, asked: Headers) -> Answer | None:
    """Redirects a person to the sign-in form. A client that sent an Authorization header, or a
    script, gets a status instead."""
    if b"authorization" in asked or asked.get(b"sec-fetch-mode", b"navigate") != b"navigate":
        return None
    if scope["method"] not in ("GET", "HEAD"):
        return _page(error, scope, found=True)
    path, query = scope.get("raw_path") or b"/", scope["query_string"]
    wanted = (path + b"?" + query if query else path).decode("latin-1")
    return led_to(address(wanted), signing_out() if signed(asked) else [])


def _page(error: RotaError, scope: Scope, *, found: bool) -> Answer:
    status = status_of(error)
    away = status == 503 and isinstance(error, StorageError)
    title = _AWAY if away else _TITLES.get(status, HTTPStatus(status).phrase)
    # A message about the database may say where it is, and no token has been checked yet. For an
    # unknown path the title says enough.
    parameter, message = _parameter(error)
    said = _sentence(message, parameter) if found and not away else None
    values = {"status": status, "title": title, "said": said, "path": scope["path"][:200]}
    values |= {"away": away, "parameter": parameter}
    values["required"] = error.details.get("required")
    kept = [(name.encode(), value.encode()) for name, value in headers(error).items()]
    return Answer(status, render("error.html", _frame(scope) | values), HTML, kept)


def _frame(scope: Scope) -> dict[str, Any]:
    caller: Caller | None = scope.get("rota.caller")
    known = caller is not None and caller.name != "anyone"
    return {
        "here": "",
        "last_event": 0,
        "attention": 0,
        "now": to_text(SystemClock().now()),
        "viewer": caller.name if caller and known else None,
    }


def _parameter(error: RotaError) -> tuple[str | None, str]:
    """The part of the address that the error is about, and what is wrong with it."""
    name = error.details.get("field")
    named = isinstance(error, InvalidInput) and error.message.startswith(f"{name}: ")
    return (name, error.message.removeprefix(f"{name}: ")) if named else (None, error.message)


def _sentence(text: str, parameter: str | None) -> str:
    """Goes on behind the name of a parameter, if there is one."""
    begun = text if parameter else text[:1].upper() + text[1:]
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."
