"""The table of commands."""

import click

from rota import __version__
from rota.cli.lazy import LazyGroup, Sections
from rota.cli.session import Session, shared_options

SECTIONS: Sections = {
    "Run": {
        "up": ("rota.cli.up:up", "Run the server: agents, API and dashboard."),
        "serve": ("rota.cli.up:serve", "Serve the API and the dashboard, without agents."),
        "worker": ("rota.cli.worker:worker", "Run an agent on this machine, for a server."),
        "demo": ("rota.cli.demo:demo", "Show a fleet of scripted agents at work."),
        "init": ("rota.cli.init:init", "Write a first rota.yaml."),
        "config": ("rota.cli.config:config", "Check, show and reload rota.yaml."),
        "doctor": ("rota.cli.doctor:doctor", "Check this machine's setup, and say how to fix it."),
        "db": ("rota.cli.database:db", "Check, upgrade, back up and restore the database."),
        "export": ("rota.cli.exporting:export", "Export the whole ledger as lines of JSON."),
        "import": ("rota.cli.importing:import_", "Import a ledger, or work from another tool."),
    },
    "Coding agents": {
        "setup": ("rota.cli.setup:setup", "Connect a coding agent to Rota."),
        "mcp": ("rota.cli.mcp:mcp", "Serve the ledger to a coding agent over MCP."),
        "prime": ("rota.cli.prime:prime", "Print what a coding agent must know to work here."),
    },
    "Submit and look": {
        "add": ("rota.cli.items:add", "Submit a work item."),
        "list": ("rota.cli.items:list_items", "List open items by priority and age."),
        "ready": ("rota.cli.items:ready", "List the items that can be claimed now."),
        "board": ("rota.cli.board:board", "Show the board in the terminal, and move its cards."),
        "show": ("rota.cli.show:show", "Show one item with its history."),
        "explain": ("rota.cli.show:explain", "Explain why nobody works on an item."),
        "stats": (
            "rota.cli.statistics:stats",
            "Show what was done, how long it took and its cost.",
        ),
        "watch": ("rota.cli.watch:watch", "Print events as they happen."),
        "edit": ("rota.cli.edit:edit", "Change the fields of an item."),
        "note": ("rota.cli.edit:note", "Write a note on an item."),
    },
    "Work": {
        "claim": ("rota.cli.claim:claim", "Claim the best ready item for an agent."),
        "heartbeat": ("rota.cli.claim:heartbeat", "Extend the lease of a claim."),
        "start": ("rota.cli.verbs:start", "Start work on a dispatched item."),
        "done": ("rota.cli.verbs:done", "Complete an item."),
        "fail": ("rota.cli.verbs:fail", "Mark an item as failed."),
        "block": ("rota.cli.verbs:block", "Mark an item as blocked, and say why."),
        "resume": ("rota.cli.verbs:resume", "Resume a blocked item yourself."),
        "release": ("rota.cli.verbs:release", "Give an item back to the queue."),
        "hand-over": ("rota.cli.verbs:hand_over", "Hand an item over for review."),
        "follow-up": (
            "rota.cli.follow_ups:follow_up",
            "List, claim and complete follow-ups of signals.",
        ),
    },
    "Manage items": {
        "dispatch": ("rota.cli.verbs:dispatch", "Dispatch an item to an agent."),
        "retry": ("rota.cli.verbs:retry", "Queue a failed item again."),
        "cancel": ("rota.cli.verbs:cancel", "Cancel an item before work on it begins."),
        "reopen": ("rota.cli.verbs:reopen", "Send an item in review back to the queue."),
        "hold": ("rota.cli.edit:hold", "Hold an item, so that no agent picks it up."),
        "unhold": ("rota.cli.edit:unhold", "Remove the hold from an item."),
        "stale": ("rota.cli.watch:stale", "Bring back items that nobody works on any more."),
    },
    "Sources and notifications": {
        "issue": ("rota.cli.issue:issue", "Claim, hold and inspect issues of a repository."),
        "source": ("rota.cli.sources:source", "List and check sources, and take items from them."),
        "outbox": (
            "rota.cli.outbox:outbox",
            "List and retry undelivered reports and notifications.",
        ),
        "notify": ("rota.cli.notify:notify", "List and test notification channels."),
        "hook": ("rota.cli.hooks:hook", "Install the git hook that refuses conflicting pushes."),
    },
    "Fleet and access": {
        "run": ("rota.cli.runs:run", "List, show and cancel runs of agents."),
        "schedule": ("rota.cli.schedules:schedule", "List, trigger, enable and disable schedules."),
        "signal": (
            "rota.cli.signals:signal",
            "Make and manage signals: when this happens, do that.",
        ),
        "project": ("rota.cli.projects:project", "Add, list and edit projects."),
        "agent": ("rota.cli.agents:agent", "List, show, configure, pause and resume agents."),
        "token": ("rota.cli.tokens:token", "Create, list and revoke API tokens."),
    },
}

# Click wraps paragraphs to the terminal's width, but keeps the lines of one that begins with \b.
ENDING = """
Without --url or ROTA_URL, commands talk to the server that runs on the state directory. When none
runs there, they open the database themselves; commands that add something create it if it is
missing. ROTA_TOKEN holds the server's token.

With --json, standard output holds one document: {"schema_version", "data", "meta"}, or
{"schema_version", "error": {"code", "message", "details"}}. Streams print one document per line.

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
    """Rota runs fleets of AI agents on a durable ledger of work."""
    context.ensure_object(Session)
