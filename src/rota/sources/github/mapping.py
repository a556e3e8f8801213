"""Priorities from labels, and the response shapes that only GitHub has."""

import re
from collections.abc import Collection, Iterable
from typing import Any

from rota.claims.port import Account, Labelling, TextEdit
from rota.model.work import Priority
from rota.sources.http.records import author_of, moment_of

_KEYWORDS = {
    Priority.CRITICAL: {"critical", "p0", "urgent"},
    Priority.HIGH: {"high", "p1", "important"},
    Priority.LOW: {"low", "p3"},
}
_SEPARATORS = re.compile(r"[\W_]+")

# A changed title leaves an event, a changed body does not. Both change the text.
EDITS_QUERY = """
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    issue: issueOrPullRequest(number: $number) {
      ... on Issue {
        lastEditedAt
        editor { ...who }
        userContentEdits(first: 100) { totalCount nodes { editedAt editor { ...who } } }
        timelineItems(last: 100, itemTypes: [RENAMED_TITLE_EVENT]) {
          totalCount
          nodes { ... on RenamedTitleEvent { createdAt actor { ...who } } }
        }
      }
      ... on PullRequest {
        lastEditedAt
        editor { ...who }
        userContentEdits(first: 100) { totalCount nodes { editedAt editor { ...who } } }
        timelineItems(last: 100, itemTypes: [RENAMED_TITLE_EVENT]) {
          totalCount
          nodes { ... on RenamedTitleEvent { createdAt actor { ...who } } }
        }
      }
    }
  }
}
fragment who on Actor {
  login
  ... on User { databaseId }
  ... on Bot { databaseId }
  ... on Mannequin { databaseId }
  ... on Organization { databaseId }
}
"""


def infer_priority(labels: Iterable[str]) -> Priority:
    """By whole words: `priority:high` and `P1-bug` set a priority, `highlight` and `p10` do not."""
    words = {word for label in labels for word in _SEPARATORS.split(label.lower())}
    return next(
        (priority for priority, keywords in _KEYWORDS.items() if keywords & words),
        Priority.MEDIUM,
    )


def labelling_of(raw: Any) -> Labelling | None:
    """None for other events of an issue."""
    if raw["event"] != "labeled":
        return None
    return Labelling(
        str(raw["label"]["name"]), author_of(raw.get("actor")), moment_of(raw["created_at"])
    )


def last_edit_of(raw: Any, but: Collection[int] = ()) -> TextEdit | None:
    """The last change of title or body by an account that is not in `but`."""
    edits = [*_renames(raw), *_new_bodies(raw)]
    strange = (edit for edit in edits if edit.by is None or edit.by.id not in but)
    return max(strange, key=lambda edit: edit.at, default=None)


def _renames(raw: Any) -> list[TextEdit]:
    told = raw.get("timelineItems") or {}
    found = [_edit(one["createdAt"], one["actor"]) for one in told.get("nodes") or ()]
    return [*found, *_untold(told, found)]


def _new_bodies(raw: Any) -> list[TextEdit]:
    if raw["lastEditedAt"] is None:
        return []
    told = raw.get("userContentEdits") or {}
    found = [_edit(one["editedAt"], one["editor"]) for one in told.get("nodes") or ()]
    return [_edit(raw["lastEditedAt"], raw["editor"]), *found, *_untold(told, found)]


def _untold(told: Any, found: list[TextEdit]) -> list[TextEdit]:
    """The answer does not hold all edits: the authors of the others are not known."""
    if not found or told.get("totalCount", 0) <= len(found):
        return []
    return [TextEdit(max(edit.at for edit in found), None)]


def _edit(at: str, who: Any) -> TextEdit:
    known = who is not None and who.get("databaseId") is not None
    return TextEdit(
        moment_of(at), Account(int(who["databaseId"]), str(who["login"])) if known else None
    )
