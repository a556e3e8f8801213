"""Posts facts about a run to a web address."""

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from rota.model.errors import InvalidInput
from rota.model.fleet import Hook
from rota.runner.addresses import Allowed, IPAddress, unreached, vetted

SIGNATURE = "X-Rota-Signature-256"
LONGEST_REPLY = 2048  # bytes of an answer that are read
REPLY_SECONDS = 2.0  # time limit for reading them
_PORTS = {"http": 80, "https": 443}
_PLAIN = {"Content-Type": "application/json", "User-Agent": "rota"}


@dataclass(frozen=True, slots=True)
class Posting:
    """One POST. The header `Host` is set from the address."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    seconds: float = 30.0  # for the whole exchange


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    text: str  # its beginning
    retry_after: str | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def in_words(self) -> str:
        return f"it answered {self.status}{_moved(self.status)}"


async def post(
    hook: Hook,
    body: bytes,
    *,
    environ: Mapping[str, str],
    allowed: Allowed,
    via: httpx2.AsyncBaseTransport | None = None,
) -> None:
    """One POST, to the checked address, without redirects. An error says why it failed, and never
    shows headers or secrets."""
    headers = {**hook.headers, **signature(hook.secret_env, body, environ)}
    posting = Posting(hook.url or "", body, headers, hook.timeout.total_seconds())
    reply = await send(posting, allowed, via)
    if not reply.ok:
        raise InvalidInput(reply.in_words)


async def send(
    posting: Posting, allowed: Allowed, via: httpx2.AsyncBaseTransport | None = None
) -> Reply:
    """The receiver's answer, whatever it is. Raises InvalidInput without an answer, Forbidden when
    the address is not allowed."""
    try:
        async with asyncio.timeout(posting.seconds):
            return await _send(posting, allowed, via)
    except TimeoutError:
        raise InvalidInput(f"no answer within {posting.seconds:g} s") from None
    except (httpx2.LocalProtocolError, ValueError):  # its text may hold the value
        raise InvalidInput("its url or one of its headers cannot be sent") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise InvalidInput(f"{type(error).__name__}: {error}"[:300]) from None


async def _send(
    posting: Posting, allowed: Allowed, transport: httpx2.AsyncBaseTransport | None
) -> Reply:
    parts = urlsplit(posting.url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidInput("its url is not an address on the web; write https://…")
    host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    addresses = await vetted(host, port, allowed)
    async with httpx2.AsyncClient(
        transport=transport, trust_env=False, follow_redirects=False, timeout=None
    ) as client:

        def request(address: IPAddress, patience: float | None) -> httpx2.Request:
            return client.build_request(
                "POST",
                parts._replace(netloc=f"{_bracketed(address)}:{port}", fragment="").geturl(),
                content=posting.body,
                headers={"Host": parts.netloc.rpartition("@")[2], **_PLAIN, **posting.headers},
                extensions={"sni_hostname": host},  # the certificate is for the name
                timeout=httpx2.Timeout(None, connect=patience),
            )

        *others, last = addresses
        patience = posting.seconds / len(addresses)
        requests = [*(request(one, patience) for one in others), request(last, None)]
        answer = await _answered(client, requests)
        try:
            text = await _beginning(answer)
        finally:
            await answer.aclose()
    return Reply(answer.status_code, text, answer.headers.get("Retry-After"))


async def _answered(
    client: httpx2.AsyncClient, requests: Sequence[httpx2.Request]
) -> httpx2.Response:
    """The next is only sent when no connection was made for this one, so that none comes twice."""
    failures = []
    for request in requests:
        try:
            return await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failures.append(error)
    raise InvalidInput(unreached(failures))


async def _beginning(answer: httpx2.Response) -> str:
    """Not decompressed, so that nothing can expand in memory. Only the body of a failure is
    read."""
    if answer.is_success:
        return ""
    text = b""
    with contextlib.suppress(TimeoutError, httpx2.HTTPError):  # the failure itself is known already
        async with asyncio.timeout(REPLY_SECONDS):
            async for part in answer.aiter_raw():
                text += part
                if len(text) >= LONGEST_REPLY:
                    break
    return text[:LONGEST_REPLY].decode(errors="replace")


def _moved(status: int) -> str:
    return "; redirects are not followed: write the final address" if 300 <= status < 400 else ""


def signature(secret_env: str | None, body: bytes, environ: Mapping[str, str]) -> dict[str, str]:
    """The header that proves the sender; none where no secret is named."""
    if secret_env is None:
        return {}
    secret = environ.get(secret_env)
    if not secret:
        raise InvalidInput(f"the variable {secret_env} is not set, and it signs the body")
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {SIGNATURE: f"sha256={digest}"}


def _bracketed(address: IPAddress) -> str:
    return f"[{address}]" if address.version == 6 else str(address)
