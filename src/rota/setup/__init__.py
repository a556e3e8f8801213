"""Makes a coding agent use Rota: instructions, MCP configuration, a skill, hooks.

Other people's files are changed as little as possible: a marked block, a member of a JSON object,
an entry of a list. The changes can be removed again, byte for byte.
"""
