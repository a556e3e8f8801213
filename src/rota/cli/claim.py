"""Claiming items, and keeping claims."""

import math
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from rota.cli import item_ids
from rota.cli.output import Column, column
from rota.cli.parsing import Count, Span, Text
from rota.cli.project_names import ProjectName
from rota.cli.session import command
from rota.cli.show import facts_of
from rota.cli.streams import Unwritten
from rota.cli.text import local_time
from rota.model.claims import MAX_WAIT_SECONDS
from rota.model.errors import RotaError

if TYPE_CHECKING:
    from rota.cli.session import Session
    from rota.client.errors import ConnectionFailed

# The longest wait of one request; a longer wait takes several requests.
_ONE_WAIT = MAX_WAIT_SECONDS / 2

_REASONS = {
    "nothing_ready": "nothing is ready for {agent}",
    "no_free_slot": (
        "{agent} works on as many items as it may: finish or release one, or"
        " rota agent set {agent} --max-concurrent N"
    ),
    "in_review_limit": (
        "too much of {agent}'s work waits for a review: see to it (rota list --status in_review"
        " --agent {agent}), or rota agent set {agent} --max-in-review N"
    ),
    "agent_paused": "{agent} is paused: rota agent resume {agent}",
}
_CLAIMED = [
    column("id"),
    Column("token", lambda item: item["claim"]["token"]),
    Column("expires", lambda item: item["claim"]["expires_at"]),
    column("type"),
    column("description", folds=True),
]


@command("claim", example="rota claim --agent smith --type bug_fix --wait 30s --lease 15m")
@click.option("--agent", required=True, help="The agent that claims.")
@click.option("--type", "types", multiple=True, help="Only items of this type; repeatable.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    help="Only items with this label; repeated: with all of them.",
)
@click.option("--project", "project_id", type=ProjectName(), help="Only items of this project.")
@click.option(
    "--lease",
    "lease_seconds",
    type=Span(),
    help="How long the claim holds without a heartbeat.  [default: 15m]",
)
@click.option("--limit", type=Count(1, 1000), help="Claim at most this many items.  [default: 1]")
@click.option(
    "--wait",
    type=Span(),
    is_flag=False,
    flag_value="36500d",
    help="Wait this long for an item; without a value, until there is one.",
)
def claim(session: "Session", /, agent: str, wait: float | None, **wanted: Any) -> None:
    """Claim the best ready item for an agent.

    Prints the item and the claim's token, which every later command about the item needs. Exit code
    1 when there is nothing to claim. In a pipe the columns are id, token, expiry, type and
    description. If the output cannot be written, the item is given back at once.
    """
    for name in ("types", "labels"):
        wanted[name] = list(wanted[name]) or None
    items, reason = _claimed(session, agent, wait or 0.0, wanted)
    if not items:
        why = _REASONS.get(reason or "", "nothing was claimed").format(agent=agent)
        session.output.negative([], reason or "nothing_ready", why)
    try:
        _show(session, items)
        sys.stdout.flush()
    except (Unwritten, BrokenPipeError):
        _give_back(session, items)
        raise
    session.output.say("\n".join(how_to_go_on(item) for item in items))


def _give_back(session: "Session", items: list[dict[str, Any]]) -> None:
    """The tokens were not printed, so nobody could work on these items."""
    for item in items:
        with suppress(RotaError):  # then the lease runs out
            token = item["claim"]["token"]
            session.client.release(item["id"], token, reason="claimer_gone", counted=False)
            session.output.say(f"{item['id']} is given back, for its token could not be told")


def _show(session: "Session", items: list[dict[str, Any]]) -> None:
    """A terminal shows each item in full; a pipe gets one line for each."""
    if session.as_json:
        session.output.document(items, count=len(items))
        return
    if not sys.stdout.isatty():
        session.output.table(items, _CLAIMED)
        return
    for number, item in enumerate(items):
        print("\n" * bool(number), end="")
        session.output.facts(item, [*facts_of(item), ("token", item["claim"]["token"])])


def _claimed(
    session: "Session", agent: str, wait: float, wanted: dict[str, Any]
) -> tuple[list[dict[str, Any]], str | None]:
    from rota.client.errors import ConnectionFailed

    items, reason = session.client.claim_or_reason(agent, wait_seconds=0, **wanted)
    if items or not wait:
        return items, reason
    session.output.waiting("an item")
    deadline, away = time.monotonic() + wait, None
    while not items and (left := deadline - time.monotonic()) > 0:
        began = time.monotonic()
        try:
            items, reason = session.client.claim_or_reason(
                agent, wait_seconds=min(_ONE_WAIT, math.ceil(left)), **wanted
            )
            away = _heard(session, away, None)
        except ConnectionFailed as error:  # it answered a moment ago, so it is probably restarting
            away = _heard(session, away, error)
        if time.monotonic() - began < 0.1:  # a server about to stop does not wait either
            time.sleep(min(0.5, max(deadline - time.monotonic(), 0)))  # no busy loop
    if away is not None:
        raise away
    return items, reason


def _heard(
    session: "Session", before: "ConnectionFailed | None", now: "ConnectionFailed | None"
) -> "ConnectionFailed | None":
    """As in `rota watch`: say once that the server does not answer, and once that it does again."""
    if (before is None) != (now is None):
        words = "answers again" if now is None else "does not answer; trying again until it does"
        session.output.say(f"{session.output.via} {words}")
    return now


def how_to_go_on(item: dict[str, Any]) -> str:
    token, item_id = item["claim"]["token"], item["id"]
    return "\n".join(
        (
            f"yours until {local_time(item['claim']['expires_at'])}; the token is {token}",
            f"  keep it      rota heartbeat {item_id} --token {token}",
            f"  finish it    rota done {item_id} --token {token} --notes …",
            f"  give it back rota release {item_id} --token {token}",
        )
    )


@command("heartbeat", example="rota heartbeat ITEM --token TOKEN --progress '2 of 5 tests'")
@item_ids.item
@click.option("--token", required=True, help="The claim's token.")
@click.option("--progress", help="How far the work is, in a few words.")
@click.option("--notes", type=Text(), help="A note on the item: text, @file or -.")
def heartbeat(
    session: "Session", /, item: str, token: str, progress: str | None, notes: str | None
) -> None:
    """Extend a claim by another lease.

    Exit code 7: the claim is lost, stop working on the item.
    """
    extended = session.client.heartbeat(item, token, notes, progress)
    session.output.line(extended, f"{item} is yours until {local_time(extended['expires_at'])}")
