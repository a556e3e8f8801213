"""Reads the open issues of a repository, to import them into the ledger once, as plain items.

A source keeps an issue and its item in step, and lets agents take only what a trusted person has
approved; a plain item has neither. So issues of a public repository, where anybody can write, are
held until a person has read them.
"""

from rota.claims.port import Issue, Tracker
from rota.exchange.incoming import Incoming, Reading, Standing
from rota.model.clock import to_text
from rota.sources.github.mapping import infer_priority


async def read(tracker: Tracker, *, trusted: bool = False) -> Reading:
    reading = Reading(tracker.kind)
    held = not trusted and await tracker.is_public()
    for issue in await tracker.issues():
        reading.add(_incoming(reading, tracker, issue, held=held))
    return reading


def _incoming(reading: Reading, tracker: Tracker, issue: Issue, *, held: bool) -> Incoming:
    key = f"{tracker.repo}#{issue.number}"
    if issue.milestone:
        reading.note(key, "milestone", "there are no milestones here")
    if issue.open_blockers:
        reading.note(
            key, "dependencies", f"it waits for {issue.open_blockers} others on the tracker"
        )
    why = f"{issue.author.login} wrote this on a public repository; read it before an agent does"
    return Incoming(
        key,
        issue.title or key,
        type="issue",
        body=issue.body.strip() or None,
        priority=infer_priority(issue.labels),
        labels=reading.labels(key, list(issue.labels)),
        agent=reading.agent(key, issue.assignee),
        created_by=issue.author.login,
        standing=Standing.HELD if held else Standing.OPEN,
        why=why if held else None,
        facts={"url": issue.url, "created_at": to_text(issue.created_at)},
    )
