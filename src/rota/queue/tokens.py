"""API tokens: made once, shown once, kept as hashes."""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence

from rota.model.access import (
    ApiToken,
    Caller,
    caller_of,
    check_scopes,
    check_token_name,
    hash_secret,
)
from rota.model.clock import IdFactory, from_text, to_text
from rota.model.errors import InvalidInput, NotFound, StorageError, Unauthenticated
from rota.queue import intake
from rota.storage.port import Store, Transaction

PREFIX = "rota_"
NOTE_SECONDS = 1.0
# `last_used_at` is written at most this often, so that reading does not become writing.
TOUCH_SECONDS = 60
_ANOTHER = "whoever runs the server makes another: rota token create"


class Tokens:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = store.clock
        self._ids = IdFactory(self._clock)
        self._noting: dict[str, asyncio.Future[None]] = {}  # by token: uses not written yet

    async def create(
        self, name: str, scopes: Sequence[str], expires_at: str | None = None
    ) -> tuple[ApiToken, str]:
        """The token and its secret, which cannot be shown again."""
        check_token_name(name)
        kept = check_scopes(tuple(scopes))
        expires = intake.check_moment(expires_at, "expires_at")
        if expires is not None and from_text(expires) <= self._clock.now():
            raise InvalidInput(
                f"expires_at: {expires} is in the past; name a time that is to come",
                field="expires_at",
            )
        secret = PREFIX + secrets.token_urlsafe(32)
        token = ApiToken(
            self._ids.new(), name, kept, to_text(self._clock.now()), expires, None, None
        )
        await self._store.transact(lambda tx: tx.insert_token(token, hash_secret(secret)))
        return token, secret

    async def list(self) -> list[ApiToken]:
        """Includes uses that are being written now, unless writing takes too long."""
        if self._noting:
            await asyncio.wait(self._noting.values(), timeout=NOTE_SECONDS)
        return await self._store.read(lambda tx: tx.list_tokens())

    async def revoke(self, token_id: str) -> None:
        now = to_text(self._clock.now())
        if not await self._store.transact(lambda tx: tx.revoke_token(token_id, now)):
            raise NotFound(
                f"there is no live token with the id {token_id[:100]!r}; `rota token list` has the"
                " ids",
                id=token_id[:100],
            )

    async def required(self) -> bool:
        """Once a token exists, every request needs one. Revoking all tokens lifts that, because
        somebody chose to; the expiry of the last one does not."""
        return await self._store.read(lambda tx: tx.has_tokens())

    async def caller(self, secret: str) -> Caller:
        """The owner of a secret. The lookup is by hash, so its timing reveals nothing."""
        moment = self._clock.now()
        hashed = hash_secret(secret)
        token = await self._store.read(lambda tx: tx.find_token(hashed))
        if token is None or token.revoked_at is not None:
            raise Unauthenticated(f"this token is not known here, or was revoked; {_ANOTHER}")
        if token.expires_at is not None and from_text(token.expires_at) <= moment:
            raise Unauthenticated(f"this token expired at {token.expires_at}; {_ANOTHER}")
        if self._worth_noting(token, moment.timestamp()):
            self._note_use(token.id, to_text(moment))
        return caller_of(token)

    def _worth_noting(self, token: ApiToken, now: float) -> bool:
        if token.last_used_at is None:
            return True
        return now - from_text(token.last_used_at).timestamp() > TOUCH_SECONDS

    def _note_use(self, token_id: str, now: str) -> None:
        """Nobody waits for this write, and its failure is ignored: a caller that may read can read
        even while nothing can be written. The store finishes the write before it closes."""
        if token_id in self._noting:
            return

        def body(tx: Transaction) -> None:
            tx.touch_token(token_id, now)

        def written(done: "asyncio.Future[None]") -> None:
            del self._noting[token_id]
            with contextlib.suppress(StorageError):  # the next use is written instead
                done.result()

        with contextlib.suppress(StorageError):
            self._noting[token_id] = self._store.transact(body)
            self._noting[token_id].add_done_callback(written)
