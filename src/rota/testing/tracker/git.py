"""A minimal git store: commits with their real hashes, and references to them."""

import hashlib
import math
from dataclasses import dataclass, field
from datetime import datetime

from rota.testing.tracker.views import EVERYTHING, Stamp, View

_README_TREE = "7bb2bd1b1ca2ee1f2d8f5a5a9b1c4a3d2e1f0a9b"


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    email: str
    date: datetime

    def line(self, role: str) -> str:
        return f"{role} {self.name} <{self.email}> {int(self.date.timestamp())} +0000"


@dataclass(frozen=True, slots=True)
class Commit:
    """As in git, two commits with the same content, author and second are one commit."""

    message: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature

    @property
    def sha(self) -> str:
        lines = [f"tree {self.tree}", *(f"parent {one}" for one in self.parents)]
        lines += [self.author.line("author"), self.committer.line("committer"), "", self.message]
        content = "\n".join(lines).encode("utf-8", "surrogatepass")
        return hashlib.sha1(b"commit %d\0%b" % (len(content), content)).hexdigest()  # noqa: S324 - git's


@dataclass(frozen=True, slots=True)
class Reference:
    sha: str
    stamp: Stamp


@dataclass(slots=True)
class GitStore:
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, Reference] = field(default_factory=dict)  # by full name
    trees: set[str] = field(default_factory=set)

    @classmethod
    def with_branch(cls, branch: str, at: datetime) -> "GitStore":
        store = cls()
        hand = Signature("Stub", "stub@example.org", at)
        first = store.add(Commit("Initial commit", _README_TREE, (), hand, hand))
        store.refs[f"refs/heads/{branch}"] = Reference(first.sha, Stamp(at, -math.inf))
        return store

    def add(self, commit: Commit) -> Commit:
        self.trees.add(commit.tree)
        return self.commits.setdefault(commit.sha, commit)

    def ref(self, name: str, view: View = EVERYTHING) -> Reference | None:
        found = self.refs.get(name)
        return found if found and view.sees("refs", name, found.stamp) else None

    def matching(self, prefix: str, view: View) -> list[tuple[str, Reference]]:
        """By prefix, as on GitHub: `claims/1` also finds `claims/12`."""
        return [
            (name, found)
            for name, found in sorted(self.refs.items())
            if name.startswith(prefix) and view.sees("refs", name, found.stamp)
        ]
