"""Refuses what a malicious web page could do to a server on this machine.

A page can make the browser send requests to localhost, and by DNS rebinding under its own host
name. So the Host must be one of ours, and a change must not come from another page's script or
form.
"""

import ipaddress

from rota.api.asgi import Headers
from rota.api.cookies import Signed
from rota.api.problems import BadHost, CrossOrigin, UnsupportedMedia
from rota.api.settings import LOOPBACK_NAMES, ApiSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_ACCEPTED = 1_000
FORM = "application/x-www-form-urlencoded"
_MEDIA_TYPES = frozenset({b"application/json", b"application/x-ndjson"})
_SAME_SITES = frozenset({b"same-origin", b"none"})


class BrowserGuard:
    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._names = LOOPBACK_NAMES | {settings.host.lower()} | settings.allowed_hosts
        self._origins = frozenset(origin.encode() for origin in settings.allowed_origins)
        self._accepted: set[tuple[bytes, bool]] = set()  # Host headers that passed before

    def check(
        self,
        method: str,
        headers: Headers,
        *,
        protected: bool,
        cookie: Signed | None = None,
        form: bool = False,
    ) -> None:
        """`protected`: a token is required, which another site's page does not have. `cookie`: the
        browser adds it by itself to any page's request. `form`: this path accepts a form."""
        host = headers.get(b"host", b"")
        if (host, protected) not in self._accepted:
            self._check_host(host, protected=protected)
            if len(self._accepted) < _MOST_ACCEPTED:
                self._accepted.add((host, protected))
        if method not in SAFE_METHODS:
            self.check_origin(headers)
            if form or cookie:
                check_same_origin(headers, cookie)
            _check_media_type(headers, form=form)
        elif cookie:
            _check_reader(headers)

    def _check_host(self, raw: bytes, *, protected: bool) -> None:
        name = _host_name(raw.decode("latin-1"))
        if name in self._names or "*" in self._names:
            return
        if not self._settings.on_loopback and (protected or _cannot_be_rebound(name)):
            return
        raise BadHost(
            f"this server is not called {name[:100]!r}; use its own name, or allow this one: start"
            " the server with --allow-host, or set ROTA_ALLOWED_HOSTS"
        )

    def check_origin(self, headers: Headers) -> None:
        origin = headers.get(b"origin")
        if origin in self._origins:
            return
        host = headers.get(b"host", b"").lower()
        if origin is not None and origin.lower() not in (b"http://" + host, b"https://" + host):
            raise _cross_origin(f"Origin {origin.decode('latin-1')[:100]!r}")
        if headers.get(b"sec-fetch-site", b"none") not in _SAME_SITES:
            raise _cross_origin("Sec-Fetch-Site")


def _host_name(host: str) -> str:
    """The host without its port: `[::1]:8080` becomes `[::1]`."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).rstrip(".").lower()


def _cannot_be_rebound(name: str) -> bool:
    """An address, or a name without a dot: no attacker's DNS server can answer for either."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return bool(name) and "." not in name
    return True


def check_same_origin(headers: Headers, cookie: Signed | None = None) -> None:
    """Stricter than `check_origin`: a request that does not say where it came from is refused."""
    origin = headers.get(b"origin")
    if origin is None and headers.get(b"sec-fetch-site") != b"same-origin":
        raise _cross_origin("neither Origin nor Sec-Fetch-Site says where it came from")
    if cookie and cookie.host_only and origin is not None and origin.startswith(b"http://"):
        raise _cross_origin("a page without TLS, to a server with it")


def _check_reader(headers: Headers) -> None:
    """SameSite lets pages on other ports and sibling domains send our cookie. They may link here;
    they may not load anything from here into themselves."""
    if headers.get(b"sec-fetch-site", b"none") in _SAME_SITES:
        return
    if headers.get(b"sec-fetch-mode") != b"navigate":
        raise _cross_origin("Sec-Fetch-Site")


def _cross_origin(what: str) -> CrossOrigin:
    return CrossOrigin(f"a page of another site asked for this ({what}); that is refused")


def has_body(headers: Headers) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _check_media_type(headers: Headers, *, form: bool) -> None:
    """Without CORS permission, another site's form or script cannot send a body with a media type
    of JSON or JSON lines."""
    if not has_body(headers):
        return
    _check_encoding(headers)
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if form and media_type == FORM.encode():
        return
    if media_type not in _MEDIA_TYPES:
        given = (
            f"not {media_type.decode('latin-1')[:80]!r}" if media_type else "and has no media type"
        )
        raise UnsupportedMedia(
            f"the body must be application/json, {given}; send it with"
            " Content-Type: application/json"
        )


def _check_encoding(headers: Headers) -> None:
    """Bodies are not decompressed. Without this, a compressed one would only be called bad JSON."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"", b"identity"):
        raise UnsupportedMedia(
            f"the body must not be encoded (Content-Encoding:"
            f" {encoding.decode('latin-1')[:80]!r}); send it as it is",
            headers={"accept-encoding": "identity"},
        )
