"""The import law itself is checked by `make check`; here, that it has not come loose."""

import re
import tomllib
from pathlib import Path

OTHER_NAMES = {  # of modules than of their packages
    "markdown-it-py": "markdown_it",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())


def test_the_model_is_kept_from_every_package_that_rota_depends_on() -> None:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    (law,) = [
        contract for contract in contracts if contract.get("source_modules") == ["rota.model"]
    ]
    project = PYPROJECT["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {re.split(r"[^\w-]", name)[0] for some in wanted for name in some}
    assert set(law["forbidden_modules"]) == {
        OTHER_NAMES.get(name, name.replace("-", "_")) for name in named
    }
