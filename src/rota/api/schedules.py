"""Schedules: looked at, switched, and triggered by people, webhooks and chats."""

import hashlib
import hmac
import os
from collections.abc import Sequence

from rota.api import schedule_wire as wire
from rota.api.answers import Answer, empty_answer, json_answer
from rota.api.call import LONGEST_ID, Call
from rota.api.routing import endpoint
from rota.api.schedule_wire import ChatMessage, Restore, ScheduleQuery, TriggerNow
from rota.model.access import ADMIN, DISPATCH, READ
from rota.model.errors import BadCursor, Forbidden, InvalidInput, NotFound, Unauthenticated
from rota.model.schedules import Trigger, TriggerKind
from rota.model.work import NAME
from rota.scheduler.service import LONGEST_MESSAGE, Ask

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


@endpoint(
    "GET", "/schedules", scope=READ, tag=TAG, gives=list[wire.Schedule], refuses=(400,),
    sets=("Link",),
)  # fmt: skip
async def list_schedules(call: Call, query: ScheduleQuery) -> Answer:
    """List schedules by agent and name: when each ran, when it will, and why it did not."""
    after = None if query.cursor is None else _place(query.cursor)
    found = await call.ledger.schedules.find(query.agent, after, query.limit)
    full = len(found) == query.limit
    headers = call.next_page(cursor=f"{found[-1].agent}/{found[-1].name}") if full else None
    return json_answer([wire.schedule_of(one) for one in found], 200, headers)


def _place(cursor: str) -> tuple[str, str]:
    agent, _, name = cursor.partition("/")
    if not NAME.fullmatch(agent) or not NAME.fullmatch(name):
        raise BadCursor("cursor: not one of ours; take it from the Link header", field="cursor")
    return agent, name


def _named(call: Call) -> tuple[str, str]:
    """What cannot be a name is not asked of the database."""
    agent, name = call.parameters
    if not NAME.fullmatch(agent) or not NAME.fullmatch(name):
        shown = f"{agent[:LONGEST_ID]}/{name[:LONGEST_ID]}"
        raise NotFound(f"there is no schedule {shown!r}")
    return agent, name


@endpoint("GET", "/schedules/{agent}/{schedule}", scope=READ, tag=TAG, gives=wire.Schedule)
async def show_schedule(call: Call) -> Answer:
    """Look at one schedule."""
    return json_answer(wire.schedule_of(await call.ledger.schedules.get(*_named(call))))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/enable", scope=DISPATCH, tag=TAG, gives=wire.Schedule
)
async def enable_schedule(call: Call) -> Answer:
    """Let a schedule wake its agent again, from now on.

    What passed while it was disabled is not made up for.
    """
    return json_answer(wire.schedule_of(await call.ledger.schedules.enable(*_named(call))))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/disable", scope=DISPATCH, tag=TAG, gives=wire.Schedule
)
async def disable_schedule(call: Call) -> Answer:
    """Keep a schedule from waking its agent. What runs goes on.

    It holds until it is enabled again, or `enabled` is changed in the configuration.
    """
    return json_answer(wire.schedule_of(await call.ledger.schedules.disable(*_named(call))))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/trigger", scope=DISPATCH, tag=TAG, gives=wire.Trigger,
    status=202, refuses=(409,),
)  # fmt: skip
async def trigger_schedule(call: Call, body: TriggerNow) -> Answer:
    """Wake the agent now, whatever the clock says; also when the schedule is disabled.

    A node that has the agent takes it up as soon as there is room; `GET /triggers/{id}` says what
    became of it.
    """
    trigger = await call.ledger.schedules.trigger(*_named(call), body.message)
    return json_answer(wire.trigger_of(trigger), 202)


@endpoint("DELETE", "/schedules/{agent}/{schedule}", scope=ADMIN, tag=TAG, status=204)
async def forget_schedule(call: Call) -> Answer:
    """Forget a schedule that no configuration names any more.

    One that is configured comes back when that is read again, without its past.
    """
    await call.ledger.schedules.forget(*_named(call))
    return empty_answer()


@endpoint("GET", "/triggers/{id}", scope=READ, tag=TAG, gives=wire.Trigger)
async def show_trigger(call: Call) -> Answer:
    """Look at one trigger: who has taken it up, and how it ended."""
    return json_answer(wire.record_of(await call.ledger.schedules.trigger_record(call.id)))


