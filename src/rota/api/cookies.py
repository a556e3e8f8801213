"""The cookie of a signed-in browser: its name, how it is read, how it is set.

Its value is the token itself; docs/decisions/0026 says why.
"""

import re
from dataclasses import dataclass

from rota.api.asgi import Headers

PLAIN = "rota_token"
# Over HTTPS a browser accepts this name only with Secure, Path=/ and no Domain. So another host
# below the same domain cannot plant it.
HOST_ONLY = f"__Host-{PLAIN}"
_ALWAYS = "Path=/; HttpOnly; SameSite=Strict"
_SPEAKABLE = re.compile(r"[A-Za-z0-9._~-]{1,500}")


@dataclass(frozen=True, slots=True)
class Signed:
    """The token that a browser sent in a cookie instead of an Authorization header."""

    secret: str
    host_only: bool


def signed(headers: Headers) -> Signed | None:
    """None if there is an Authorization header: it takes precedence over the cookie."""
    raw = headers.get(b"cookie")
    if raw is None or b"authorization" in headers:
        return None
    pairs = _pairs(raw)
    if secret := _only(pairs, HOST_ONLY):
        return Signed(secret, host_only=True)
    if by_https(headers):  # over HTTPS the plain name may have been planted
        return None
    secret = _only(pairs, PLAIN)
    return Signed(secret, host_only=False) if secret else None


def plain(headers: Headers, name: str) -> str | None:
    """The value of another cookie, as sent. Not by `http.cookies`, whose time for a quoted value is
    quadratic in its length."""
    return _only(_pairs(headers.get(b"cookie", b"")), name)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    split = (part.partition("=") for part in raw.decode("latin-1").split(";"))
    return [(name.strip(), value.strip()) for name, _, value in split]


def _only(pairs: list[tuple[str, str]], name: str) -> str | None:
    """None for two different values: one was planted, and nothing tells which."""
    values = {value for one, value in pairs if one == name}
    return values.pop() if len(values) == 1 else None


def can_be_kept(secret: str) -> bool:
    return _SPEAKABLE.fullmatch(secret) is not None


def by_https(headers: Headers) -> bool:
    """Rota itself speaks plain HTTP, so the headers of the proxy and the browser decide. A false
    header only yields a stricter cookie."""
    said = headers.get(b"x-forwarded-proto", b"").partition(b",")[0].strip().lower()
    return said == b"https" or headers.get(b"origin", b"").startswith(b"https://")


def signing_in(secret: str, *, https: bool) -> list[tuple[bytes, bytes]]:
    """A session cookie: without Max-Age it ends with the browser."""
    text = f"{HOST_ONLY}={secret}; {_ALWAYS}; Secure" if https else f"{PLAIN}={secret}; {_ALWAYS}"
    return [(b"set-cookie", text.encode())]


def signing_out() -> list[tuple[bytes, bytes]]:
    gone = (f"{PLAIN}=; {_ALWAYS}", f"{HOST_ONLY}=; {_ALWAYS}; Secure")
    return [(b"set-cookie", f"{text}; Max-Age=0".encode()) for text in gone]
