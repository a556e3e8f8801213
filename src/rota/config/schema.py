"""`rota.yaml` as a JSON Schema, for editors."""

from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import BeforeValidatorFunctionSchema

from rota.config.fleet_file import FleetFile
from rota.config.variables import unquoted
from rota.model.intervals import written

_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def json_schema() -> dict[str, Any]:
    made = FleetFile.model_json_schema(schema_generator=_ForEditors)
    _let_agents_name_the_repository(made)
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
    made["properties"]["sources"]["items"] |= {"if": of_a_tracker, "then": {"required": ["repo"]}}
