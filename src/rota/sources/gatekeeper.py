"""Decides whether an issue may be picked up, with pauses, blockers and trust."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from rota.claims.fold import Standing
from rota.claims.labels import LabelSet
from rota.claims.pauses import PausedRepos
from rota.claims.pickup import AN_AGENT, Asker, Objection, objection
from rota.claims.port import Issue
from rota.claims.timing import Pace
from rota.claims.trust import TrustGate, text_hash
from rota.sources.blockers import Blockers

LOOK_AGAIN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Distrust:
    """Why an issue was not trusted in the state it had then."""

    updated_at: datetime
    why: str
    until: float


@dataclass(slots=True)
class Gatekeeper:
    repo: str
    labels: LabelSet
    gate: TrustGate
    pauses: PausedRepos
    blockers: Blockers
    pace: Pace = field(default_factory=Pace)
    _public: tuple[float, bool] | None = None
    _passed: dict[int, Issue] = field(default_factory=dict)
    _distrusted: dict[int, Distrust] = field(default_factory=dict)

    async def judge(
        self, issue: Issue, standing: Standing | None = None, asker: Asker = AN_AGENT
    ) -> Objection | None:
        """Checks that may cost requests come last: blockers named in the text, and trust. Operators
        are not checked for these, because they read the text themselves."""
        paused = self.pauses.is_paused(self.repo)
        refused = objection(issue, self.labels, standing=standing, paused=paused, asker=asker)
        if refused is None and asker.login is None:
            refused = await self.blockers.objection(issue, afresh=standing is not None)
        if refused is None and asker.login is None:
            distrust = await self._distrust(issue)
            refused = objection(
                issue, self.labels, distrust=distrust, asker=asker, standing=standing
            )
        if refused is None:
            self._passed[issue.number] = issue
        return refused

    def forget_all_but(self, listed: Collection[int]) -> None:
        """Forget issues that are no longer offered. They are judged again when they come back."""
        for known in (self._passed, self._distrusted):
            for number in known.keys() - listed:
                del known[number]

    def as_judged(self, issue: Issue) -> Issue:
        """The text that was let through: an agent must not read a newer one."""
        return self._passed.pop(issue.number, issue)

    async def _distrust(self, issue: Issue) -> str | None:
        if not await self._is_required():
            return None
        known = await self._known(issue)
        if known is not None:
            return known.why
        labels = self.labels.of(issue.labels)
        why = await replace(self.gate, required=True, labels=labels).distrust(issue)
        if why is None:
            self._distrusted.pop(issue.number, None)
        else:
            until = self.pace.elapsed() + LOOK_AGAIN_SECONDS
            self._distrusted[issue.number] = Distrust(issue.updated_at, why, until)
        return why

    async def _known(self, issue: Issue) -> Distrust | None:
        """Repeats a refusal without asking the tracker, as long as the issue is unchanged: an edit
        and a label both move `updated_at`. Not for ever, because those stamps have whole seconds.
        And not when a person has approved the text here, which leaves no trace on the tracker."""
        known = self._distrusted.get(issue.number)
        if known is None or known.updated_at != issue.updated_at:
            return None
        if self.pace.elapsed() >= known.until:
            return None
        approved = await self.gate.book.approval(issue.number)
        agreed = approved is not None and approved.text_hash == text_hash(issue)
        return None if agreed else known

    async def _is_required(self) -> bool:
        """Asked once in a while: not for every issue, but a private repository may become
        public."""
        now = self.pace.elapsed()
        if self._public is None or now - self._public[0] > LOOK_AGAIN_SECONDS:
            self._public = (now, await self.gate.is_required())
        return self._public[1]
