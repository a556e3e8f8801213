"""What is true on the simulated tracker, whatever a reader is shown of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from rota.claims.port import Account, Comment, Issue, Labelling, Ref
from rota.model.errors import IssueNotFound
from rota.testing.simulation.time import BEGINNING, VirtualTime

OWNER = Account(1, "owner")


@dataclass(frozen=True, slots=True)
class Written:
    """Somebody changed something."""

    at: float
    by: str  # the player
    number: int
    what: str  # "comment", "label", "unlabel", "close", "reopen", "ref"
    text: str

    def __str__(self) -> str:
        return f"{self.at:9.2f} {self.by:12} #{self.number} {self.what} {self.text}"


@dataclass(frozen=True, slots=True)
class Posted:
    at: float
    comment: Comment


@dataclass(slots=True)
class Repository:
    time: VirtualTime
    skew: Callable[[], int] = lambda: 0  # how many seconds a timestamp is wrong by
    comments: dict[int, list[Posted]] = field(default_factory=dict)
    history: dict[int, list[tuple[float, Issue]]] = field(default_factory=dict)
    labellings: dict[int, list[Labelling]] = field(default_factory=dict)
    refs: dict[str, tuple[float, Ref]] = field(default_factory=dict)
    journal: list[Written] = field(default_factory=list)
    watchers: list[Callable[[Written], None]] = field(default_factory=list)
    _ids: int = 1000

    def open_issue(self, number: int, *labels: str, author: Account = OWNER) -> Issue:
        now = self.time.clock()
        issue = Issue(
            number,
            f"Issue {number}",
            "text",
            labels,
            is_open=True,
            is_pull_request=False,
            author=author,
            url=f"https://tracker.example/o/r/issues/{number}",
            created_at=now,
            updated_at=now,
        )
        self.history[number] = [(self.time.now, issue)]
        self.comments[number] = []
        return issue

    def issue(self, number: int, at: float | None = None) -> Issue:
        """The issue as it was at that time, or now."""
        versions = self.history.get(number)
        if not versions:
            raise IssueNotFound(f"#{number} does not exist")
        when = self.time.now if at is None else at
        return next((issue for since, issue in reversed(versions) if since <= when), versions[0][1])

    def post(self, number: int, author: Account, body: str, by: str) -> Comment:
        self._ids += 1
        seconds = int(self.time.now) + self.skew()
        stamp = BEGINNING + timedelta(seconds=seconds)
        comment = Comment(self._ids, author, body, stamp, stamp)
        self.comments[number].append(Posted(self.time.now, comment))
        self._wrote(by, number, "comment", f"{comment.id} {body.splitlines()[0]}")
        return comment

    def edit_comment(self, number: int, comment_id: int, body: str) -> None:
        at = next(i for i, one in enumerate(self.comments[number]) if one.comment.id == comment_id)
        posted = self.comments[number][at]
        later = posted.comment.created_at + timedelta(seconds=60)
        edited = replace(posted.comment, body=body, updated_at=later)
        self.comments[number][at] = replace(posted, comment=edited)

    def add_labels(self, number: int, labels: Iterable[str], author: Account, by: str) -> None:
        issue = self.issue(number)
        new = [label for label in labels if label not in issue.labels]
        if new:
            self._change(replace(issue, labels=(*issue.labels, *new)))
        for label in new:
            given = Labelling(label, author, self.time.clock())
            self.labellings.setdefault(number, []).append(given)
        for label in labels:
            self._wrote(by, number, "label", label)

    def remove_label(self, number: int, label: str, by: str) -> None:
        issue = self.issue(number)
        if label in issue.labels:
            left = tuple(one for one in issue.labels if one != label)
            self._change(replace(issue, labels=left))
        self._wrote(by, number, "unlabel", label)

    def set_open(self, number: int, is_open: bool, by: str) -> None:
        self._change(replace(self.issue(number), is_open=is_open))
        self._wrote(by, number, "reopen" if is_open else "close", "")

    def create_ref(self, name: str, message: str, by: str) -> bool:
        full = f"refs/{name}"
        if full in self.refs:
            return False
        stamp = BEGINNING + timedelta(seconds=int(self.time.now))
        self.refs[full] = (self.time.now, Ref(full, message, stamp))
        self._wrote(by, int(name.split("/")[2]), "ref", f"{name} {message}")
        return True

    def _change(self, issue: Issue) -> None:
        changed = replace(issue, updated_at=self.time.clock())
        self.history[issue.number].append((self.time.now, changed))

    def _wrote(self, by: str, number: int, what: str, text: str) -> None:
        written = Written(self.time.now, by, number, what, text)
        self.journal.append(written)
        for watch in self.watchers:
            watch(written)
