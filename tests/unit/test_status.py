"""The status machine as the design draws it, and the model's table of it."""

from rota.model.events import EVENT_OF
from rota.model.status import (
    OUTCOME_OF,
    RULES,
    TERMINAL,
    VERB_OF,
    Status,
    Verb,
    allowed_from,
    verb_for,
)

DRAWN = """
queued      → dispatched (dispatch: assigned_agent) | cancelled (cancel)
dispatched  → in_progress (start) | queued (release) | cancelled (cancel)
in_progress → completed (complete: outcome) | failed (fail: outcome) | blocked (block: notes)
in_progress → in_review (hand_over: artifact_url) | queued (release)
blocked     → in_progress (resume) | queued (release) | failed (fail: outcome)
in_review   → completed (complete: outcome) | queued (reopen)
failed      → queued (retry)
"""


def drawn() -> set[tuple[str, str, str, str | None]]:
    arrows = set()
    for line in DRAWN.strip().splitlines():
        source, targets = line.split("→")
        for arrow in targets.split("|"):
            target, verb = arrow.strip().rstrip(")").split(" (")
            name, _, needs = verb.partition(": ")
            arrows.add((source.strip(), target, name, needs or None))
    return arrows


def test_the_table_is_the_drawing() -> None:
    table = {
        (str(source), str(rule.target), str(verb), rule.needs)
        for verb, rule in RULES.items()
        for source in rule.sources
    }
    assert table == drawn()


def test_a_pair_of_statuses_names_one_verb() -> None:
    assert len(VERB_OF) == len(drawn())
    for source in Status:
        for target in Status:
            named = [verb for a, b, verb, _ in drawn() if (a, b) == (source, target)]
            assert verb_for(source, target) == (Verb(named[0]) if named else None)


def test_a_verb_needs_the_same_wherever_it_leads_from() -> None:
    for verb in Verb:
        assert len({needs for _, _, name, needs in drawn() if name == verb}) == 1


def test_nothing_leads_out_of_completed_and_cancelled() -> None:
    assert {status for status in Status if not allowed_from(status)} == {
        Status.COMPLETED,
        Status.CANCELLED,
    }
    assert allowed_from(Status.FAILED) == {Verb.RETRY: Status.QUEUED}


def test_each_terminal_status_has_its_outcome_and_each_verb_its_event() -> None:
    assert set(OUTCOME_OF) == TERMINAL
    assert len(set(OUTCOME_OF.values())) == len(TERMINAL)
    assert set(EVENT_OF) == set(Verb)
    assert len(set(EVENT_OF.values())) == len(Verb)
