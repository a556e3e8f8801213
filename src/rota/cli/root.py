"""The table of commands."""

import click

from rota import __version__
from rota.cli.lazy import LazyGroup, Sections
from rota.cli.session import Session, shared_options

SECTIONS: Sections = {
    "Run": {
        "up": ("rota.cli.up:up", "Serve the queue, its API and the dashboard."),
        "serve": ("rota.cli.up:serve", "Serve only; agents and the rest are left to another `up`."),
        "worker": ("rota.cli.worker:worker", "Run an agent here on items of a server elsewhere."),
        "demo": ("rota.cli.demo:demo", "Show a fleet of scripted agents at work."),
        "init": ("rota.cli.init:init", "Write a rota.yaml to begin with."),
        "config": ("rota.cli.config:config", "What rota.yaml says, and whether it can be right."),
        "doctor": ("rota.cli.doctor:doctor", "Check that everything is in order."),
        "db": ("rota.cli.database:db", "Look after the database."),
        "export": ("rota.cli.exporting:export", "Write the whole ledger as lines of JSON."),
        "import": ("rota.cli.importing:import_", "Bring in a ledger, or work of another tool."),
    },
    "Coding agents": {
        "setup": ("rota.cli.setup:setup", "Make a coding agent use Rota, or no longer."),
        "mcp": ("rota.cli.mcp:mcp", "Serve the ledger to a coding agent by MCP."),
        "prime": ("rota.cli.prime:prime", "Tell an agent how to work here, and what there is."),
    },
    "Submit and look": {
        "add": ("rota.cli.items:add", "Submit a work item."),
        "list": ("rota.cli.items:list_items", "List items by priority and age."),
        "ready": ("rota.cli.items:ready", "List what could be claimed now."),
        "board": ("rota.cli.board:board", "Watch the board and move its cards, in the terminal."),
        "show": ("rota.cli.show:show", "Show one item with its history."),
        "explain": ("rota.cli.show:explain", "Say why nobody works on an item."),
        "stats": ("rota.cli.statistics:stats", "Look back: what was done, and what it took."),
        "watch": ("rota.cli.watch:watch", "Follow events as they happen."),
        "edit": ("rota.cli.edit:edit", "Change what an item says."),
        "note": ("rota.cli.edit:note", "Leave a note on an item."),
    },
    "Work": {
        "claim": ("rota.cli.claim:claim", "Take the best item there is for an agent."),
        "heartbeat": ("rota.cli.claim:heartbeat", "Keep a claim alive."),
        "start": ("rota.cli.verbs:start", "Begin a dispatched item."),
        "done": ("rota.cli.verbs:done", "Complete an item."),
        "fail": ("rota.cli.verbs:fail", "Give an item up as failed."),
        "block": ("rota.cli.verbs:block", "Say that an item cannot go on, and why."),
        "resume": ("rota.cli.verbs:resume", "Go on with a blocked item yourself."),
        "release": ("rota.cli.verbs:release", "Give an item back to the queue."),
        "hand-over": ("rota.cli.verbs:hand_over", "Give an item to review."),
        "follow-up": (
            "rota.cli.follow_ups:follow_up",
            "What signals ask to be done about an item.",
        ),
    },
    "Direct": {
        "dispatch": ("rota.cli.verbs:dispatch", "Name the agent that shall do an item."),
        "retry": ("rota.cli.verbs:retry", "Queue a failed item again."),
        "cancel": ("rota.cli.verbs:cancel", "Cancel an item before work has begun."),
        "reopen": ("rota.cli.verbs:reopen", "Send an item in review back to the queue."),
        "hold": ("rota.cli.edit:hold", "Keep an item from being picked up."),
        "unhold": ("rota.cli.edit:unhold", "Take the hold off an item."),
        "stale": ("rota.cli.watch:stale", "Bring back what nobody works on any more."),
    },
    "Work from outside": {
        "issue": ("rota.cli.issue:issue", "Issues of a repository: claim, hold, look, tidy up."),
        "source": ("rota.cli.sources:source", "Places that work comes from."),
        "outbox": ("rota.cli.outbox:outbox", "Reports and notifications that wait."),
        "notify": ("rota.cli.notify:notify", "Who is told of what."),
        "hook": ("rota.cli.hooks:hook", "Keep a push from answering what another works on."),
    },
    "Around": {
        "run": ("rota.cli.runs:run", "What agents have done, and are doing."),
        "schedule": ("rota.cli.schedules:schedule", "When agents wake, and why they did not."),
        "signal": ("rota.cli.signals:signal", "When this happens, that follows, once."),
        "project": ("rota.cli.projects:project", "Groups of items."),
        "agent": ("rota.cli.agents:agent", "Who works, and on how much at once."),
        "token": ("rota.cli.tokens:token", "Who may reach the API."),
    },
}

# Click wraps paragraphs to the terminal's width, but keeps the lines of one that begins with \b.
ENDING = """
Without --url or ROTA_URL, commands talk to the server that runs on the state directory; when none
runs there, they open the database themselves, and those that add something make it when it is not
there. ROTA_TOKEN holds the server's token.

With --json, standard output holds one document: {"schema_version", "data", "meta"}, or
{"schema_version", "error": {"code", "message", "details"}}; streams have one per line.

Exit codes: 0 ok, 1 negative answer, 2 usage, 3 not authenticated, 4 forbidden, 5 network,
6 server or storage, 7 conflict or lost claim, 8 the answer could not be written.

\b
Example: rota add "Mend the gate" --type bug_fix --priority high
"""


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    epilog=ENDING,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="rota %(version)s")
@shared_options
@click.pass_context
def rota(context: click.Context) -> None:
    """Rota hands work to fleets of agents and never loses track of it."""
    context.ensure_object(Session)
