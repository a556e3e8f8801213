"""Who is calling: tokens, and a limit on guessing them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rota.api.asgi import Headers
from rota.api.cookies import can_be_kept, signed
from rota.api.problems import TooManyFailures
from rota.api.settings import ApiSettings
from rota.model.access import Caller, everyone, hash_secret
from rota.model.errors import Unauthenticated
from rota.queue.tokens import Tokens

MOST_REMEMBERED = 10_000
LONGEST_ACTOR = 100
LONGEST_SECRET = 500


_NAMELESS = everyone()


def _unknown(headers: Headers) -> Caller:
    """A caller without a token may give itself a name for the log. The name proves nothing."""
    name = headers.get(b"rota-actor")
    if name is None:
        return _NAMELESS
    text = name.decode("utf-8", "replace")
    plain = "".join(letter for letter in text if letter.isprintable()).strip()
    return everyone(plain[:LONGEST_ACTOR]) if plain else _NAMELESS


def _bearer(headers: Headers) -> str:
    scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthenticated(
            "this server wants a token: set ROTA_TOKEN (in HTTP, Authorization: Bearer rota_…)"
        )
    return secret.strip()[:LONGEST_SECRET]


@dataclass(slots=True)
class _Failures:
    """Wrong tokens by address, counted in fixed windows."""

    most: int
    seconds: float
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)

    def left(self, address: str, now: float) -> float:
        """Seconds for which requests from this address are refused; 0 when they are not."""
        count, end = self._seen.get(address, (0, 0.0))
        return end - now if count >= self.most and end > now else 0.0

    def add(self, address: str, now: float) -> None:
        if len(self._seen) >= MOST_REMEMBERED:
            self._seen = {who: one for who, one in self._seen.items() if one[1] > now}
        if len(self._seen) >= MOST_REMEMBERED:
            self._seen.clear()
        count, end = self._seen.get(address, (0, 0.0))
        self._seen[address] = (count + 1, end) if end > now else (1, now + self.seconds)


class Gate:
    """Finds the caller of a request. What is known of a token is reused for about a second."""

    def __init__(
        self,
        tokens: Tokens,
        settings: ApiSettings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._settings = settings
        self._monotonic = monotonic
        self._failures = _Failures(settings.auth_failures, settings.auth_window_seconds)
        self._closed = not settings.open_without_tokens
        self._stale: set[str] = set()  # hashes of refused cookies
        self._good: dict[str, None] = {}  # hashes of tokens last found good, oldest first
        self.forget()

    def forget(self) -> None:
        """Call after tokens were made or revoked here: the ledger is asked again. `_good` is kept,
        because those tokens were good before."""
        self._asked_until = 0.0
        self._callers: dict[str, tuple[Caller, float]] = {}

    async def protected(self) -> bool:
        """Whether a token is needed. Once one was, the server stays closed, even with none left."""
        if self._settings.trusted:
            return False
        now = self._monotonic()
        if not self._closed and self._asked_until <= now:
            self._closed = await self._tokens.required()
            self._asked_until = now + self._settings.remember_seconds
        return self._closed

    @property
    def closed(self) -> bool:
        """Whether a token is needed, as far as is known without asking the database."""
        return self._closed and not self._settings.trusted

    async def caller(self, headers: Headers, address: str) -> Caller:
        if not await self.protected():
            return _unknown(headers)
        if (cookie := signed(headers)) is not None:
            return await self._signed_in(cookie.secret[:LONGEST_SECRET], address)
        return await self._holder(_bearer(headers), address)

    async def again(self, headers: Headers) -> Caller:
        """The caller of a connection that was admitted with these headers and is still open. This
        is not a login attempt, so it is neither counted nor rate-limited. Otherwise wrong tokens
        from the same address would keep a revoked token alive."""
        if not await self.protected():
            return _unknown(headers)
        cookie = signed(headers)
        secret = cookie.secret[:LONGEST_SECRET] if cookie else _bearer(headers)
        now, hashed = self._monotonic(), hash_secret(secret)
        known = self._callers.get(hashed)
        if known is not None and known[1] > now:
            return known[0]
        return await self._ask(secret, hashed, now)

    async def sign_in(self, secret: str, address: str) -> Caller:
        """The caller whose token this is. Counts as a login attempt."""
        if not can_be_kept(secret):
            raise Unauthenticated("this is no token of ours; they begin with rota_")
        return await self._holder(secret, address)

    async def _signed_in(self, secret: str, address: str) -> Caller:
        """A browser repeats its cookie with every request of every tab, even a revoked one. That
        counts as one wrong token; otherwise nobody at that address could sign in again."""
        hashed = hash_secret(secret)
        if hashed in self._stale:
            return await self._tokens.caller(secret)
        try:
            return await self._holder(secret, address)
        except Unauthenticated:
            if len(self._stale) >= MOST_REMEMBERED:
                self._stale.clear()
            self._stale.add(hashed)
            raise

    async def _holder(self, secret: str, address: str) -> Caller:
        now, hashed = self._monotonic(), hash_secret(secret)
        known = self._callers.get(hashed)
        if known is not None and known[1] > now:
            return known[0]
        # A token that was good is checked again even when its address is blocked. Otherwise one
        # worker with a revoked token would lock out the others on its machine.
        left = 0.0 if hashed in self._good else self._failures.left(address, now)
        if left:
            wait = int(left) + 1
            raise TooManyFailures(
                f"too many wrong tokens from this address; wait {wait} s, and bring a right one",
                headers={"retry-after": str(wait)},
            )
        try:
            return await self._ask(secret, hashed, now)
        except Unauthenticated:
            self._failures.add(address, now)
            raise

    async def _ask(self, secret: str, hashed: str, now: float) -> Caller:
        try:
            caller = await self._tokens.caller(secret)
        except Unauthenticated:
            self._good.pop(hashed, None)
            raise
        if len(self._callers) >= MOST_REMEMBERED:
            self._callers.clear()
        self._callers[hashed] = (caller, now + self._settings.remember_seconds)
        self._was_good(hashed)
        return caller

    def _was_good(self, hashed: str) -> None:
        self._good.pop(hashed, None)
        self._good[hashed] = None
        if len(self._good) > MOST_REMEMBERED:
            del self._good[next(iter(self._good))]
