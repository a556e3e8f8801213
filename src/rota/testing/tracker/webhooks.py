"""Delivers webhooks, signed as GitHub and Gitea sign them."""

import hashlib
import hmac
from typing import Any
from uuid import uuid4

import httpx2
import msgspec

from rota.testing.tracker import gitea_shapes, github_shapes
from rota.testing.tracker.http import Json, Rejection
from rota.testing.tracker.hub import Hub, Repository
from rota.testing.tracker.orders import Delivery
from rota.testing.tracker.views import EVERYTHING

TIMEOUT_SECONDS = 10


async def deliver(hub: Hub, base: str, order: Delivery) -> list[int]:
    """Send it, and return the status of each answer."""
    repo = hub.repository(order.repo)
    if repo is None:
        raise Rejection(404, f"there is no repository {order.repo!r}; create it first")
    body = msgspec.json.encode(_payload(hub, base, repo, order) | order.payload)
    headers = _headers(order, body)
    async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        try:
            answers = [
                await client.post(order.url, content=body, headers=headers)
                for _ in range(order.times)
            ]
        except httpx2.HTTPError as error:
            raise Rejection(502, f"{order.url} did not take the delivery: {error!r}") from None
    return [one.status_code for one in answers]


def _payload(hub: Hub, base: str, repo: Repository, order: Delivery) -> Json:
    shapes: Any = github_shapes if order.dialect == "github" else gitea_shapes
    payload: Json = {
        "action": order.action,
        "repository": shapes.repository(base, repo),
        "sender": shapes.account(base, hub.account(order.sender or repo.owner.login)),
    }
    issue = repo.issues.get(order.number or 0)
    if issue is not None and issue.is_pull and order.event == "pull_request":
        payload["number"] = issue.number
        payload["pull_request"] = shapes.pull(base, repo, issue, EVERYTHING)
    elif issue is not None:
        payload["issue"] = shapes.issue(base, repo, issue, EVERYTHING)
    if order.label and (label := repo.label_named(order.label)):
        payload["label"] = shapes.label(base, repo, label)
    if order.comment and (found := repo.comment(order.comment)):
        payload["comment"] = shapes.comment(base, repo, *found)
    return payload


def _headers(order: Delivery, body: bytes) -> dict[str, str]:
    """Gitea sends GitHub's headers in addition to its own."""
    signature = hmac.new(order.secret.encode(), body, hashlib.sha256).hexdigest()
    delivery = order.delivery or str(uuid4())
    headers = {
        "content-type": "application/json",
        "x-github-event": order.event,
        "x-github-delivery": delivery,
        "x-hub-signature-256": f"sha256={signature}",
    }
    if order.dialect == "gitea":
        headers |= {
            "x-gitea-event": order.event,
            "x-gitea-delivery": delivery,
            "x-gitea-signature": signature,
        }
    return headers
