"""Settings of an agent that its runtime does not support."""

from rota.config.document import Location
from rota.config.mistakes import Findings
from rota.config.tree import PlacedMap, find

_OF_CLAUDE = (("setting_sources",), ("tools", "only"))
_OF_MODELS: tuple[Location, ...] = (
    *_OF_CLAUDE,
    ("tools", "allow"),
    ("tools", "deny"),
    ("max_turns",),
    ("mcp_servers",),
)
_OF_CONVERSATIONS: tuple[Location, ...] = (
    *_OF_MODELS,
    ("model",),
    ("permission_mode",),
    ("session", "resume"),
    ("session", "max_turns"),
    ("session", "model"),
)
UNKNOWN_TO: dict[str, tuple[Location, ...]] = {
    "claude": (),
    "codex": _OF_MODELS,
    "gemini": (*_OF_CLAUDE, ("tools", "deny"), ("max_turns",), ("mcp_servers",)),
    "command": _OF_CONVERSATIONS,
    "python": _OF_CONVERSATIONS,
}


def warn_of_unused(runtime: str, agent: PlacedMap, findings: Findings) -> None:
    """Defaults are for many agents: a default that some runtimes cannot use is no mistake."""
    for loc in UNKNOWN_TO[runtime]:
        place, value = find(agent, loc)
        if value is not None and "defaults" not in place.loc:
            findings.warning(place, f"not acted on: the runtime {runtime} has nothing like it")