@endpoint(
    "POST", "/schedules/{agent}/{schedule}/restore", scope=ADMIN, tag=TAG, gives=wire.Restored
)
async def restore_schedule(call: Call, body: Restore) -> Answer:
    """Take over what another scheduler knew of a schedule, before it has run here.

    An interval goes on from its last run; the configuration may be read later.
    """
    agent, name = _named(call)
    restored = await call.ledger.schedules.restore(
        agent,
        name,
        enabled=body.enabled,
        last_run_at=body.last_run_at,
        last_error=body.last_error,
    )
    return json_answer(wire.Restored(restored))


# messages from outside


@endpoint(
    "POST", "/chat/{agent}/{schedule}", scope=DISPATCH, tag=TAG, gives=wire.Heard, status=202,
    also=(200,), refuses=(409,),
)  # fmt: skip
async def hear_chat(call: Call, body: ChatMessage) -> Answer:
    """Wake the agent of a chat schedule with a message, as a bridge to any chat would.

    The message is given to the agent as text from outside; a `message_id` counts once.
    """
    agent, name = _named(call)
    heads = (("From", body.sender), ("Channel", body.channel))
    told = "".join(f"{head}: {value}\n" for head, value in heads if value)
    message = f"{told}\n{body.text}" if told else body.text
    ask = Ask(agent, name, TriggerKind.CHAT, message, body.message_id)
    return _heard(await call.ledger.schedules.ask(ask))


@endpoint(
    "POST", "/hooks/{agent}/{schedule}", scope=None, tag=TAG, gives=wire.Heard, status=202,
    also=(200,), refuses=(400, 409, 413, 415), takes=(*_SIGNED, *_DELIVERED),
    accepts="application/json",
)  # fmt: skip
async def hear_webhook(call: Call) -> Answer:
    """Wake the agent of a webhook schedule.

    Signed with the secret that the schedule's `secret_env` names: HMAC-SHA256 over the body, as
    GitHub and Gitea do it, or GitLab's token. What it says is given to the agent as text
    from outside; a delivery counts once.
    """
    agent, name = _named(call)
    raw = await call.raw_body()
    variable = call.ledger.schedules.secret_env(agent, name)
    secret = os.environ.get(variable, "")
    if not secret:
        raise Forbidden(
            f"the variable {variable} is not set where the server runs, so nobody can sign for"
            f" {agent}/{name}"
        )
    _demand_signed(call, raw, secret.encode())
    delivery = _first(call, _DELIVERIES)
    if not delivery:
        raise InvalidInput(
            "the delivery has no id, so it could count twice; send X-GitHub-Delivery or"
            " Idempotency-Key",
            field="delivery",
        )
    ask = Ask(agent, name, TriggerKind.WEBHOOK, _told(call, raw), delivery[:150])
    return _heard(await call.ledger.schedules.ask(ask))


def _demand_signed(call: Call, raw: bytes, secret: bytes) -> None:
    right = hmac.new(secret, raw, hashlib.sha256).hexdigest().encode()
    signature = _first(call, _SIGNATURES).removeprefix("sha256=").lower()
    token = _first(call, (_TOKEN,))
    if hmac.compare_digest(right, signature.encode("utf-8", "replace")):
        return
    if token and hmac.compare_digest(secret, token.encode("utf-8", "replace")):
        return
    raise Unauthenticated("the webhook's signature is missing or wrong")


def _told(call: Call, raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    event = _first(call, _EVENTS)
    told = f"Event: {event[:100]}\n\n{text}" if event else text
    if len(told) <= LONGEST_MESSAGE:
        return told
    kept = LONGEST_MESSAGE - 100
    return f"{told[:kept]}\n[cut: {len(told) - kept} more characters]"


def _heard(trigger: Trigger | None) -> Answer:
    if trigger is None:
        return json_answer(wire.Heard("seen before", None))
    return json_answer(wire.Heard("accepted", trigger.id), 202)


def _first(call: Call, names: Sequence[bytes]) -> str:
    return next((value for name in names if (value := call.header(name))), "")


ENDPOINTS = (
    list_schedules,
    show_schedule,
    enable_schedule,
    disable_schedule,
    forget_schedule,
    trigger_schedule,
    restore_schedule,
    show_trigger,
    hear_chat,
    hear_webhook,
)
