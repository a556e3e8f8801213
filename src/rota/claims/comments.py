"""The grammar of the claim log: comments whose first line is a marker.

    <!-- agent-claim:v=2 fleet=F codename=C firing_id=X nonce=N ts=T -->

A marker is for programs; readable text may follow it. Markers without `v=` were written by
`label-state`. They are read too.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.claims.port import Account, Comment
from rota.model.errors import InvalidInput

CLAIM_COMMENT_PREFIX = "<!-- agent-claim:"
RELEASE_COMMENT_PREFIX = "<!-- agent-release:"

OPERATOR_FLEET = "operator"  # claims of people, which never expire
NOT_READY = "no"  # `ready` of a claim: a person took an issue that was not offered to agents


class Kind(StrEnum):
    CLAIM = "claim"
    RELEASE = "release"
    DONE = "done"
    SUSPECT = "suspect"
    ALIVE = "alive"
    EXPIRE = "expire"
    REVOKE = "revoke"


@dataclass(frozen=True, slots=True)
class Marker:
    kind: Kind
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an issue's claim log, by an account that is believed."""

    id: int
    kind: Kind
    fields: Mapping[str, str]
    author: Account
    created_at: datetime
    edited: bool = False

    def names(self, claim: "Entry") -> bool:
        """Is this entry about that claim? A version-1 release names its claim by codename and
        firing."""
        if "claim" in self.fields:
            return self.fields["claim"] == str(claim.id)
        return self.kind is Kind.RELEASE and "v" not in self.fields and self.firing == claim.firing

    @property
    def firing(self) -> tuple[str, str]:
        return self.codename, self.firing_id

    @property
    def codename(self) -> str:
        return self.fields.get("codename", "")

    @property
    def firing_id(self) -> str:
        return self.fields.get("firing_id", "")

    @property
    def fleet(self) -> str:
        return self.fields.get("fleet", "")

    @property
    def outcome(self) -> str:
        return self.fields.get("outcome", "")


@dataclass(frozen=True, slots=True)
class Believed:
    """The accounts whose markers count, by numeric id. Markers of other accounts are ignored."""

    fleets: frozenset[int]  # our own account, and those of fleets we share the repository with
    operators: frozenset[int]  # people who may also revoke a claim

    def counts(self, kind: Kind, author: Account) -> bool:
        if kind is Kind.REVOKE:
            return author.id in self.operators
        return author.id in self.fleets or author.id in self.operators


_MARKER = re.compile(rf"<!-- agent-({'|'.join(Kind)}):([^\n]*?)-->")


def parse_comment(body: str) -> Marker | None:
    """The marker a comment begins with, or None."""
    found = _MARKER.match(body.lstrip())
    if found is None:
        return None
    words = (word.partition("=") for word in found[2].split())
    return Marker(Kind(found[1]), {key: value for key, equals, value in words if equals})


def marker(kind: Kind, **fields: str | int | None) -> str:
    """A version-2 marker. Fields that are None are omitted."""
    given = {key: str(value) for key, value in fields.items() if value is not None}
    for key, value in given.items():
        _check(key, value)
    words = " ".join(f"{key}={value}" for key, value in {"v": "2", **given}.items())
    return f"<!-- agent-{kind}:{words} -->"


def _check(key: str, value: str) -> None:
    if not value or value.split() != [value] or "-->" in value:
        raise InvalidInput(
            f"{key}: {value[:80]!r} cannot stand in a claim comment; it must not be empty nor"
            " hold white space or an end of comment",
            field=key,
        )


def entries(comments: Iterable[Comment], believed: Believed) -> list[Entry]:
    """The claim log: markers of believed accounts, each once, in the order of their ids."""
    found = {}
    for comment in comments:
        read = parse_comment(comment.body)
        if read is not None and believed.counts(read.kind, comment.author):
            found[comment.id] = Entry(
                comment.id,
                read.kind,
                read.fields,
                comment.author,
                comment.created_at,
                comment.edited,
            )
    return [found[number] for number in sorted(found)]


def firing_id(now: datetime, random: int) -> str:
    """`YYYYmmdd-HHMMSS-` and four hex digits."""
    return f"{now:%Y%m%d-%H%M%S}-{random & 0xFFFF:04x}"
