"""Texts for coding agents."""

from rota.mcp.prime import GUIDE

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

_DESCRIPTION = (
    "Take work from Rota, keep the claim, and give it back. Use when asked to work on the queue,"
    " an item or an issue of this project, or to report on one."
)


def skill(agent: str) -> str:
    head = f"---\nname: rota\ndescription: {_DESCRIPTION}\n---\n\n"
    return head + GUIDE.format(agent=agent)


def rule(rota: str, agent: str) -> str:
    """For Cursor: a rule that always applies."""
    head = "---\ndescription: How work is taken and given back\nalwaysApply: true\n---\n\n"
    return head + BLOCK.format(rota=rota, agent=agent)
