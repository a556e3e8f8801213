"""Signing in with a token, and out again: plain forms, without script."""

import re
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec

from rota.api.answers import Answer
from rota.api.browser import FORM
from rota.api.call import Call
from rota.api.cookies import by_https, signing_in, signing_out
from rota.api.problems import FaceError, TooManyFailures, headers, status_of
from rota.api.routing import endpoint
from rota.dashboard.rendering import HTML, render
from rota.model.errors import InvalidInput, Unauthenticated

PATH = "/sign-in"
LONGEST_NEXT = 2_000
_MOST_FIELDS = 10
# A browser drops tabs and line ends, and reads a backslash as a slash, so that `/\t/host` would
# lead to another site.
_LEADS_AWAY = re.compile(r"//|.*[\\\x00-\x20\x7f]", re.DOTALL)


class Where(msgspec.Struct, frozen=True):
    next: str = "/"


def page_of_ours(text: str) -> str:
    """A path of this server to go on to; the board for anything else, or for this form itself."""
    if not text.startswith("/") or _LEADS_AWAY.match(text) or len(text) > LONGEST_NEXT:
        return "/"
    if text.partition("?")[0] in (PATH, "/sign-out"):
        return "/"
    return quote(text, safe="/?&=%:@!$'()*+,;~-._[]")


def address(wanted: str) -> str:
    """The address of the form, with the page to go on to."""
    wanted = page_of_ours(wanted)
    return PATH if wanted == "/" else f"{PATH}?next={quote(wanted, safe='/')}"


def led_to(place: str, more: list[tuple[bytes, bytes]]) -> Answer:
    return Answer(303, headers=[(b"location", place.encode()), (b"content-length", b"0"), *more])


@endpoint("GET", PATH, scope=None, tag="dashboard", hidden=True)
async def sign_in_form(call: Call, query: Where) -> Answer:
    """Ask for a token."""
    following = page_of_ours(query.next)
    if not await call.gate.protected():
        return led_to(following, [])
    # A browser does not send Strict cookies with a link from another site, but does with our own.
    came_by_link = call.header(b"sec-fetch-site") == "cross-site" and following != "/"
    return _form(following, came_by_link=came_by_link)


@endpoint("POST", PATH, scope=None, tag="dashboard", hidden=True, accepts=FORM)
async def sign_in(call: Call) -> Answer:
    """Keep the token in a cookie, if it is one."""
    fields = _fields(await call.raw_body())
    following, secret = page_of_ours(fields.get("next", "/")), fields.get("token", "").strip()
    if not await call.gate.protected():
        return led_to(following, [])
    try:
        await call.gate.sign_in(secret, call.address)
    except (Unauthenticated, TooManyFailures) as error:
        return _form(following, error)
    return led_to(following, signing_in(secret, https=by_https(call.headers)))


@endpoint("POST", "/sign-out", scope=None, tag="dashboard", hidden=True, accepts=FORM)
async def sign_out(call: Call) -> Answer:
    """Forget the token."""
    return led_to(PATH, signing_out())


def _fields(raw: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(raw.decode("utf-8", "replace"), max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise InvalidInput(f"the form has more than {_MOST_FIELDS} fields") from None


def _form(
    following: str, error: Unauthenticated | FaceError | None = None, *, came_by_link: bool = False
) -> Answer:
    values: dict[str, Any] = {"following": following, "came_by_link": came_by_link, "problem": None}
    if error is None:
        return Answer(200, render("sign_in.html", values), HTML)
    # Not `WWW-Authenticate`: a browser is asked by the form.
    more = [(b"retry-after", headers(error)["retry-after"].encode())] if _has_pause(error) else []
    values["problem"] = error.message
    return Answer(status_of(error), render("sign_in.html", values), HTML, more)


def _has_pause(error: Unauthenticated | FaceError) -> bool:
    return "retry-after" in headers(error)


ENDPOINTS = (sign_in_form, sign_in, sign_out)
