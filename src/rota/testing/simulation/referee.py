"""What must never happen, checked at every step of a story."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from rota.claims.comments import Entry, Kind, parse_comment
from rota.claims.fold import fold
from rota.claims.labels import LabelSet
from rota.claims.pickup import stage
from rota.claims.projection import wanted
from rota.testing.simulation.repository import Repository, Written


class Violation(AssertionError):
    """The protocol was broken; the message tells the story up to there."""


class Role(StrEnum):
    AGENT = "agent"
    SWEEP = "sweep"
    PERSON = "person"
    OUTSIDER = "outsider"


@dataclass(slots=True)
class Referee:
    repository: Repository
    labels: LabelSet
    truth: Callable[[int], list[Entry]]  # an issue's whole claim log, as it really is
    grace: float
    roles: dict[str, Role] = field(default_factory=dict)
    grants: int = 0
    finishes: int = 0
    _until: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    _nonces: dict[str, str] = field(default_factory=dict)  # of a claim: the player it belongs to
    _holders: dict[int, Entry | None] = field(default_factory=dict)
    _accepted: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.repository.watchers.append(self.watch)

    def enters(self, who: str, nonce: str) -> None:
        """This player is about to claim something."""
        self._nonces[nonce] = who

    # only one works at a time

    def begins(self, who: str, number: int, until: float) -> None:
        """The player works from now on; alive, frozen or dead, it is stopped at `until`."""
        self.grants += 1
        self.goes_on(who, number, until)

    def goes_on(self, who: str, number: int, until: float) -> None:
        others = [name for name in self.working(number) if name != who]
        if others:
            self.fail(f"#{number}: {who} works while {', '.join(others)} does")
        self._until[number][who] = until

    def stops(self, who: str, number: int) -> None:
        self._until[number].pop(who, None)

    def working(self, number: int) -> list[str]:
        now = self.repository.time.now
        return [name for name, until in self._until[number].items() if until > now]

    # only one end counts

    def finished(self, who: str, number: int, claim_id: int) -> None:
        """The protocol has told this player that its end was accepted."""
        log = self.truth(number)
        accepted = {standing for at in range(len(log)) if (standing := self._done(log[: at + 1]))}
        if claim_id not in accepted:
            self.fail(f"#{number}: {who} was told that {claim_id} is done, but the log refuses it")
        open_again = {int(entry.fields["claim"]) for entry in log if _is_revoke(entry)}
        others = self._accepted[number] - open_again - {claim_id}
        if others and claim_id not in open_again:
            self.fail(f"#{number}: both {claim_id} and {others} were told that they are done")
        self._accepted[number].add(claim_id)
        self.finishes += 1

    def _done(self, log: list[Entry]) -> int | None:
        return fold(log, self.grace).done_claim

    # everybody writes only what is theirs

    def watch(self, written: Written) -> None:
        role = self.roles.get(written.by)
        if written.what in ("label", "unlabel") and role in (Role.AGENT, Role.SWEEP):
            self._check_label(written, role)
        elif written.what in ("comment", "ref"):
            self._check_entry(written, role)

    def _check_label(self, written: Written, role: Role) -> None:
        if written.text not in (*self.labels.lifecycle, self.labels.managed):
            self.fail(f"#{written.number}: {written.by} touched the label {written.text}")
        if role is Role.AGENT and not self._was_granted(written.by, written.number):
            self.fail(f"#{written.number}: {written.by} never held it, but changed its labels")

    def _was_granted(self, who: str, number: int) -> bool:
        log = self.truth(number)
        own = [at for at, one in enumerate(log) if self._claimed_by(one) == who]
        for at in own:
            holder = fold(log[: at + 1], self.grace).holder
            if holder is not None and holder.id == log[at].id:
                return True
        return False

    def _claimed_by(self, entry: Entry) -> str | None:
        if entry.kind is not Kind.CLAIM:
            return None
        return self._nonces.get(entry.fields.get("nonce", ""))

    def _check_entry(self, written: Written, role: Role | None) -> None:
        marker = parse_comment(written.text.partition(" ")[2])
        if marker is None or role is Role.OUTSIDER:
            return
        log = self.truth(written.number)
        if role is Role.AGENT and marker.kind in (Kind.RELEASE, Kind.DONE):
            self._check_own(written, log, marker.fields.get("claim", ""))
        before = self._holders.get(written.number)
        after = self._holders[written.number] = fold(log, self.grace).holder
        if role is Role.SWEEP and before is not None and before != after:
            who = self._claimed_by(before)
            if who in self.working(written.number):
                self.fail(f"#{written.number}: {written.by} ended the claim of {who}, which works")

    def _check_own(self, written: Written, log: list[Entry], claim: str) -> None:
        named = [one for one in log if one.kind is Kind.CLAIM and str(one.id) == claim]
        if any(self._claimed_by(one) != written.by for one in named):
            self.fail(f"#{written.number}: {written.by} named a claim that is not its own")

    # the end of the story

    def check_rest(self) -> None:
        """Only sweeps have run for a while: nothing may be stuck, and labels must be true."""
        for number in self.repository.history:
            issue, standing = self.repository.issue(number), fold(self.truth(number), self.grace)
            holder = standing.holder
            if holder is not None and self.roles.get(self._claimed_by(holder) or "") != Role.PERSON:
                self.fail(f"#{number} is stuck: {holder.codename} (claim {holder.id}) is gone")
            want = wanted(standing, issue, self.labels)
            carried = [name for name in self.labels.lifecycle if name in issue.labels]
            if issue.is_open and (stage(issue, self.labels) != want or len(carried) > 1):
                self.fail(f"#{number} should be labelled {want}, but carries {carried}")
            if issue.is_open and want is None and self._was_taken_from_agents(number):
                self.fail(f"#{number} is lost: nobody has it and nobody can take it")

    def _was_taken_from_agents(self, number: int) -> bool:
        """Whether a claim held the issue that was made while agents could see it. A person may also
        take one that was never offered to them, or no more since it was closed."""
        log = self.truth(number)
        return any(
            (holder := fold(log[: at + 1], self.grace).holder) is not None
            and holder.id == entry.id
            and self._was_seen_by_agents(number, entry)
            for at, entry in enumerate(log)
            if entry.kind is Kind.CLAIM
        )

    def _was_seen_by_agents(self, number: int, claim: Entry) -> bool:
        """It had been labelled for so long that every reader knew it."""
        nonce = claim.fields.get("nonce", "")
        made = next(one.at for one in self.repository.journal if f"nonce={nonce} " in one.text)
        changes = [at for at, _ in self.repository.history[number] if made - self.grace < at < made]
        return all(
            stage(self.repository.issue(number, at), self.labels) is not None
            for at in (made - self.grace, *changes, made)
        )

    def fail(self, what: str) -> None:
        story = "\n".join(str(written) for written in self.repository.journal[-60:])
        raise Violation(f"{what} (at {self.repository.time.now:.2f})\n{story}")


def _is_revoke(entry: Entry) -> bool:
    return entry.kind is Kind.REVOKE and entry.fields.get("claim", "").isdecimal()
