"""Schedules triggered by messages from outside: webhooks, and bridges to a chat.

What a message says is never believed: the agent gets it as text from outside.
"""

import hmac

from rota.api import schedule_wire as wire
from rota.api.answers import Answer, json_answer
from rota.api.call import LONGEST_ID, Call
from rota.api.hooks import first, known_as, log_refused, signed_by
from rota.api.routing import endpoint
from rota.api.schedule_wire import ChatMessage
from rota.model.access import DISPATCH
from rota.model.errors import Forbidden, InvalidInput, NotFound, RotaError, Unauthenticated
from rota.model.schedules import Trigger, TriggerKind
from rota.model.work import NAME
from rota.scheduler.service import LONGEST_MESSAGE, Ask
from rota.surroundings import environ

TAG = "schedules"

_SIGNATURES = (b"x-hub-signature-256", b"x-gitea-signature", b"x-forgejo-signature")
_TOKEN = b"x-gitlab-token"
_DELIVERIES = (
    b"x-github-delivery",
    b"x-gitea-delivery",
    b"x-forgejo-delivery",
    b"idempotency-key",  # GitLab's, and anybody's
    b"x-gitlab-event-uuid",
)
_EVENTS = (b"x-github-event", b"x-gitea-event", b"x-forgejo-event", b"x-gitlab-event")
_SIGNED = ("X-Hub-Signature-256", "X-Gitea-Signature", "X-Gitlab-Token")
_DELIVERED = ("X-GitHub-Delivery", "X-Gitea-Delivery", "Idempotency-Key")


def named(call: Call) -> tuple[str, str]:
    """The agent and schedule in the path. Invalid names are refused without asking the database."""
    agent, name = call.parameters
    if not NAME.fullmatch(agent) or not NAME.fullmatch(name):
        shown = f"{agent[:LONGEST_ID]}/{name[:LONGEST_ID]}"
        raise NotFound(f"there is no schedule {shown!r}")
    return agent, name


@endpoint(
    "POST", "/chat/{agent}/{schedule}", scope=DISPATCH, tag=TAG, gives=wire.Heard, status=202,
    also=(200,), refuses=(409,),
)  # fmt: skip
async def hear_chat(call: Call, body: ChatMessage) -> Answer:
    """Wake the agent of a chat schedule with a message.

    This is for a bridge to any chat. The agent gets the message as text from outside. A
    `message_id` counts once.
    """
    agent, name = named(call)
    heads = (("From", body.sender), ("Channel", body.channel))
    told = "".join(f"{head}: {value}\n" for head, value in heads if value)
    message = f"{told}\n{body.text}" if told else body.text
    ask = Ask(agent, name, TriggerKind.CHAT, message, body.message_id)
    return _heard(await call.ledger.schedules.ask(ask, actor=call.actor))


@endpoint(
    "POST", "/hooks/{agent}/{schedule}", scope=None, tag=TAG, gives=wire.Heard, status=202,
    also=(200,), refuses=(400, 409, 413, 415), takes=(*_SIGNED, *_DELIVERED),
    accepts="application/json",
)  # fmt: skip
async def hear_webhook(call: Call) -> Answer:
    """Wake the agent of a webhook schedule.

    The request must be signed with the secret that the schedule's `secret_env` names: HMAC-SHA256
    over the body, as GitHub and Gitea do it, or GitLab's token. Otherwise the answer is 401, also
    if there is no such schedule or secret; the server's log says which. The agent gets the body as
    text from outside. A delivery counts once. GitHub's `ping`, which only tests a new webhook, is
    answered and wakes nobody.
    """
    raw = await call.raw_body()
    agent, name = await _signer(call, raw)
    if call.header(b"x-github-event") == "ping":  # sent when a webhook is set up: nothing happened
        return json_answer(wire.Heard("pong", None))
    delivery = first(call, _DELIVERIES)
    if not delivery:
        raise InvalidInput(
            "the delivery has no id, so it could count twice; send X-GitHub-Delivery or"
            " Idempotency-Key",
            field="delivery",
        )
    ask = Ask(agent, name, TriggerKind.WEBHOOK, _told(call, raw), known_as(delivery))
    return _heard(await call.ledger.schedules.ask(ask))


async def _signer(call: Call, raw: bytes) -> tuple[str, str]:
    """The schedule whose secret the delivery was signed with. Every unsigned call gets the same
    answer: which schedules exist, and what they lack, only concerns those who run this server."""
    try:
        agent, name = named(call)
        _demand_signed(call, raw, _secret(call, agent, name))
    except RotaError as error:
        log_refused(call, error)
        raise Unauthenticated("the webhook's signature is missing or wrong") from None
    return agent, name


def _secret(call: Call, agent: str, name: str) -> str:
    variable = call.ledger.schedules.secret_env(agent, name)
    secret = environ.get(variable, "")
    if not secret:
        raise Forbidden(
            f"the variable {variable} is not set where the server runs, so nobody can sign for"
            f" {agent}/{name}"
        )
    return secret


def _demand_signed(call: Call, raw: bytes, secret: str) -> None:
    if signed_by(secret, raw, first(call, _SIGNATURES)):
        return
    token = call.header(_TOKEN)
    if token and hmac.compare_digest(secret.encode(), token.encode("utf-8", "replace")):
        return
    raise Unauthenticated("its signature is missing, or is not of the schedule's secret")


def _told(call: Call, raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    event = first(call, _EVENTS)
    told = f"Event: {event[:100]}\n\n{text}" if event else text
    if len(told) <= LONGEST_MESSAGE:
        return told
    kept = LONGEST_MESSAGE - 100
    return f"{told[:kept]}\n[cut: {len(told) - kept} more characters]"


def _heard(trigger: Trigger | None) -> Answer:
    if trigger is None:
        return json_answer(wire.Heard("seen before", None))
    return json_answer(wire.Heard("accepted", trigger.id), 202)


ENDPOINTS = (hear_chat, hear_webhook)
