"""`claim_mode: strict`: claims as git references, which can be created only once.

Each time an issue is worked is an epoch with two references, `…/claim` and
`…/end`, each on a commit of its own whose message is the marker. Creating one
fails when it exists: a real compare-and-swap, which needs no waiting. They are
never deleted. Suspicions and answers to them stay comments.
"""

from dataclasses import replace

from rota.claims.comments import Entry, Kind, entries, marker, parse_comment
from rota.claims.log import ClaimLog
from rota.claims.port import Account, Comment, Ref
from rota.model.errors import AnswerUnknown

_TALK = (Kind.SUSPECT, Kind.ALIVE)
_GIT = Account(0, "git")  # who may create references is the repository's own rule


class RefLog(ClaimLog):
    """An entry's id is its epoch; entries come in the order of epochs."""

    __slots__ = ()

    async def read(self, number: int) -> list[Entry]:
        epochs = await self._epochs(number)
        talk = await self._talk(number)
        log: list[Entry] = []
        for epoch in sorted(epochs):
            said = epochs[epoch]
            about = [entry for entry in talk if entry.fields.get("claim") == str(epoch)]
            log += [*said[:1], *about, *said[1:]]
        return log

    async def _talk(self, number: int) -> list[Entry]:
        found = entries(await self.tracker.comments(number), self.believed)
        return [entry for entry in found if entry.kind in _TALK]

    async def _epochs(self, number: int) -> dict[int, list[Entry]]:
        epochs: dict[int, list[Entry]] = {}
        # By name, `claim` comes before `end`.
        for ref in sorted(await self.tracker.refs(_prefix(number)), key=lambda ref: ref.name):
            entry = _entry(ref)
            if entry is not None:
                epochs.setdefault(entry.id, []).append(entry)
        return epochs

    async def append(
        self, number: int, kind: Kind, text: str = "", **fields: str | int | None
    ) -> Entry | None:
        """The entry that stands there now: ours, or that of whoever was first."""
        if kind in _TALK:
            return await super().append(number, kind, text, **fields)
        first = marker(kind, **fields)
        if kind is Kind.CLAIM:
            name = await self._next_claim(number)
        else:
            name = f"{_prefix(number)}{_width(int(str(fields['claim'])))}/end"
            await self._tell(number, first, text)
        await self.tracker.create_ref(name, first)
        return await self._at(number, name)

    async def _next_claim(self, number: int) -> str:
        epochs = await self._epochs(number)
        last = max(epochs, default=0)
        ended = last == 0 or len(epochs[last]) > 1
        return f"{_prefix(number)}{_width(last + 1 if ended else last)}/claim"

    async def _at(self, number: int, name: str) -> Entry | None:
        """A reference that was created, or exists, is there; a read that lacks it is stale."""
        for _ in range(5):
            for ref in await self.tracker.refs(_prefix(number)):
                if ref.name == f"refs/{name}":
                    return _entry(ref)
            await self.pace.sleep(self.times.settle / 2)
        return None

    async def _tell(self, number: int, first: str, text: str) -> None:
        """The report for people, once: the marker before it is found again."""
        if not text:
            return
        note = first.replace("<!-- agent-", "<!-- rota-report-").partition(" ts=")[0]
        if any(_starts(comment, note) for comment in await self.tracker.comments(number)):
            return
        try:
            await self.tracker.comment(number, f"{note} -->\n{text}")
        except AnswerUnknown:
            await self._find(number, note)

    def merged(self, log: list[Entry], own: Entry) -> list[Entry]:
        same = any(entry.id == own.id and entry.kind is own.kind for entry in log)
        return log if same else [*log, own]

    async def settle(self) -> None:
        return


def _starts(comment: Comment, note: str) -> bool:
    return comment.body.lstrip().startswith(note)


def _prefix(number: int) -> str:
    return f"rota/claims/{number}/"


def _width(epoch: int) -> str:
    """Fixed width, so that the order of names is the order of epochs."""
    return f"{epoch:06d}"


def _entry(ref: Ref) -> Entry | None:
    read = parse_comment(ref.message)
    parts = ref.name.split("/")
    if read is None or not parts[-2].isdigit():
        return None
    epoch = int(parts[-2])
    entry = Entry(epoch, read.kind, read.fields, _GIT, ref.created_at)
    if read.kind is Kind.CLAIM:
        return entry
    return replace(entry, fields={**read.fields, "claim": str(epoch)})
