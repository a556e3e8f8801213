"""Requests to a tracker's API: retries, waiting times, and allowed redirects.

A request is repeated when that is safe. Reads, and writes that may be sent twice, are `repeatable`.
Any other request is repeated only when it was certainly not carried out (the tracker reported a
limit, or the request was never sent). Otherwise its result is *unknown*, never failed.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlencode, urljoin

from rota.sources.http.answers import Answer
from rota.sources.http.cache import AnswerCache
from rota.sources.http.calls import Call, Failure, Patience, Service
from rota.sources.http.limits import (
    LimitWatch,
    RateLimitInfo,
    calculate_backoff_delay,
    extract_rate_limit_info,
)
from rota.sources.http.tokens import Token
from rota.sources.http.verdicts import Verdicts
from rota.sources.http.wire import Address, NoAnswer, Wire, origin_of

T = TypeVar("T")
Params = Mapping[str, str | int]
Follow = Callable[[str, str], Awaitable[bool]]

MAX_HOPS = 5

_REDIRECTS = frozenset({301, 302, 307, 308})
_MISSHAPEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class ApiClient:
    def __init__(
        self,
        *,
        service: Service,
        address: Address,
        token: Token,
        wire: Wire,
        patience: Patience,
        watch: LimitWatch,
        follow: Follow,
    ) -> None:
        self.verdicts = Verdicts(service, address, token, patience.clock)
        self._service = service
        self._address = address
        self._token = token
        self._wire = wire
        self._patience = patience
        self._watch = watch
        self._follow = follow
        self._cache = AnswerCache()
        self._barred: dict[str, datetime] = {}
        self.requests = 0  # requests sent, retries included
        self.limits: dict[str, RateLimitInfo] = {}  # by resource, as last reported

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def get(self, path: str, params: Params | None = None, *, fresh: bool = False) -> Answer:
        """`fresh`: with all headers; a "not modified" answer omits some."""
        return await self._ask(Call("GET", self.url(path, params), conditional=not fresh))

    async def write(
        self, method: str, path: str, content: Any = None, *, repeatable: bool = True
    ) -> Answer:
        body = None if content is None else json.dumps(content).encode()
        return await self._ask(Call(method, self.url(path), body, repeatable))

    async def wait(self, attempt: int) -> None:
        """Wait before looking again for something that may take a moment to become visible."""
        retry, rng = self._patience.retry, self._patience.rng
        await self._patience.pause(calculate_backoff_delay(attempt, retry, rng=rng))

    def mapped(self, make: Callable[[Any], T], answer: Answer) -> T:
        """Applies `make` to the answer. An answer of another shape is an error, never an empty
        result."""
        try:
            return make(answer.json())
        except _MISSHAPEN as error:
            raise self.verdicts.misshapen(answer) from error

    def url(self, path: str, params: Params | None = None) -> str:
        """A path below the API's address; full addresses are returned as they are."""
        url = path if path.startswith("http") else self._address.url + path
        return f"{url}?{urlencode(params)}" if params else url

    def here(self, base: str, link: str) -> str | None:
        """The target of a link on that page; None when it is on another host."""
        try:
            target = urljoin(base, link)
            return target if origin_of(target) == self._address.origin else None
        except ValueError:
            return None

    # Requests and retries

    async def _ask(self, call: Call) -> Answer:
        self._check_bar(call)
        until = asyncio.get_running_loop().time() + self._patience.timeouts.total
        attempt = 0
        while True:
            outcome = await self._outcome(call, until)
            if isinstance(outcome, Answer):
                return outcome
            delay = self._delay(call, outcome, attempt)
            if delay is None or asyncio.get_running_loop().time() + delay > until:
                raise outcome.error
            await self._patience.pause(delay)
            attempt += 1

    async def _outcome(self, call: Call, until: float) -> Answer | Failure:
        try:
            answer = await self._followed(call, until)
        except NoAnswer as silence:
            return self.verdicts.unanswered(call, silence)
        return answer if answer.ok else self.verdicts.refused(call, answer)

    def _delay(self, call: Call, failure: Failure, attempt: int) -> float | None:
        """None: do not retry."""
        retry = self._patience.retry
        if failure.wait is not None and failure.wait > retry.max_delay:
            self._bar(call, failure)
            return None
        if not failure.again or attempt >= retry.max_retries:
            return None
        return calculate_backoff_delay(attempt, retry, failure.wait, rng=self._patience.rng)

    # If a limit lasts too long to sleep, no requests are sent until it ends: a client that keeps
    # asking is locked out for longer.

    def _bar(self, call: Call, failure: Failure) -> None:
        until = self.verdicts.moment(failure.wait)
        if failure.is_limit and until is not None:
            self._barred[call.budget] = until

    def _check_bar(self, call: Call) -> None:
        until = self._barred.get(call.budget)
        if until is None:
            return
        if until > self._patience.clock.now():
            raise self.verdicts.limited(call, until)
        del self._barred[call.budget]

    # One exchange, with its redirects

    async def _followed(self, call: Call, until: float) -> Answer:
        url = call.url
        for _ in range(MAX_HOPS):
            answer = await self._once(call, url, until)
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                return answer
            url = await self._target(call, answer)
        raise self.verdicts.error(call, f"it redirects more than {MAX_HOPS} times")

    async def _target(self, call: Call, answer: Answer) -> str:
        """Our token is never sent to another host, and our requests to no other repository."""
        target = self.here(answer.url, answer.headers["location"])
        if target is None:
            raise self.verdicts.error(
                call,
                f"it redirects to another host; check `api_url` ({self._address.url})",
                status_code=answer.status,
            )
        path_of = self.verdicts.path_of
        if not await self._follow(path_of(call.url), path_of(target)):
            raise self.verdicts.error(
                call, "it moved elsewhere", status_code=answer.status, has_moved=True
            )
        return target

    async def _once(self, call: Call, url: str, until: float) -> Answer:
        known = self._cache.get(url) if call.conditional else None
        headers = self._headers(call, known)
        self.requests += 1
        answer = await self._wire.exchange(call.method, url, headers, call.body, until)
        self._see(extract_rate_limit_info(answer.headers))
        if answer.status == HTTPStatus.NOT_MODIFIED and known is not None:
            return replace(known, unchanged=True)
        if call.conditional:
            self._cache.keep(answer)
        return answer

    def _see(self, info: RateLimitInfo | None) -> None:
        if info is not None:
            self.limits[info.resource] = info
        self._watch.see(info)

    def _headers(self, call: Call, known: Answer | None) -> dict[str, str]:
        headers = {
            **self._service.headers,
            "authorization": f"{self._service.scheme} {self._token.read()}",
        }
        if call.body is not None:
            headers["content-type"] = "application/json"
        if known is not None:
            headers["if-none-match"] = known.headers["etag"]
        return headers
