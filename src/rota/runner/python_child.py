"""Calls one function and writes its result. Started as a script, by its path, in the agent's
working directory: it imports nothing else of Rota.

The function gets one argument, a `Call`. It may be a coroutine function. It returns None, a text
(the summary), or a mapping with `outcome`, `summary`, `details`, `artifacts`, `error`.
"""

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    run_id: str
    agent: str
    prompt: str
    system_prompt: str | None
    context: dict[str, Any]  # agent, schedule, item
    arguments: list[str]

    @property
    def item(self) -> dict[str, Any] | None:
        return self.context.get("item")


def main(target: str) -> int:
    sys.path.insert(0, str(Path.cwd()))
    try:
        returned = _called(_function(target), Call(**json.load(sys.stdin)))
        _write(returned)
    except Exception as error:  # noqa: BLE001 (whatever it is, it belongs into the log)
        traceback.print_exc()
        with suppress(Exception):  # the log has the traceback in any case
            _write_error(error)
        return 1
    return 0


def _function(target: str) -> Callable[[Call], Any]:
    module, _, name = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{target} is not a function")
    return found  # type: ignore[no-any-return]


def _called(function: Callable[[Call], Any], call: Call) -> Any:
    returned = function(call)
    return asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned


async def _awaited(returned: Any) -> Any:
    return await returned


def _write(returned: Any) -> None:
    if returned is None:
        return
    if isinstance(returned, str):
        returned = {"outcome": "success", "summary": returned}
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise TypeError(f"the function returned a {kind}; return None, a text or a mapping")
    Path(os.environ["ROTA_RESULT_FILE"]).write_text(json.dumps(dict(returned)))


def _write_error(error: Exception) -> None:
    """The error in one line; the log has the traceback. A result that the function has written
    itself is kept."""
    name, said = type(error).__name__, str(error)
    with Path(os.environ["ROTA_RESULT_FILE"]).open("x") as file:
        json.dump({"outcome": "failure", "error": f"{name}: {said}" if said else name}, file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
