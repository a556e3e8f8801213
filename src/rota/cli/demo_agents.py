"""The agents of `rota demo`: scripts in place of programs that would ask a model.

The runtime `python` calls them like any function: in a process of their own, with what the agent
was told. A label on the item decides how it goes.
"""

import random
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.runner.python_child import Call

FLAKY, UNCLEAR = "flaky", "unclear"
WORKING_SECONDS = (0.5, 1.8)


def work(call: "Call") -> dict[str, Any]:
    item = call.item or {}
    print(f"reading: {item.get('title')}", flush=True)
    time.sleep(random.uniform(*WORKING_SECONDS))  # a model would take longer
    labels = item.get("labels") or []
    if FLAKY in labels and call.context.get("attempt") == 1:
        return {"outcome": "failure", "error": "2 of 214 tests failed"}
    if UNCLEAR in labels:
        return {
            "outcome": "partial",
            "summary": "Half of it is done. Which of the two formats is meant, the old or the new?",
        }
    return {"outcome": "success", "summary": "Done, with tests."}


def report(call: "Call") -> str:
    """Woken by the clock, without an item."""
    return "Wrote the report of the minute."
