"""Telling a web address about a run."""

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from rota.model.errors import InvalidInput
from rota.model.fleet import Hook
from rota.runner.addresses import Allowed, IPAddress, vetted

SIGNATURE = "X-Rota-Signature-256"
_PORTS = {"http": 80, "https": 443}


async def post(
    hook: Hook,
    body: bytes,
    *,
    environ: Mapping[str, str],
    allowed: Allowed,
    via: httpx2.AsyncBaseTransport | None = None,
) -> None:
    """One POST, to the address that was vetted, without redirects. An error says why it failed,
    and never shows headers or secrets."""
    try:
        async with asyncio.timeout(hook.timeout.total_seconds()):
            await _post(hook, body, _headers(hook, body, environ), allowed, via)
    except TimeoutError:
        raise InvalidInput(f"no answer within {hook.timeout.total_seconds():g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise InvalidInput(f"{type(error).__name__}: {error}"[:300]) from None
    except ValueError:  # whose text may hold what it is about
        raise InvalidInput("its url or one of its headers cannot be sent") from None


async def _post(
    hook: Hook,
    body: bytes,
    headers: dict[str, str],
    allowed: Allowed,
    transport: httpx2.AsyncBaseTransport | None,
) -> None:
    parts = urlsplit(hook.url or "")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InvalidInput("its url is not an address on the web; write https://…")
    host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    address = await vetted(host, port, allowed)
    url = parts._replace(netloc=f"{_bracketed(address)}:{port}", fragment="").geturl()
    async with httpx2.AsyncClient(
        transport=transport, trust_env=False, follow_redirects=False, timeout=None
    ) as client:
        request = client.build_request(
            "POST",
            url,
            content=body,
            headers={"Host": parts.netloc.rpartition("@")[2], **headers},
            extensions={"sni_hostname": host},  # the certificate is for the name
        )
        answer = await client.send(request, stream=True)
        await answer.aclose()
    if not 200 <= answer.status_code < 300:
        raise InvalidInput(f"it answered {answer.status_code}{_moved(answer.status_code)}")


def _moved(status: int) -> str:
    return "; redirects are not followed: write the final address" if 300 <= status < 400 else ""


def _headers(hook: Hook, body: bytes, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "rota", **hook.headers}
    if hook.secret_env is None:
        return headers
    secret = environ.get(hook.secret_env)
    if not secret:
        raise InvalidInput(f"the variable {hook.secret_env} is not set, and it signs the body")
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {**headers, SIGNATURE: f"sha256={digest}"}


def _bracketed(address: IPAddress) -> str:
    return f"[{address}]" if address.version == 6 else str(address)
