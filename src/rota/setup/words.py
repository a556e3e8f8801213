"""Texts for coding agents."""

from rota.mcp.prime import guide

BLOCK = """\
## Work comes from Rota

This project's work is kept in Rota, a ledger in which an item is worked by one agent at a time.

- Begin with `{rota} prime --agent {agent}`: it tells how to work here and what is ready.
- Claim an item before you change anything for it: the MCP tool `work_claim` of the server `rota`,
  or `{rota} claim --agent {agent}`.
- Show that you are at it with `work_progress`; `claim_lost` means to stop on that item at once.
- End every claim with `work_complete` or `work_return`. Never stop with one open.
- Work you find on the way becomes an item of its own: `work_add`.
"""

# Without the names of tools, for an agent that has no MCP server.
COMMANDS = """\
## Work comes from Rota

This project's work is kept in Rota, a ledger in which an item is worked by one agent at a time.

- Begin with `{rota} prime --agent {agent}`: it tells how to work here and what is ready.
- Claim an item before you change anything for it: `{rota} claim --agent {agent}`.
- Show that you are at it with `{rota} heartbeat ID --token TOKEN`; exit code 7 means to stop on
  that item at once.
- End every claim with `{rota} done`, `release`, `block` or `fail`. Never stop with one open.
- Work you find on the way becomes an item of its own: `{rota} add`.
"""

_DESCRIPTION = (
    "Take work from Rota, keep the claim, and give it back. Use when asked to work on the queue,"
    " an item or an issue of this project, or to report on one."
)


def skill(rota: str, agent: str) -> str:
    head = f"---\nname: rota\ndescription: {_DESCRIPTION}\n---\n\n"
    return head + guide(agent, rota)


def rule(rota: str, agent: str) -> str:
    """For Cursor: a rule that always applies."""
    head = "---\ndescription: How work is taken and given back\nalwaysApply: true\n---\n\n"
    return head + BLOCK.format(rota=rota, agent=agent)
