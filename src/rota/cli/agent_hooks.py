"""The commands that a coding agent's hooks run; `rota setup claude` writes the hooks.

They follow Claude Code's rules: it sends facts as JSON on standard input, exit code 2 refuses, and
standard error is then shown to the agent. Any other code lets the agent go on.
"""

import json
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rota.cli.program import with_its_ledger
from rota.cli.session import group

if TYPE_CHECKING:
    from rota.cli.session import Session

agent_hook = group(
    "agent",
    "Hooks of a coding agent, installed by `rota setup claude`.",
    "rota hook agent stop --agent smith",
)

REFUSED = 2  # Claude Code's exit code for it
REST_SECONDS = 15.0
_MOST_READ = 1024 * 1024
_SHOWN = 5

_agent = click.option("--agent", required=True, help="The agent's name in the ledger.")


@agent_hook.member("start", example="rota hook agent start --agent smith")
@_agent
def start(session: "Session", /, agent: str) -> None:
    """Print what `rota prime` prints, when a conversation begins."""
    from rota.cli.prime import stand
    from rota.mcp.prime import text

    print(text(stand(session, agent), with_its_ledger(session)), end="")


@agent_hook.member("tool", example="rota hook agent tool --agent smith")
@_agent
def tool(session: "Session", /, agent: str) -> None:
    """Record that the agent is alive, after it used a tool.

    `rota mcp` extends the agent's claims while it shows such signs of life. This command only
    touches a file, at most every 15 seconds.
    """
    from rota.cli.seats import seen_file

    seen = seen_file(session, agent)
    with suppress(OSError):
        if time.time() - seen.stat().st_mtime < REST_SECONDS:
            return
    seen.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen.touch(mode=0o600)


@agent_hook.member("stop", example="rota hook agent stop --agent smith")
@_agent
def stop(session: "Session", /, agent: str) -> None:
    """Refuse to let the agent stop while it holds a claim.

    Exit code 2 refuses. It refuses once: an agent that stops all the same is let go, and the lease
    of its claim runs out.
    """
    from rota.cli.seats import has_ledger

    if _facts().get("stop_hook_active") or not has_ledger(session):
        return
    held = [one for one in session.client.work_list("in_progress", agent) if _is_claimed(one)]
    if held:
        print(_refusal(held), file=sys.stderr)
        raise click.exceptions.Exit(REFUSED)


def _facts() -> dict[str, Any]:
    if sys.stdin.isatty():
        return {}
    with suppress(ValueError, RecursionError):
        found = json.loads(sys.stdin.read(_MOST_READ))
        return found if isinstance(found, dict) else {}
    return {}


def _is_claimed(item: dict[str, Any]) -> bool:
    """Whether it has a lease that has not run out."""
    until = item["lease_expires_at"]
    return until is not None and datetime.fromisoformat(until) > datetime.now(UTC)


def _refusal(held: list[dict[str, Any]]) -> str:
    from rota.cli.text import shortened

    named = "\n".join(
        f"- {one['id']}: {shortened(one['description'], 80)}" for one in held[:_SHOWN]
    )
    return (
        f"You still hold a claim in Rota:\n{named}\nBefore you stop, end it: work_complete if it is"
        " done, else work_return (release, block or fail) with notes for the next one."
    )
