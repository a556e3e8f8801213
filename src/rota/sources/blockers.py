"""Blockers that an issue names in its own text: lines like `Depends on: #12`."""

from dataclasses import dataclass, field

from rota.claims.pickup import Objection, Obstacle
from rota.claims.port import Issue, Tracker
from rota.claims.references import IssueRef, dependency_lines
from rota.claims.timing import Pace
from rota.model.errors import IssueNotFound

REMEMBERED_SECONDS = 60.0
MOST = 50  # bounds the requests that one issue can cause


@dataclass(slots=True)
class Blockers:
    """Checks the issues that an issue names, in any repository of the same host. References to
    other hosts are ignored."""

    tracker: Tracker
    pace: Pace = field(default_factory=Pace)
    _known: dict[IssueRef, tuple[float, Objection | None]] = field(default_factory=dict)

    async def objection(self, issue: Issue, *, afresh: bool) -> Objection | None:
        """Objects to the first blocker that is open, or that our token cannot see: nobody can say
        that it is done. `afresh`: ignore remembered answers, which a claim must not rely on."""
        named = self._named(issue)
        if len(named) > MOST:
            return Objection(
                Obstacle.WAITS,
                f"it depends on {len(named)} issues, of which at most {MOST} are looked at",
                "name fewer in its text",
            )
        for ref in named:
            refused = await self._asked(ref, afresh=afresh)
            if refused is not None:
                return refused
        return None

    def _named(self, issue: Issue) -> list[IssueRef]:
        itself = f"{self.tracker.repo}#{issue.number}".lower()
        return [
            ref
            for ref in dependency_lines(issue.body, self.tracker.repo)
            if ref.host in (None, self.tracker.host) and str(ref).lower() != itself
        ]

    async def _asked(self, ref: IssueRef, *, afresh: bool) -> Objection | None:
        now = self.pace.elapsed()
        until, refused = self._known.get(ref, (now, None))
        if afresh or until <= now:
            refused = await self._look(ref)
            self._known = {one: kept for one, kept in self._known.items() if kept[0] > now}
            self._known[ref] = now + REMEMBERED_SECONDS, refused
        return refused

    async def _look(self, ref: IssueRef) -> Objection | None:
        try:
            is_open = await self.tracker.is_open(ref.full_name, ref.number)
        except IssueNotFound:
            return Objection(
                Obstacle.WAITS,
                f"it depends on {ref}, which is not there or hidden from our token",
                "put that line of its text right, or let the token see it",
            )
        if not is_open:
            return None
        return Objection(Obstacle.WAITS, f"it depends on {ref}, which is open", "close that first")
