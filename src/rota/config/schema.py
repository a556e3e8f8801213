"""`rota.yaml` as a JSON Schema, for editors."""

from typing import Any

from rota.config.fleet_file import FleetFile


def json_schema() -> dict[str, Any]:
    made = FleetFile.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": "rota.yaml",
    }
