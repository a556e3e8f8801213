"""The whole state of one stub, and a snapshot of it for tests."""

from dataclasses import dataclass, replace
from datetime import timedelta

from rota.testing.tracker.clock import StubClock, text_of
from rota.testing.tracker.faults import Faults, Plan
from rota.testing.tracker.gitea import Gitea
from rota.testing.tracker.github import GitHub
from rota.testing.tracker.http import Answer, Json, Request
from rota.testing.tracker.hub import Account, Hub, Issue, Repository
from rota.testing.tracker.journal import Journal
from rota.testing.tracker.limits import Limits
from rota.testing.tracker.views import Stamp


@dataclass(slots=True)
class World:
    hub: Hub
    clock: StubClock
    limits: Limits
    faults: Faults
    journal: Journal
    github: GitHub
    gitea: Gitea

    @classmethod
    def new(cls, seed: int | str) -> "World":
        hub, clock = Hub(), StubClock()
        limits = Limits(clock)
        return cls(hub, clock, limits, Faults(seed), Journal(), GitHub(hub, limits), Gitea(hub))

    def dialect(self, request: Request) -> GitHub | Gitea:
        return self.gitea if request.segments[:2] == ["api", "v1"] else self.github

    def stamp(self, plan: Plan | None = None) -> Stamp:
        now, born = self.clock.now(), self.clock.steady()
        if plan is None:
            return Stamp(now, born)
        stamp = Stamp(now - timedelta(seconds=plan.backdate), born)
        if plan.hide_seconds is not None:
            stamp = replace(stamp, hidden_until=born + plan.hide_seconds)
        return stamp

    def apply(self, request: Request, plan: Plan) -> Answer:
        """Apply the request; twice, if the plan says so."""
        dialect = self.dialect(request)
        plan.view = replace(plan.view, now=self.clock.steady())
        answer = dialect.answer(request, plan, self.stamp(plan))
        if plan.duplicate is None:
            return answer
        again = dialect.answer(request, plan, self.stamp(plan))
        return again if plan.duplicate == "second" else answer

    def recognise(self, request: Request) -> None:
        """Find the account of the token, and the repository if the path has its number."""
        credentials = request.credentials
        request.token = self.hub.tokens.get(credentials or "")
        request.token_is_bad = credentials is not None and request.token is None
        start, number, *rest = [*request.segments, "", ""]
        if start == "repositories" and number.isascii() and number.isdigit():
            repo = self.hub.repository_by_id(int(number))
            if repo is not None:
                rest = request.segments[2:]
                request.segments = ["repos", repo.owner.login, repo.name, *rest]

    def picture(self) -> Json:
        return {
            "now": text_of(self.clock.now()),
            "users": {one.login: _user(one) for one in self.hub.accounts.values()},
            "repos": {one.full_name: _repository(one) for one in self.hub.repositories.values()},
        }


def _user(one: Account) -> Json:
    return {"id": one.id, "kind": one.kind}


def _repository(one: Repository) -> Json:
    return {
        "id": one.id,
        "private": one.private,
        "collaborators": sorted(one.collaborators),
        "labels": [label.name for label in one.labels.values()],
        "refs": {name: found.sha for name, found in one.git.refs.items()},
        "commits": {sha: commit.message for sha, commit in one.git.commits.items()},
        "issues": {str(issue.number): issue_picture(issue) for issue in one.issues.values()},
    }


def issue_picture(one: Issue) -> Json:
    """An issue as it really is, whatever a read may see of it."""
    standing = one.standing()
    return {
        "id": one.id,
        "number": one.number,
        "title": one.title,
        "body": one.body,
        "user": one.author.login,
        "state": standing.state,
        "state_reason": standing.reason,
        "pull_request": one.is_pull,
        "merged": one.merged_at is not None,
        "blocked_by": one.blocked_by,
        "labels": [label.name for label in one.labels()],
        "created_at": text_of(one.stamp.at),
        "updated_at": text_of(one.updated_at),
        "comments": [
            {
                "id": comment.id,
                "user": comment.author.login,
                "body": comment.body,
                "created_at": text_of(comment.stamp.at),
                "updated_at": text_of(comment.updated_at),
            }
            for comment in one.comments
        ],
        "events": [
            {
                "id": event.id,
                "event": event.kind,
                "actor": event.actor.login,
                "label": event.label.name if event.label else None,
                "created_at": text_of(event.stamp.at),
            }
            for event in one.events
        ],
    }
