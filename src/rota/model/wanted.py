"""Which work of a source a schedule takes; stored with the schedule, so that any process knows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rota.model.work import WorkItem

# Types in the configuration whose items have another kind of source.
_KINDS = {"forgejo": "gitea"}


@dataclass(frozen=True, slots=True)
class WorkWanted:
    """An empty field is no filter."""

    kind: str  # of the source
    repo: str | None = None  # of a tracker
    types: tuple[str, ...] = ()  # this and the next two: of the queue
    labels: tuple[str, ...] = ()
    project_id: str | None = None

    @classmethod
    def of(cls, source: Mapping[str, object]) -> "WorkWanted":
        kind = _KINDS.get(str(source.get("type")), str(source.get("type")))
        if kind == "queue":
            project = source.get("project_id")
            return cls(
                kind,
                types=_names(source.get("types")),
                labels=_names(source.get("labels")),
                project_id=None if project is None else str(project),
            )
        repo = source.get("repo")
        return cls(kind, repo=str(repo).lower() if repo else None)

    @classmethod
    def read(cls, text: str) -> "WorkWanted":
        kind, brace, rest = text.partition(" {")
        found = json.loads(brace + rest) if brace else {}
        return cls(
            kind,
            found.get("repo"),
            tuple(found.get("types", ())),
            tuple(found.get("labels", ())),
            found.get("project_id"),
        )

    @property
    def text(self) -> str:
        asked = {
            "repo": self.repo,
            "types": self.types,
            "labels": self.labels,
            "project_id": self.project_id,
        }
        given = {name: value for name, value in asked.items() if value}
        return f"{self.kind} {json.dumps(given)}" if given else self.kind

    @property
    def in_words(self) -> str:
        """Its filters, for people."""
        parts = [
            *(["type " + " or ".join(self.types)] if self.types else []),
            *(["label " + " and ".join(self.labels)] if self.labels else []),
            *([f"project {self.project_id}"] if self.project_id else []),
        ]
        return ", ".join(parts) or f"{self.kind}:{self.repo or ''}"

    def is_kind_of(self, item: WorkItem) -> bool:
        """Whether the item's source is of this kind: `github` for `github:owner/repo`."""
        return self.kind == (item.source.partition(":")[0] if item.source else "queue")

    def takes_type(self, item: WorkItem) -> bool:
        return not self.types or item.type in self.types

    def fits(self, item: WorkItem) -> bool:
        return (
            self.is_kind_of(item)
            and self.takes_type(item)
            and set(self.labels) <= set(item.labels)
            and self.project_id in (None, item.project_id)
            and self._is_from(item.source)
        )

    def _is_from(self, source: str | None) -> bool:
        """An item's source may have a host before the repository, which the configuration lacks."""
        place = (source or "").partition(":")[2]
        return self.repo is None or place == self.repo or place.endswith(f"/{self.repo}")


def _names(given: object) -> tuple[str, ...]:
    return tuple(map(str, given)) if isinstance(given, (list, tuple)) else ()
