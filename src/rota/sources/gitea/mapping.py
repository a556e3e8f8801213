"""The response shapes that only Gitea and Forgejo have."""

from typing import Any

from rota.claims.port import Labelling
from rota.sources.http.records import author_of, moment_of

# A timeline entry is called "label" both when a label is added and removed; the body tells which.
_PUT_ON = "1"


def labelling_of(raw: Any) -> Labelling | None:
    """None for other timeline entries, and for labels that were deleted since."""
    if raw["type"] != "label" or raw["body"] != _PUT_ON or raw.get("label") is None:
        return None
    return Labelling(
        str(raw["label"]["name"]), author_of(raw.get("user")), moment_of(raw["created_at"])
    )


def label_of(raw: Any) -> tuple[str, int]:
    return str(raw["name"]), int(raw["id"])


def labels_of(raw: Any) -> list[tuple[str, int]]:
    return [label_of(one) for one in raw or ()]


def is_open(raw: Any) -> bool:
    return bool(raw["state"] == "open")
