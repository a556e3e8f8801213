"""Asks the queue what happened in the last day, and writes it down, one file a day."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

SECTIONS = {
    "Done": ["--status", "completed", "--since", "24h"],
    "Failed": ["--status", "failed", "--since", "24h"],
    "Waits for a person": ["--status", "blocked", "--status", "in_review"],
    "Still to do": ["--status", "queued", "--status", "dispatched"],
}


def items(words):
    """Commands find the server of the directory that they run in, which is the agent's."""
    done = subprocess.run(["rota", "list", *words, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)["data"]


def section(title, found):
    lines = [
        f"- {one['description']}" + (f": {one['notes']}" if one["notes"] else "") for one in found
    ]
    return "\n".join([f"## {title}", "", *(lines or ["Nothing."]), ""])


today = datetime.now(UTC).date().isoformat()
found = {title: items(words) for title, words in SECTIONS.items()}
report = Path("reports") / f"{today}.md"
report.parent.mkdir(exist_ok=True)
report.write_text(f"# {today}\n\n" + "\n".join(section(*one) for one in found.items()))

counts = ", ".join(f"{len(those)} {title.lower()}" for title, those in found.items())
Path(os.environ["ROTA_RESULT_FILE"]).write_text(
    json.dumps({"outcome": "success", "summary": f"{report}: {counts}"})
)
