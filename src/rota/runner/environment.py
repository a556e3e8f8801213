"""An agent's environment: a short list of the server's variables, and its own."""

import re
from collections.abc import Mapping
from pathlib import Path

from rota.runner.orphans import RUN_ID, RUN_ROOT
from rota.runner.port import RunRequest

RESULT_FILE = "ROTA_RESULT_FILE"
ITEM_FILE = "ROTA_ITEM_FILE"

PASSED = frozenset(
    {"PATH", "HOME", "LANG", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR"}
)  # and LC_*
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def inherited(environ: Mapping[str, str], more: tuple[str, ...] = ()) -> dict[str, str]:
    """What is inherited from the server's environment: only variables that were named."""
    names = PASSED | set(more)
    return {
        name: value
        for name, value in environ.items()
        if name in names or (name.startswith("LC_") and _NAME.fullmatch(name))
    }


def environment(
    request: RunRequest, environ: Mapping[str, str], root: Path, files: Mapping[str, Path]
) -> dict[str, str]:
    """All variables of a run, with those that name its `files`. The two variables that mark its
    processes cannot be overridden."""
    settings = request.settings
    return {
        **inherited(environ, settings.env_pass),
        **settings.env,
        **request.environ,
        "ROTA_AGENT": request.agent,
        **{name: str(path) for name, path in files.items()},
        RUN_ID: request.run_id,
        RUN_ROOT: str(root),
    }
