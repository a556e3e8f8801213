"""What is kept of a webhook's payload, in an event that everybody reads."""

from rota.queue.hearing import DEEPEST, LONGEST_TEXT, MOST_ENTRIES, shortened


def test_of_a_payload_no_part_is_long_deep_or_endless() -> None:
    many = MOST_ENTRIES + 1
    assert shortened("x" * 1000) == "x" * LONGEST_TEXT
    assert shortened(["x" * 1000] * many) == ["x" * LONGEST_TEXT] * MOST_ENTRIES
    assert shortened({f"n{n}": n for n in range(many)}) == {f"n{n}": n for n in range(MOST_ENTRIES)}
    assert shortened({"n" * 1000: 1}) == {"n" * 100: 1}
    lists: object = "bottom"
    names: object = "bottom"
    for _ in range(DEEPEST + 10):
        lists, names = [lists], {"inner": names}
    assert repr(shortened(lists)).count("[") == DEEPEST + 1
    assert repr(shortened(names)).count("inner") == DEEPEST


def test_numbers_truths_and_nothing_are_kept_as_they_are() -> None:
    payload = {"merged": True, "labels": [1, 2.5, None], "by": {"id": 7}}
    assert shortened(payload) == payload
