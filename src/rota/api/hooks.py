"""Webhooks of trackers. They make a poll come sooner, and signals may listen to them.

The signature is checked over the raw bytes, and a delivery counts once. What the payload says of an
issue is never believed: the poll asks the tracker itself.
"""

import hashlib
import hmac
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rota.api.answers import Answer, json_answer
from rota.api.call import Call
from rota.api.problems import BadJson
from rota.api.routing import Endpoint, endpoint, given
from rota.model.errors import InvalidInput, NotFound, RotaError, Unauthenticated
from rota.queue.hearing import Heard

TAG = "hooks"
LONGEST_DELIVERY = 150  # of the sender's own id; the ledger adds the sender


@dataclass(frozen=True, slots=True)
class Receiver:
    """A repository that takes webhooks."""

    kind: str  # "github" or "gitea"
    repo: str
    secret: Callable[[], str | None]  # read when needed, never kept
    wake: Callable[[], None]


class Delivery(msgspec.Struct, frozen=True):
    status: str  # "accepted" or "seen before"


# Forgejo sends its own names beside Gitea's; newer versions of both send GitHub's too.
_SIGNATURES = {
    "github": (b"x-hub-signature-256",),
    "gitea": (b"x-gitea-signature", b"x-forgejo-signature", b"x-hub-signature-256"),
}
_DELIVERIES = {
    "github": (b"x-github-delivery",),
    "gitea": (b"x-gitea-delivery", b"x-forgejo-delivery", b"x-github-delivery"),
}


_EVENTS = {
    "github": (b"x-github-event",),
    "gitea": (b"x-gitea-event", b"x-forgejo-event", b"x-github-event"),
}


_REFUSES = (400, 401, 413, 415, 422)


@endpoint(
    "POST", "/hooks/github", scope=None, tag=TAG, gives=Delivery, status=202, also=(200,),
    refuses=_REFUSES, takes=("X-Hub-Signature-256", "X-GitHub-Delivery"),
    accepts="application/json",
)  # fmt: skip
async def github_hook(receivers: Sequence[Receiver], call: Call) -> Answer:
    """Receive a webhook of a repository on GitHub.

    The body must be signed with the secret that the source's `webhook_secret_env` names.
    Otherwise the answer is 401, also if there is no such source or secret; the server's log
    says which.
    """
    return await _receive(receivers, call, "github")


@endpoint(
    "POST", "/hooks/gitea", scope=None, tag=TAG, gives=Delivery, status=202, also=(200,),
    refuses=_REFUSES, takes=("X-Gitea-Signature", "X-Gitea-Delivery"),
    accepts="application/json",
)  # fmt: skip
async def gitea_hook(receivers: Sequence[Receiver], call: Call) -> Answer:
    """Receive a webhook of a repository on Gitea or Forgejo.

    The body must be signed with the secret that the source's `webhook_secret_env` names.
    Otherwise the answer is 401, also if there is no such source or secret; the server's log
    says which.
    """
    return await _receive(receivers, call, "gitea")


async def _receive(receivers: Sequence[Receiver], call: Call, kind: str) -> Answer:
    raw = await call.raw_body()
    payload, repository = _read(raw)
    receiver = _signer(call, raw, kind, repository, receivers)
    delivery = first(call, _DELIVERIES[kind])
    if not delivery:
        raise InvalidInput(f"{_DELIVERIES[kind][0].decode()} is missing", field="delivery")
    heard = Heard(f"{kind}:{receiver.repo}", first(call, _EVENTS[kind])[:100], payload)
    if not await call.ledger.outside.remember_delivery(f"{kind}:{known_as(delivery)}", heard):
        return json_answer(Delivery("seen before"))
    receiver.wake()
    return json_answer(Delivery("accepted"), 202)


def _signer(
    call: Call, raw: bytes, kind: str, repository: str, receivers: Sequence[Receiver]
) -> Receiver:
    """Every unsigned call gets the same answer: it must not reveal which repositories are here."""
    try:
        return _signed(call, raw, _called(kind, repository, receivers))
    except RotaError as error:
        log_refused(call, error)
        raise Unauthenticated("the webhook's signature is missing or wrong") from None


def log_refused(call: Call, error: RotaError) -> None:
    import structlog  # noqa: PLC0415 - costs the CLI 300 ms that it almost never needs

    path = repr(call.scope["path"][:200])  # may contain line ends
    structlog.get_logger().warning(
        "webhook refused", path=path, client=call.address, error=error.message
    )


def known_as(delivery: str) -> str:
    """The id by which a delivery is remembered. A long one is hashed, not cut: two ids that differ
    only at the end are two deliveries."""
    if len(delivery) <= LONGEST_DELIVERY:
        return delivery
    return f"sha256:{hashlib.sha256(delivery.encode('utf-8', 'replace')).hexdigest()}"


def _read(raw: bytes) -> tuple[Mapping[str, Any], str]:
    """The payload, and the repository it is about."""
    try:
        payload = json.loads(raw, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise BadJson("the body is not JSON; set the webhook's content type to JSON") from error
    repository = payload.get("repository") if isinstance(payload, dict) else None
    name = repository.get("full_name") if isinstance(repository, dict) else None
    if not isinstance(name, str):
        raise InvalidInput("the payload names no repository", field="repository.full_name")
    return payload, name


def _finite(text: str) -> float:
    """Python reads NaN and Infinity, and 1e999 as Infinity; JSON cannot hold any of them."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is no number of JSON")
    return number


def _called(kind: str, repo: str, receivers: Sequence[Receiver]) -> list[Receiver]:
    """All receivers for this repository: two trackers may have a repository of the same name."""
    found = [
        one
        for one in receivers
        if one.kind == kind and one.repo.lower() == repo.lower() and one.secret()
    ]
    if not found:
        raise NotFound(
            f"no {kind} source with a webhook secret is configured for {repo[:100]!r}; set"
            " webhook_secret_env in rota.yaml, and that variable where the server runs"
        )
    return found


def _signed(call: Call, raw: bytes, receivers: Sequence[Receiver]) -> Receiver:
    """The receiver whose secret the delivery was signed with."""
    for receiver in receivers:
        if signed_by(receiver.secret() or "", raw, first(call, _SIGNATURES[receiver.kind])):
            return receiver
    raise Unauthenticated("its signature is missing, or is not of the source's secret")


def signed_by(secret: str, raw: bytes, shown: str) -> bool:
    right = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest().encode()
    signature = shown.removeprefix("sha256=").lower()
    return hmac.compare_digest(right, signature.encode("utf-8", "replace"))


def first(call: Call, names: Sequence[bytes]) -> str:
    """The first of these headers that has a value."""
    return next((value for name in names if (value := call.header(name))), "")


_HOOK_ENDPOINTS = (github_hook, gitea_hook)


def hook_endpoints(receivers: Sequence[Receiver]) -> tuple[Endpoint, ...]:
    return given(receivers, _HOOK_ENDPOINTS)
