# Made from ../_async/calls.py by tools/generate_sync_client.py: change it there.

"""One call of the API: headers, retries, errors and pages."""

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from rota.client._sync import runtime
from rota.client.errors import ServerFailed, error_of
from rota.client.retries import Retries
from rota.client.transport import Answer, Request, SyncTransport
from rota.model.errors import InvalidInput, NotFound, RotaError
from rota.model.work import MAX_PAGE
from rota.surroundings import environ

log = logging.getLogger("rota.client")

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_TIMEOUT = 30.0

Json = dict[str, Any]


class Calls:
    """What all calls share. `url` and `token` default to ROTA_URL and ROTA_TOKEN."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        actor: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries | None = None,
        transport: SyncTransport | None = None,
    ) -> None:
        self._token = plain_token(token or environ.get("ROTA_TOKEN") or "")
        self._actor = actor
        self._timeout = timeout
        self._retries = retries or Retries()
        self._transport = transport or runtime.default_transport(
            url or environ.get("ROTA_URL") or DEFAULT_URL
        )

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = False,
        timeout: float | None = None,
    ) -> Any:
        request = self._request(method, path, body, query=query, headers=headers, timeout=timeout)
        return content(self._answered(request, repeatable or method == "GET"))

    def _one(self, method: str, path: str, body: Any = None, **how: Any) -> Json:
        answer = self._call(method, path, body, **how)
        if not isinstance(answer, dict):
            raise not_ours()
        return answer

    def _many(self, method: str, path: str, body: Any = None, **how: Any) -> list[Json]:
        answer = self._call(method, path, body, **how)
        if not isinstance(answer, list):
            raise not_ours()
        return answer

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Request:
        return Request(
            method,
            path + _query(query or {}),
            {**self._headers(body is not None), **(headers or {})},
            None if body is None else encoded(body),
            self._timeout if timeout is None else timeout,
        )

    def _headers(self, with_body: bool) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if with_body:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._actor:
            headers["Rota-Actor"] = header_text(self._actor)
        return headers

    def _answered(self, request: Request, repeatable: bool) -> Answer:
        attempt = 1
        while True:
            try:
                return checked(self._transport.send(request))
            except RotaError as error:
                if not self._retries.again(attempt, error, repeatable):
                    raise
                log.info("%s %s again: %s", request.method, request.path, error.message)
                runtime.sleep(self._retries.pause(attempt, error))
                attempt += 1

    def _each(self, path: str, query: Json, limit: int | None = None) -> Iterator[Json]:
        """Entries of a list. Pages are fetched as they are needed."""
        left = limit
        query = {**query, "limit": MAX_PAGE if limit is None else min(limit, MAX_PAGE)}
        while left is None or left > 0:
            answer = self._answered(self._request("GET", path, query=query), True)
            page = content(answer)
            if not isinstance(page, list):
                raise not_ours()
            yield from page[:left]
            cursor = next_cursor(answer.headers.get("link", ""))
            if cursor is None:
                return
            left = None if left is None else left - len(page)
            query["cursor"] = cursor


def segment(value: str) -> str:
    """An id as one part of a path. Servers decode a path before they split it, so an encoded slash
    is a slash: an id that could lead to another path is refused."""
    if value in ("", ".", "..") or "/" in value:
        raise NotFound(f"there is nothing with the id {value[:100]!r}", id=value[:100])
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise NotFound("an id does not contain half a surrogate pair") from None


def plain_token(token: str) -> str:
    """White space around a token, such as a file's last line feed, is removed. A token that no
    header can hold is refused."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise InvalidInput("the token (ROTA_TOKEN) holds characters that no token has")
    return token


def header_text(value: str) -> str:
    """UTF-8 bytes written as Latin-1, which is all that a header may hold; on one line."""
    plain = "".join(letter for letter in value if letter.isprintable())
    return plain.encode(errors="replace").decode("latin-1")


def encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidInput("the request contains half a surrogate pair") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the request cannot be written as JSON: {error}") from None


def checked(answer: Answer) -> Answer:
    if answer.status >= 300:
        raise error_of(answer)
    return answer


def content(answer: Answer) -> Any:
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise not_ours() from None


def not_ours() -> ServerFailed:
    return ServerFailed("this is no answer of ours; is there a Rota server at this address?")


def given(**fields: Any) -> Json:
    """The fields that are not None. The server has defaults for the others."""
    return {name: value for name, value in fields.items() if value is not None}


def next_cursor(link: str) -> str | None:
    """Only the cursor is taken from the Link header: the server does not choose the address."""
    for part in link.split(","):
        target, _, parameters = part.strip().partition(">")
        if 'rel="next"' in parameters:
            return parse_qs(urlsplit(target.lstrip("<")).query).get("cursor", [None])[0]
    return None


def _query(query: Mapping[str, Any]) -> str:
    named = {name: value for name, value in query.items() if value not in (None, (), [], "")}
    try:
        return f"?{urlencode(named, doseq=True)}" if named else ""
    except UnicodeEncodeError:
        raise InvalidInput("the query contains half a surrogate pair") from None
