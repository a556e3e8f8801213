"""`claim_mode: strict`: claims as git references, which can be created only once.

Each time an issue is worked is an epoch with two references, `…/claim` and `…/end`, each on a
commit of its own whose message is the marker. Creating a reference fails when it exists: a real
compare-and-swap, which needs no waiting. References are never deleted. An epoch is over as soon as
its end exists, whatever the end says.

Suspicions, answers to them and expiries are comments, which need waiting. A confirmed expiry is
then written as the epoch's end.
"""

from dataclasses import replace

from rota.claims.comments import Entry, Kind, entries, marker, parse_comment
from rota.claims.log import ClaimLog
from rota.claims.port import Account, Ref
from rota.model.errors import AnswerUnknown, TrackerError

READS = 6  # half a `settle` apart

_TALK = (Kind.SUSPECT, Kind.ALIVE, Kind.EXPIRE)
_GIT = Account(0, "git")  # the repository's own rules decide who may create references


class RefLog(ClaimLog):
    """The id of a claim, and of its end, is its epoch. Entries come in the order of epochs."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        epochs = await self._epochs(number)
        talk = await self._talk(number)
        log: list[Entry] = []
        for epoch in sorted(epochs):
            about = [entry for entry in talk if entry.fields.get("claim") == str(epoch)]
            log += [*epochs[epoch], *about]
        return log

    async def _talk(self, number: int) -> list[Entry]:
        found = entries(await self.tracker.comments(number), self.believed)
        return [entry for entry in found if entry.kind in _TALK]

    async def _epochs(self, number: int) -> dict[int, list[Entry]]:
        """An epoch begins only after the one before is over. A read that does not show that end is
        stale, and is repeated."""
        for again in range(READS):
            if again:
                await self.pace.sleep(self.times.settle / 2)
            epochs = _by_epoch(await self.tracker.refs(_prefix(number)))
            if _is_whole(epochs):
                return epochs
        raise TrackerError(f"#{number}: the tracker shows a claim, but not the end before it")

    async def append(
        self, number: int, kind: Kind, text: str = "", **fields: str | int | None
    ) -> Entry | None:
        """The entry that exists afterwards: ours, or that of an earlier writer."""
        if kind in _TALK:
            return await self._say(number, kind, text, **fields)
        first = marker(kind, **fields)
        if kind is Kind.CLAIM:
            return await self._create(number, await self._next_claim(number), first)
        await self._tell(number, first, text)
        epoch = int(str(fields["claim"]))
        entry = await self._create(number, _name(number, epoch, "end"), first)
        if kind is Kind.REVOKE and entry is not None and entry.kind is Kind.DONE:
            return await self._create(number, _name(number, epoch, "reopen"), first)
        return entry

    async def _say(
        self, number: int, kind: Kind, text: str, **fields: str | int | None
    ) -> Entry | None:
        said = await ClaimLog.append(self, number, kind, text, **fields)
        if kind is Kind.EXPIRE:
            await self._end_if_expired(number)
        return said

    async def _end_if_expired(self, number: int) -> None:
        """Write an expiry as the epoch's end, once no unseen answer can precede it."""
        await self.settle_talk()
        expiry = _expiry(self.fold(await self.read(number)).ended)
        if expiry is not None:
            end = _name(number, int(expiry.fields["claim"]), "end")
            await self._create(number, end, marker(expiry.kind, **expiry.fields))

    async def _next_claim(self, number: int) -> str:
        """The epoch after the last, if that is over. Otherwise the last claim's own name: creating
        it again fails, and the answer shows its holder."""
        log = await self.read(number)
        if _expiry(self.fold(log).ended) is not None:
            await self._end_if_expired(number)
            log = await self.read(number)
        standing = self.fold(log)
        over = standing.is_free and _expiry(standing.ended) is None
        last = max((entry.id for entry in log if _is_ref(entry)), default=0)
        return _name(number, last + 1 if over else max(last, 1), "claim")

    async def _create(self, number: int, name: str, message: str) -> Entry | None:
        """A reference that was created, or that exists, is there: a read that lacks it is stale."""
        await self.tracker.create_ref(name, message)
        for _ in range(READS):
            for ref in await self.tracker.refs(_prefix(number)):
                if ref.name == f"refs/{name}":
                    return _entry(ref)
            await self.pace.sleep(self.times.settle / 2)
        return None

    async def _tell(self, number: int, first: str, text: str) -> None:
        """Post the report for people, once: its marker is searched for first."""
        if not text:
            return
        note = first.replace("<!-- agent-", "<!-- rota-report-").partition(" ts=")[0]
        if any(self._is(comment, note) for comment in await self.tracker.comments(number)):
            return
        for _ in range(2):  # again if the search below shows that the post never arrived
            try:
                await self.tracker.comment(number, f"{note} -->\n{text}")
            except AnswerUnknown:
                if await self._find(number, note) is not None:
                    return
            else:
                return

    def merged(self, log: list[Entry], own: Entry) -> list[Entry]:
        if any(entry.id == own.id and entry.kind is own.kind for entry in log):
            return log
        up_to = [at for at, entry in enumerate(log, 1) if _is_ref(entry) and entry.id <= own.id]
        place = max(up_to, default=0)
        return [*log[:place], own, *log[place:]]

    async def settle(self) -> None:
        return


def _by_epoch(refs: list[Ref]) -> dict[int, list[Entry]]:
    epochs: dict[int, list[Entry]] = {}
    # By name: `claim` comes before `end`, and `end` before `reopen`.
    for ref in sorted(refs, key=lambda ref: ref.name):
        entry = _entry(ref)
        if entry is not None:
            epochs.setdefault(entry.id, []).append(entry)
    return epochs


def _is_whole(epochs: dict[int, list[Entry]]) -> bool:
    last = max(epochs, default=0)
    begun = all(said[0].kind is Kind.CLAIM for said in epochs.values())
    over = all(_is_over(epochs.get(epoch, [])) for epoch in range(1, last))
    return begun and over


def _is_over(said: list[Entry]) -> bool:
    return len(said) > 1 and said[-1].kind is not Kind.DONE


def _is_ref(entry: Entry) -> bool:
    return entry.author == _GIT


def _expiry(ended: Entry | None) -> Entry | None:
    """An end that only comments show."""
    return None if ended is None or _is_ref(ended) else ended


def _prefix(number: int) -> str:
    return f"rota/claims/{number}/"


def _name(number: int, epoch: int, part: str) -> str:
    """Fixed width, so that names sort in the order of epochs."""
    return f"{_prefix(number)}{epoch:06d}/{part}"


def _entry(ref: Ref) -> Entry | None:
    read = parse_comment(ref.message)
    parts = ref.name.split("/")
    if read is None or not parts[-2].isdecimal():
        return None
    epoch = int(parts[-2])
    entry = Entry(epoch, read.kind, read.fields, _GIT, ref.created_at)
    if parts[-1] == "claim":
        return entry
    kind = read.kind if read.kind in (Kind.DONE, Kind.REVOKE) else Kind.RELEASE
    return replace(entry, kind=kind, fields={**read.fields, "claim": str(epoch)})
