"""What makes a coding agent use Rota: instructions, MCP configuration, a skill, hooks.

Files of other people are changed as little as text allows: a marked block, a member of a JSON
object, an entry of a list. What was put there can be taken away again to the byte.
"""
