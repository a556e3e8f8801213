"""What `rota demo` shows: a fleet as a user would write it, and work for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rota.cli.demo_agents import FLAKY, UNCLEAR

if TYPE_CHECKING:
    from rota.client import WorkQueueClient

FLEET = """\
# The fleet of `rota demo`. Its agents are functions in rota/cli/demo_agents.py; yours would be
# programs: see docs/tutorial-fleet.md.
version: 1

fleet:
  name: demo

defaults:
  runtime: {type: python, callable: "rota.cli.demo_agents:work"}
  timeout: 30s
  retry: {max_attempts: 3, backoff: 3s}

agents:
  - name: ada
    description: mends what is broken
    work_source: {type: queue, types: [bug_fix]}
    schedules:
      look: {type: interval, interval: 1s, prompt: "Fix this bug, with a test:"}

  - name: brin
    description: reviews
    work_source: {type: queue, types: [code_review]}
    schedules:
      look: {type: interval, interval: 1s, prompt: "Review this change:"}

  - name: cleo
    description: writes, and does what is left
    work_source: {type: queue, types: [docs, chore]}
    schedules:
      look: {type: interval, interval: 1s, prompt: "Do this:"}

  - name: dora
    description: wakes by the clock, whether there is work or not
    runtime: {callable: "rota.cli.demo_agents:report"}
    schedules:
      report: {type: cron, cron: "* * * * *", prompt: "Write the report of the minute."}
"""


@dataclass(frozen=True, slots=True)
class Sample:
    project: str
    type: str
    title: str
    priority: int = 3
    labels: tuple[str, ...] = ()
    waits_for: str | None = None  # the title of an earlier sample


_FORMAT = "Describe the new export format"

SAMPLES = (
    Sample("Shop", "bug_fix", "Totals are off by a cent on invoices with discounts", 1, (FLAKY,)),
    Sample("Shop", "code_review", "Review: currency rounding", 1),
    Sample("Website", "docs", _FORMAT, 2),
    Sample("Website", "docs", "Announce the new export format", 2, waits_for=_FORMAT),
    Sample("Website", "bug_fix", "The login page forgets the language", 2),
    Sample("Shop", "code_review", "Review: index for the orders table", 2),
    Sample("Shop", "bug_fix", "Import stops at files with two headers", 2, (UNCLEAR,)),
    Sample("Website", "chore", "Rotate the staging certificates"),
    Sample("Shop", "bug_fix", "Upload of empty files hangs"),
    Sample("Shop", "code_review", "Review: retry with backoff in the mail sender"),
    Sample("Website", "docs", "Explain how to restore a backup", 4),
    Sample("Shop", "chore", "Remove the feature flag for the old search", 5),
)
# One of these is submitted every few seconds.
MORE = (
    Sample("Shop", "bug_fix", "Time zone of reminders is wrong in winter"),
    Sample("Website", "docs", "Screenshots of the settings page are old", 4),
    Sample("Shop", "code_review", "Review: new search", 2),
    Sample("Website", "chore", "Renew the domain", 1),
    Sample("Shop", "bug_fix", "Discounts of other currencies are not shown", 2),
    Sample("Website", "code_review", "Review: smaller pictures on the front page"),
    Sample("Shop", "docs", "Say which browsers are supported", 5),
    Sample("Website", "bug_fix", "The search does not find umlauts"),
    Sample("Shop", "chore", "Delete accounts that were closed a year ago", 4),
    Sample("Website", "docs", "Correct the address in the imprint", 1),
    Sample("Shop", "code_review", "Review: totals in cents", 2),
    Sample("Website", "bug_fix", "Links in mails are broken over lines"),
)


async def create_projects(client: "WorkQueueClient") -> dict[str, str]:
    """The ids of the projects by name."""
    names = dict.fromkeys(sample.project for sample in SAMPLES)
    return {name: (await client.create_project(name))["id"] for name in names}


async def submit(
    client: "WorkQueueClient", samples: Sequence[Sample], projects: Mapping[str, str]
) -> None:
    ids: dict[str, str] = {}
    for sample in samples:
        item = await client.work_add(**_fields(sample, projects, ids))
        ids[sample.title] = item["id"]


def _fields(sample: Sample, projects: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": sample.type,
        "description": sample.title,
        "priority": sample.priority,
        "project_id": projects[sample.project],
        "labels": list(sample.labels),
        "blocked_by": [ids[sample.waits_for]] if sample.waits_for else [],
    }
