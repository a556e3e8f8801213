"""The players of a story. Each keeps to the rules, but does not control what happens to it."""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field

from rota.claims.comments import OPERATOR_FLEET, Entry, Kind, marker
from rota.claims.labels import LabelSet
from rota.claims.pickup import Asker
from rota.claims.protocol import Claimant, CommentClaims, Grant
from rota.claims.sweep import Sweep
from rota.model.errors import IssueNotFound, TrackerError
from rota.testing.simulation.chance import Chance
from rota.testing.simulation.referee import Referee
from rota.testing.simulation.time import VirtualTime
from rota.testing.simulation.tracker import SimulatedTracker

LEASE = 400.0
FAILURES = (TrackerError, IssueNotFound)


@dataclass(slots=True)
class SimulatedLedger:
    """A fleet's own database: who may go to the tracker, and which leases are live."""

    time: VirtualTime
    leases: dict[str, float] = field(default_factory=dict)  # by firing
    firings: dict[int, str] = field(default_factory=dict)  # by issue

    def take(self, number: int, firing: str) -> bool:
        if self._is_live(self.firings.get(number, "")):
            return False
        self.firings[number] = firing
        self.leases[firing] = self.time.now + LEASE
        return True

    def renew(self, firing: str) -> float:
        """When the lease now ends; a lease that has ended is not renewed."""
        if self._is_live(firing):
            self.leases[firing] = self.time.now + LEASE
        return self.leases.get(firing, 0.0)

    def end(self, firing: str) -> None:
        self.leases.pop(firing, None)

    def _is_live(self, firing: str) -> bool:
        return self.leases.get(firing, 0.0) > self.time.now

    async def live(self, firings: Collection[str]) -> set[str]:
        await self.time.sleep(0.0)  # time of the story: lets the other players run
        return {firing for firing in firings if self._is_live(firing)}


@dataclass(slots=True)
class Agent:
    """An agent with its supervisor: claims, works while it may, and reports how it ended."""

    name: str
    fleet: str
    claims: CommentClaims
    ledger: SimulatedLedger
    referee: Referee
    time: VirtualTime
    longest_work: float = 250.0
    finishes: float = 0.25  # chance that completed work is finished; otherwise it is given up
    _attempts: int = 0

    @property
    def _chance(self) -> Chance:
        return self.time.chance

    async def live(self, numbers: list[int], until: float) -> None:
        while self.time.now < until:
            await self.time.sleep(self._chance.between(0.0, 60.0))
            await self.attempt(numbers[self._chance.pick(len(numbers))])

    async def attempt(self, number: int) -> None:
        """Tries once; what a crash leaves behind is for the sweep."""
        self._attempts += 1
        firing = f"20260501-120000-{self.name}{self._attempts:04x}"
        if not self.ledger.take(number, firing):
            return
        self.referee.enters(self.name, firing)
        claimant = Claimant(self.fleet, self.name, firing, nonce=firing)
        with contextlib.suppress(*FAILURES):
            answer = await self.claims.claim(number, claimant)
            if isinstance(answer, Grant):
                await self._work(answer)
        self.ledger.end(firing)

    async def _work(self, grant: Grant) -> None:
        firing = grant.claimant.firing_id
        until = min(grant.deadline, self.ledger.renew(firing))
        if self.time.now < until:
            self.referee.begins(self.name, grant.number, until)
            completed = await self._work_until(grant, until)
            self.referee.stops(self.name, grant.number)
            if completed and self._chance.odds(self.finishes) and await self._finish(grant):
                return
        await self.claims.release(grant, "failure" if self._chance.odds(0.1) else "gave-up")

    async def _work_until(self, grant: Grant, until: float) -> bool:
        """Whether the work was completed; otherwise it was stopped."""
        complete = self.time.now + self._chance.between(20.0, self.longest_work)
        deadline, look_at = grant.deadline, self.time.now + self.claims.times.poll
        while True:
            await self.time.sleep(self._chance.between(5.0, 30.0))
            lease = self.ledger.renew(grant.claimant.firing_id)
            if self.time.now >= complete and self.time.now < until:
                return True
            if self.time.now >= look_at:
                seen = await self._look(grant)
                if seen is None:
                    return False
                deadline, look_at = max(deadline, seen), self.time.now + self.claims.times.poll
            if self.time.now >= until:
                return False
            until = min(deadline, lease)
            self.referee.goes_on(self.name, grant.number, until)

    async def _look(self, grant: Grant) -> float | None:
        try:
            look = await self.claims.look(grant)
        except FAILURES:
            return 0.0
        return None if look.lost else look.deadline

    async def _finish(self, grant: Grant) -> bool:
        for _ in range(3):
            with contextlib.suppress(*FAILURES):
                accepted = await self.claims.finish(grant, "https://tracker.example/o/r/pulls/9")
                if accepted:
                    self.referee.finished(self.name, grant.number, grant.claim_id)
                return accepted
        return False


