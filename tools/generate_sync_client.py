"""Writes `rota/client/_sync` from `rota/client/_async`: the same text without `async` and `await`.

    python -m tools.generate_sync_client           write what has changed
    python -m tools.generate_sync_client --check   only say what would; exit 1 if anything

`runtime.py` and `__init__.py` are written by hand on both sides.
"""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "rota" / "client"
BY_HAND = frozenset({"__init__.py", "runtime.py"})
HEAD = "# Made from ../_async/{name} by tools/generate_sync_client.py: change it there.\n\n"

# Applied in this order. Patterns match whole words, so that `async` does not match
# `AsyncTransport`.
REPLACEMENTS = [
    (r"Coroutine\[Any, Any, (\w+)\]", r"\1"),
    (r"\b_async\b", "_sync"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsync(Transport|Stream)\b", r"Sync\1"),
    (r"\bWorkQueueClient\b", "SyncWorkQueueClient"),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\baclose\b", "close"),
    (r"\bon asyncio\b", "for threads"),
]


def generated(name: str) -> str:
    text = (CLIENT / "_async" / name).read_text()
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    return _tidied(HEAD.format(name=name) + text, CLIENT / "_sync" / name)


def _tidied(text: str, path: Path) -> str:
    """Reformat: lines have become shorter, imports unused, and some loops trivial."""
    named = ["--stdin-filename", str(path), "-"]
    ruff = [sys.executable, "-m", "ruff"]
    fixes = ["--fix", "--unsafe-fixes", "--select", "C416,F401,I,UP028"]
    for step in (["check", "--quiet", *fixes], ["format", "--quiet"]):
        run = subprocess.run(
            [*ruff, *step, *named], input=text, capture_output=True, text=True, check=True
        )
        text = run.stdout
    return text


def sources() -> list[str]:
    return sorted(
        path.name for path in (CLIENT / "_async").glob("*.py") if path.name not in BY_HAND
    )


def out_of_step() -> list[Path]:
    """Files of `_sync` that differ from what would be generated, missing and surplus ones
    included."""
    names = sources()
    surplus = [
        path
        for path in (CLIENT / "_sync").glob("*.py")
        if path.name not in BY_HAND and path.name not in names
    ]
    return surplus + [path for name in names if not _is_current(path := CLIENT / "_sync" / name)]


def _is_current(path: Path) -> bool:
    return path.exists() and path.read_text() == generated(path.name)


def main(arguments: list[str]) -> int:
    stale = out_of_step()
    for path in stale:
        print(f"{path.relative_to(CLIENT.parents[2])} is out of step with _async/{path.name}")
        if "--check" in arguments:
            continue
        if path.name in sources():
            path.write_text(generated(path.name))
        else:
            path.unlink()
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
