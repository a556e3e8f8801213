"""Layers: a fleet's defaults, an agent's own settings, a fleet's overrides."""

from typing import Any

from rota.config.tree import PlacedMap


def deep_merge(base: Any, override: Any) -> Any:
    """Mappings are merged key by key; any other value, also a list, replaces the one below.

    So does a mapping of another `type`: the keys of a cron schedule do not fit an interval. In a
    file, `key:` without a value removes the one below.
    """
    if base is None or override is None:
        return base if override is None else override
    if _types_differ(base, override):
        return override
    merged = base.copied() if isinstance(base, PlacedMap) else dict(base)
    if isinstance(merged, PlacedMap):
        merged.place = override.place
        merged.places.update(override.places)
    for name, value in override.items():
        below = merged.get(name)
        if value is None and below is not None and isinstance(merged, PlacedMap):
            merged.take(name)
            continue
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[name] = deep_merge(below, value) if both else value
    return merged


def _types_differ(base: Any, override: Any) -> bool:
    return "type" in base and "type" in override and base["type"] != override["type"]