@dataclass(slots=True)
class Sweeper:
    sweep: Sweep
    time: VirtualTime
    ledger: SimulatedLedger | None = None  # its issues are also swept, whatever their labels

    async def live(self, until: float) -> None:
        while self.time.now < until:
            await self.time.sleep(self.time.chance.between(30.0, 240.0))
            with contextlib.suppress(*FAILURES):
                await self.sweep.run(self.ledger.firings if self.ledger else ())


@dataclass(slots=True)
class Person:
    """An operator: holds, closes, revokes, relabels and works, without asking the agents."""

    name: str
    tracker: SimulatedTracker
    claims: CommentClaims
    labels: LabelSet
    referee: Referee
    time: VirtualTime
    relabels: bool = True
    _attempts: int = 0
    _revoked: dict[int, float] = field(default_factory=dict)  # by issue: when

    @property
    def _chance(self) -> Chance:
        return self.time.chance

    async def live(self, numbers: list[int], until: float) -> None:
        acts = [self.hold, self.shut, self.revoke, self.take, self.reopen]
        acts += [self.relabel] if self.relabels else []
        while self.time.now < until:
            await self.time.sleep(self._chance.between(10.0, 300.0))
            number = numbers[self._chance.pick(len(numbers))]
            with contextlib.suppress(*FAILURES):
                await acts[self._chance.pick(len(acts))](number)

    async def hold(self, number: int) -> None:
        repository = self.tracker.repository
        repository.add_labels(number, [self.labels.hold], self.tracker.me, self.name)
        await self.time.sleep(self._chance.between(10.0, 300.0))
        repository.remove_label(number, self.labels.hold, self.name)

    async def shut(self, number: int) -> None:
        self.tracker.repository.set_open(number, False, self.name)
        await self.time.sleep(self._chance.between(10.0, 300.0))
        self.tracker.repository.set_open(number, True, self.name)

    async def relabel(self, number: int) -> None:
        labels = self.labels.lifecycle
        label = labels[self._chance.pick(len(labels))]
        if self._chance.odds(0.5):
            await self.tracker.add_labels(number, [label])
        else:
            await self.tracker.remove_label(number, label)

    async def revoke(self, number: int) -> Entry | None:
        """Takes the issue from an agent, but not from another person."""
        holder = (await self.claims.standing(number)).holder
        if holder is None or holder.fleet == OPERATOR_FLEET:
            return None
        # The revocation counts even without an answer, and may arrive late.
        self._revoked[number] = self.time.now + self.tracker.faults.latest
        entry = await self.claims.log.append(
            number, Kind.REVOKE, claim=holder.id, by=self.tracker.me.login
        )
        self._revoked[number] = max(self._revoked[number], self.time.now)
        return entry

    async def reopen(self, number: int) -> None:
        done = (await self.claims.standing(number)).done_claim
        if done is not None:
            await self.claims.log.append(number, Kind.REVOKE, claim=done, by=self.tracker.me.login)

    async def take(self, number: int) -> None:
        """Half the time by force; then the agent gets the time it needs to stop."""
        if self._chance.odds(0.5):
            await self.revoke(number)
        stopped = self._revoked.get(number, -self.claims.times.grace) + self.claims.times.grace
        self._attempts += 1
        firing = f"20260501-120000-{self.name}{self._attempts:04x}"
        self.referee.enters(self.name, firing)
        claimant = Claimant(OPERATOR_FLEET, self.tracker.me.login, firing, nonce=firing)
        asker = Asker(login=self.tracker.me.login, needs_ready=False)
        answer = await self.claims.claim(number, claimant, asker=asker)
        if isinstance(answer, Grant):
            await self._work(answer, stopped)

    async def _work(self, grant: Grant, stopped: float) -> None:
        await self.time.sleep(stopped - self.time.now)
        self.referee.begins(self.name, grant.number, float("inf"))
        await self.time.sleep(self._chance.between(10.0, 600.0))
        self.referee.stops(self.name, grant.number)
        for _ in range(5):
            with contextlib.suppress(*FAILURES):
                await self.claims.release(grant, "released")
                return


@dataclass(slots=True)
class Outsider:
    """Has no authority, but writes as if it had."""

    name: str
    tracker: SimulatedTracker
    claims: CommentClaims
    time: VirtualTime

    async def live(self, numbers: list[int], until: float) -> None:
        chance = self.time.chance
        while self.time.now < until:
            await self.time.sleep(chance.between(5.0, 200.0))
            number, kind = numbers[chance.pick(len(numbers))], list(Kind)[chance.pick(len(Kind))]
            with contextlib.suppress(*FAILURES):
                await self.forge(number, kind)

    async def forge(self, number: int, kind: Kind) -> None:
        standing = await self.claims.standing(number)
        about = standing.holder.id if standing.holder else 1
        suspect = standing.suspects[0].id if standing.suspects else None
        fields = {"claim": about} if kind is not Kind.CLAIM else {"fleet": "f0", "codename": "a"}
        body = marker(kind, firing_id="x", nonce="x", suspect=suspect, pr="none", **fields)
        await self.tracker.comment(number, body)
