"""`rota.yaml` as a JSON Schema, for editors."""

from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import BeforeValidatorFunctionSchema

from rota.config.fleet_file import FleetFile
from rota.config.variables import unquoted
from rota.model.intervals import written

_NOTHING = {"type": "null"}
_TOLD = ("title", "description", "default")
_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def json_schema() -> dict[str, Any]:
    made = FleetFile.model_json_schema(schema_generator=_ForEditors)
    _let_agents_name_the_repository(made)
    _let_keys_say_nothing(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": "rota.yaml",
    }


class _ForEditors(GenerateJsonSchema):
    def encode_default(self, dft: Any) -> Any:
        """As it is written in the file: editors offer defaults."""
        return written(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def function_before_schema(self, schema: BeforeValidatorFunctionSchema) -> dict[str, Any]:
        """A number or a switch may come from the environment: `port: ${PORT}`."""
        made = super().function_before_schema(schema)
        lax = schema["function"]["function"] is unquoted
        return {"anyOf": [made, _VARIABLE]} if lax else made


def _let_agents_name_the_repository(made: dict[str, Any]) -> None:
    """A `work_source` may leave `repo` to its agent; an entry of `sources` may not."""
    for name in ("GitHubSource", "GiteaSource"):
        made["$defs"][name]["required"].remove("repo")
    of_a_tracker = {"properties": {"type": {"enum": ["github", "gitea", "forgejo"]}}}
    named = {"required": ["repo"], "properties": {"repo": {"type": "string"}}}
    made["properties"]["sources"]["items"] |= {"if": of_a_tracker, "then": named}


def _let_keys_say_nothing(made: dict[str, Any]) -> None:
    """`key:` without a value stands for a key that is left out; in the maps of an agent it removes
    what a layer below has set."""
    for section in (made, *made["$defs"].values()):
        keys = section.get("properties", {})
        optional = keys.keys() - set(section.get("required", ()))
        keys |= {name: _or_nothing(keys[name]) for name in optional}
    for name in ("AgentConfig", "AgentSettings", "McpServer"):
        for key in made["$defs"][name]["properties"].values():
            _let_entries_say_nothing(key)


def _or_nothing(key: dict[str, Any]) -> dict[str, Any]:
    if isinstance(key.get("type"), str) and not {"const", "enum"} & key.keys():
        return {**key, "type": [key["type"], "null"]}
    told = {name: one for name, one in key.items() if name in _TOLD}
    rules = {name: one for name, one in key.items() if name not in _TOLD}
    ways = rules["anyOf"] if rules.keys() == {"anyOf"} else [rules]
    return {**told, "anyOf": ways if _NOTHING in ways else [*ways, _NOTHING]}


def _let_entries_say_nothing(key: dict[str, Any]) -> None:
    patterns = key.get("patternProperties", {})
    patterns |= {pattern: _or_nothing(entry) for pattern, entry in patterns.items()}
    if isinstance(entry := key.get("additionalProperties"), dict):
        key["additionalProperties"] = _or_nothing(entry)
