"""Turns a failed or missing answer into an error that says what to do, and whether the request may
be repeated."""

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from rota.model.clock import Clock, to_text
from rota.model.errors import AnswerUnknown
from rota.sources.http.answers import Answer
from rota.sources.http.calls import Call, Failure, Service
from rota.sources.http.errors import ApiError, TokenError
from rota.sources.http.limits import extract_rate_limit_info, is_limited, wait_asked
from rota.sources.http.tokens import Token
from rota.sources.http.wire import Address, NoAnswer

_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, *range(500, 600)})
_HINTS: dict[int, str] = {
    HTTPStatus.FORBIDDEN: "the token in {token} lacks the permission",
    HTTPStatus.NOT_FOUND: "it does not exist, or the token in {token} may not see it",
    HTTPStatus.GONE: "it was deleted, or issues are switched off",
}


class Verdicts:
    def __init__(self, service: Service, address: Address, token: Token, clock: Clock) -> None:
        self._service = service
        self._address = address
        self._token = token
        self._clock = clock

    def refused(self, call: Call, answer: Answer) -> Failure:
        wait = wait_asked(answer, self._clock.now())
        if is_limited(answer):
            return Failure(self.limited(call, self.moment(wait), answer), again=True, wait=wait)
        if answer.status in _PASSING:
            return self._failed(call, answer, wait)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            return Failure(self._not_accepted(answer), again=False)
        return Failure(self._no(call, answer), again=False)

    def unanswered(self, call: Call, silence: NoAnswer) -> Failure:
        if silence.sent and not call.repeatable:
            failure = Failure(self.unknown(call, silence.why), again=False)
        else:
            why = f"{self._address.host} cannot be asked: {silence.why}; {_what_to_check(silence)}"
            failure = Failure(self.error(call, why), again=not silence.certificate)
        failure.error.__cause__ = silence
        return failure

    def unknown(self, call: Call, why: str) -> AnswerUnknown:
        endpoint = self.endpoint(call)
        return AnswerUnknown(
            f"{endpoint}: {why}; {self._service.name} may have carried it out, look before it is"
            " repeated",
            endpoint=endpoint,
        )

    def limited(self, call: Call, until: datetime | None, answer: Answer | None = None) -> ApiError:
        when = "for now" if until is None else f"until {to_text(until)[:19]}Z"
        said = "" if answer is None else self.said(answer)
        return self.error(
            call,
            f"the rate limit of the token in {self._token.variable} is used up {when}{said}",
            status_code=None if answer is None else answer.status,
            rate_limit_info=None if answer is None else extract_rate_limit_info(answer.headers),
            rate_limit_reset=until,
            is_rate_limit_error=True,
        )

    def misshapen(self, answer: Answer) -> ApiError:
        return self.error(
            Call("GET", answer.url),
            f"its answer ({answer.status}) is not of the shape that {self._service.name} gives;"
            f" check `api_url` ({self._address.url}), something else may have answered",
            status_code=answer.status,
        )

    def error(self, call: Call, why: str, **told: Any) -> ApiError:
        endpoint = self.endpoint(call)
        return self._service.api_error(
            f"{self._service.name}, {endpoint}: {why}", endpoint=endpoint, **told
        )

    def endpoint(self, call: Call) -> str:
        return f"{call.method} {self.path_of(call.url)}"

    def path_of(self, url: str) -> str:
        """Relative to the API's address, without the query."""
        return urlsplit(url).path.removeprefix(self._address.path)

    def moment(self, wait: float | None) -> datetime | None:
        if wait is None:
            return None
        return self._clock.now() + timedelta(seconds=min(wait, _A_DAY))

    def _failed(self, call: Call, answer: Answer, wait: float | None) -> Failure:
        if not call.repeatable:
            return Failure(self.unknown(call, f"it answered {answer.status}"), again=False)
        why = f"it answered {answer.status}{self.said(answer)}; try again later"
        return Failure(self.error(call, why, status_code=answer.status), again=True, wait=wait)

    def _no(self, call: Call, answer: Answer) -> ApiError:
        hint = _HINTS.get(answer.status)
        advice = f"; {hint.format(token=self._token.variable)}" if hint else ""
        why = f"it answered {answer.status}{self.said(answer)}{advice}"
        return self.error(call, why, status_code=answer.status)

    def _not_accepted(self, answer: Answer) -> TokenError:
        return self._service.no_token(
            f"{self._service.name} does not accept the token in {self._token.variable}"
            f"{self.said(answer)}: it is mistyped, expired or revoked; put a new one there"
        )

    def said(self, answer: Answer) -> str:
        """The tracker's own words, in brackets; nothing where it has none."""
        said = self._token.hide(answer.said)
        return f" ({said})" if said else ""


_A_DAY = 86_400.0


def _what_to_check(silence: NoAnswer) -> str:
    if silence.certificate:
        return "set SSL_CERT_FILE to the certificate of your own authority, or mend `api_url`"
    return "check `api_url`, the network, and the proxy if there is one"
