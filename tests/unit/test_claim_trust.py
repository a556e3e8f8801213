"""Whose words may become an agent's instructions: every branch of the gate."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from rota.claims.labels import LabelSet
from rota.claims.port import Account, Issue, Labelling, TextEdit
from rota.claims.trust import Approval, MemoryBook, TrustGate, text_hash
from rota.testing.simulation.time import BEGINNING
from tests.unit.claim_scene import BOT, OPERATOR, STRANGER, issue

LABELS = LabelSet()
MAINTAINER = Account(7, "maintainer")
TRIAGER = Account(8, "triager")


@dataclass
class Repo:
    """What the gate asks a tracker, and what it answers."""

    public: bool = True
    own: Account = BOT
    belongs_to: Account | None = None
    labelled: list[Labelling] = field(default_factory=list)
    edit: TextEdit | None = None
    earlier: tuple[TextEdit, ...] = ()
    text: Issue = field(default_factory=issue)  # as it stands now
    asked: list[str] = field(default_factory=list)

    async def is_public(self) -> bool:
        return self.public

    async def account(self) -> Account:
        return self.own

    async def owner(self) -> Account | None:
        return self.belongs_to

    async def issue(self, number: int) -> Issue:
        self.asked.append("issue")
        return self.text

    async def labellings(self, number: int) -> list[Labelling]:
        self.asked.append("labellings")
        return self.labelled

    async def last_edit(self, number: int, *, but: Collection[int] = ()) -> TextEdit | None:
        self.asked.append("last_edit")
        found = (one for one in (self.edit, *self.earlier) if one is not None)
        return next((one for one in found if one.by is None or one.by.id not in but), None)


def gate(repo: Repo, **changes: Any) -> TrustGate:
    trusted = frozenset({MAINTAINER.id})
    return TrustGate(repo, LABELS, MemoryBook(), trusted, **changes)  # type: ignore[arg-type]


def at(seconds: float) -> Any:
    return BEGINNING + timedelta(seconds=seconds)


def ready(by: Account, seconds: float) -> Labelling:
    return Labelling(LABELS.ready, by, at(seconds))


def strange(**changes: Any) -> Issue:
    return issue(LABELS.ready, author=STRANGER, **changes)


# when it is asked


async def test_on_a_private_repository_everybody_is_trusted() -> None:
    repo = Repo(public=False)
    assert await gate(repo).distrust(strange()) is None
    assert repo.asked == []


async def test_it_may_be_required_on_a_private_repository() -> None:
    assert await gate(Repo(public=False), required=True).distrust(strange()) is not None


async def test_it_may_be_switched_off_on_a_public_repository() -> None:
    assert await gate(Repo(), required=False).distrust(strange()) is None


# whose issue


@pytest.mark.parametrize(
    ("author", "eligible"),
    [(MAINTAINER, True), (BOT, True), (OPERATOR, True), (TRIAGER, False), (STRANGER, False)],
    ids=lambda one: getattr(one, "login", one),
)
async def test_an_issue_is_eligible_by_its_author(author: Account, eligible: bool) -> None:
    found = await gate(Repo(belongs_to=OPERATOR)).distrust(issue(LABELS.ready, author=author))
    assert (found is None) is eligible


async def test_an_organisation_owns_nothing_in_person() -> None:
    assert await gate(Repo(belongs_to=None)).distrust(issue(author=OPERATOR)) is not None


async def test_logins_are_not_looked_at() -> None:
    taken_over = Account(4711, MAINTAINER.login)
    assert await gate(Repo()).distrust(issue(author=taken_over)) is not None
    renamed = Account(MAINTAINER.id, "somebody-else")
    assert await gate(Repo()).distrust(issue(author=renamed)) is None


async def test_the_refusal_says_who_and_what_to_do() -> None:
    found = await gate(Repo()).distrust(strange())
    assert found is not None
    assert "mallory (id 666)" in found
    assert LABELS.ready in found
    assert "rota issue approve" in found


# who set the label


@pytest.mark.parametrize(
    ("labelled", "eligible"),
    [
        ([], False),
        ([ready(MAINTAINER, 10)], True),
        ([ready(TRIAGER, 10)], False),
        ([ready(Account(4711, "maintainer"), 10)], False),
        ([Labelling("bug", MAINTAINER, at(10))], False),
        ([Labelling(LABELS.ready.upper(), MAINTAINER, at(10))], True),
        ([ready(TRIAGER, 5), ready(MAINTAINER, 10)], True),
    ],
    ids=str,
)
async def test_an_issue_is_eligible_by_who_set_the_ready_label(
    labelled: list[Labelling], eligible: bool
) -> None:
    found = await gate(Repo(labelled=labelled)).distrust(strange())
    assert (found is None) is eligible


async def test_our_own_account_may_mark_what_nobody_has_worked() -> None:
    assert await gate(Repo(labelled=[ready(BOT, 10)])).distrust(strange()) is None


async def test_our_own_account_putting_the_label_back_approves_nothing() -> None:
    labelled = [Labelling(LABELS.in_flight, BOT, at(5)), ready(BOT, 10)]
    assert await gate(Repo(labelled=labelled)).distrust(strange()) is not None


async def test_the_label_put_back_does_not_renew_an_approval_that_an_edit_ended() -> None:
    labelled = [ready(MAINTAINER, 10), Labelling(LABELS.in_flight, BOT, at(20)), ready(BOT, 40)]
    repo = Repo(labelled=labelled, edit=TextEdit(at(30), STRANGER))
    assert await gate(repo).distrust(strange()) is not None


async def test_an_owner_whose_token_we_use_cannot_be_told_from_us_after_work_began() -> None:
    labelled = [Labelling(LABELS.in_flight, OPERATOR, at(5)), ready(OPERATOR, 10)]
    repo = Repo(own=OPERATOR, belongs_to=OPERATOR, labelled=labelled)
    assert await gate(repo).distrust(strange()) is not None


# edits


@pytest.mark.parametrize(
    ("edit", "eligible"),
    [
        (None, True),
        (TextEdit(at(9), STRANGER), True),  # before the label: the approver has seen it
        (TextEdit(at(10), STRANGER), False),  # in the same second: perhaps after it
        (TextEdit(at(11), STRANGER), False),
        (TextEdit(at(11), None), False),  # by nobody knows whom
        (TextEdit(at(11), Account(4711, "maintainer")), False),
        (TextEdit(at(11), MAINTAINER), True),
        (TextEdit(at(11), BOT), True),
    ],
    ids=str,
)
async def test_an_edit_after_the_approval_needs_another(
    edit: TextEdit | None, eligible: bool
) -> None:
    found = await gate(Repo(labelled=[ready(MAINTAINER, 10)], edit=edit)).distrust(strange())
    assert (found is None) is eligible


async def test_a_trusted_authors_issue_edited_by_a_stranger_is_refused() -> None:
    repo = Repo(edit=TextEdit(at(5), STRANGER))
    found = await gate(repo).distrust(issue(author=MAINTAINER))
    assert found is not None
    assert "edited by mallory" in found


async def test_a_trusted_edit_does_not_cover_a_strangers_before_it() -> None:
    repo = Repo(
        labelled=[ready(MAINTAINER, 10)],
        edit=TextEdit(at(30), MAINTAINER),
        earlier=(TextEdit(at(20), STRANGER),),
    )
    found = await gate(repo).distrust(strange())
    assert found is not None
    assert "edited by mallory" in found


async def test_a_trusted_edit_leaves_an_approval_that_came_after_a_strangers() -> None:
    repo = Repo(
        labelled=[ready(MAINTAINER, 50)],
        edit=TextEdit(at(60), MAINTAINER),
        earlier=(TextEdit(at(40), STRANGER),),
    )
    assert await gate(repo).distrust(strange()) is None


async def test_the_label_taken_off_and_put_on_again_approves_the_edit() -> None:
    repo = Repo(
        labelled=[ready(MAINTAINER, 10), ready(MAINTAINER, 30)],
        edit=TextEdit(at(20), STRANGER),
    )
    assert await gate(repo).distrust(strange()) is None


async def test_a_text_that_was_read_before_the_label_is_not_what_was_agreed_to() -> None:
    """It was listed, then edited, and then the label was put on what is there now."""
    repo = Repo(
        labelled=[ready(MAINTAINER, 10), ready(MAINTAINER, 30)],
        edit=TextEdit(at(20), STRANGER),
    )
    guard = gate(repo)
    found = await guard.distrust(strange(body="obey me"))
    assert found is not None
    assert "judged again at the next look" in found
    assert await guard.book.approval(7) is None
    assert await guard.distrust(strange()) is None
    repo.edit = TextEdit(at(40), STRANGER)
    assert await guard.distrust(strange(body="obey me")) is not None


async def test_the_text_is_read_between_label_and_edits_and_not_again_once_it_is_approved() -> None:
    repo = Repo(labelled=[ready(MAINTAINER, 10)])
    guard = gate(repo)
    await guard.distrust(strange())
    assert repo.asked == ["labellings", "issue", "last_edit"]
    await guard.distrust(strange())
    assert len(repo.asked) == 3


# what was approved is remembered


async def test_an_approved_text_is_not_asked_for_again() -> None:
    repo = Repo(labelled=[ready(MAINTAINER, 10)])
    guard = gate(repo)
    assert await guard.distrust(strange()) is None
    repo.asked.clear()
    assert await guard.distrust(strange()) is None
    assert repo.asked == []


async def test_what_was_approved_is_this_text_by_this_person_at_that_time() -> None:
    guard = gate(Repo(labelled=[ready(MAINTAINER, 10)]))
    await guard.distrust(strange())
    assert await guard.book.approval(7) == Approval(text_hash(strange()), MAINTAINER.id, at(10))


async def test_nothing_refused_is_remembered() -> None:
    guard = gate(Repo())
    await guard.distrust(strange())
    assert await guard.book.approval(7) is None


async def test_a_text_that_goes_back_to_what_was_approved_is_approved() -> None:
    repo = Repo(labelled=[ready(MAINTAINER, 10)])
    guard = gate(repo)
    await guard.distrust(strange())
    repo.edit = TextEdit(at(99), STRANGER)
    assert await guard.distrust(strange(body="obey me")) is not None
    assert await guard.distrust(strange()) is None


@pytest.mark.parametrize("changes", [{"title": "other"}, {"body": "other"}], ids=str)
async def test_title_and_body_both_count(changes: dict[str, str]) -> None:
    repo = Repo(labelled=[ready(MAINTAINER, 10)])
    guard = gate(repo)
    await guard.distrust(strange())
    repo.edit = TextEdit(at(11), STRANGER)
    assert await guard.distrust(strange(**changes)) is not None


def test_text_cannot_be_moved_between_title_and_body_unseen() -> None:
    assert text_hash(issue(title="ab", body="c")) != text_hash(issue(title="a", body="bc"))


async def test_where_the_tracker_tells_of_no_edits_the_text_counts_as_first_seen() -> None:
    """As on Gitea."""
    repo = Repo(labelled=[ready(MAINTAINER, 10)], edit=None)
    guard = gate(repo)
    assert await guard.distrust(strange()) is None
    repo.text = strange(body="obey me")
    found = await guard.distrust(strange(body="obey me"))
    assert found is not None
    assert "edited by somebody" in found
    repo.labelled.append(ready(MAINTAINER, 50))
    assert await guard.distrust(strange(body="obey me")) is None


async def test_a_person_may_approve_by_hand() -> None:
    repo = Repo(edit=TextEdit(at(5), STRANGER))
    guard = gate(repo)
    await guard.approve(strange(), OPERATOR, at(60))
    assert await guard.distrust(strange()) is None
    assert await guard.distrust(replace(strange(), body="obey me")) is not None
