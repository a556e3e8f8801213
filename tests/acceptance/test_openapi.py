"""The API does what its own document says: judged from outside, by schemathesis."""

import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from rota.api import ApiSettings
from rota.api.hooks import Receiver, hook_endpoints
from rota.testing.served import serve

HERE = Path(__file__).parent
SETTINGS = ApiSettings(
    auth_failures=1_000_000,  # it tries every operation with a wrong token
    longest_wait_seconds=0.01,
)


@pytest.mark.early
@pytest.mark.parametrize("phases", ["examples,coverage", "fuzzing,stateful"])
def test_schemathesis_finds_nothing_that_the_document_does_not_say(
    tmp_path: Path, phases: str
) -> None:
    """In two halves, which can run beside each other."""
    hooks = hook_endpoints([Receiver("github", "ada/engine", lambda: "secret", lambda: None)])
    database, logs = f"sqlite:///{tmp_path}/rota.db", tmp_path / "runs"
    with serve(database, SETTINGS, endpoints=hooks, logs=logs) as served:
        token = httpx2.post(
            f"{served.url}/tokens", json={"name": "schemathesis", "scopes": ["admin"]}
        ).json()["secret"]
        done = subprocess.run(
            [
                Path(sys.executable).with_name("st"),
                f"--config-file={HERE / 'schemathesis.toml'}",
                "run",
                f"{served.url}/openapi.json",
                f"--header=Authorization: Bearer {token}",
                f"--phases={phases}",
                "--checks=all",
                "--max-examples=5",
                "--seed=4711",
                "--continue-on-failure",
            ],
            cwd=tmp_path,
            env=os.environ | {"SCHEMATHESIS_HOOKS": "ndjson", "PYTHONPATH": str(HERE)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Selected: 75/75" in done.stdout
