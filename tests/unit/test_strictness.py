"""What no two programs would read alike in JSON is refused, at the cost of reading it."""

import pytest

from rota.api import strictness
from rota.model.errors import InvalidInput


class Counted(str):
    """A name that knows how often it was compared with others."""

    __slots__ = ()
    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_repeated_key_is_found_without_comparing_each_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Counted, "compared", 0)
    pairs = [(Counted(number), 0) for number in [*range(2_000), 1_999]]
    with pytest.raises(InvalidInput, match="1999: it is given twice"):
        strictness._each_once(pairs)
    assert Counted.compared < 100, "hashes that meet by chance, and the key that came twice"


@pytest.mark.parametrize("text", ['{"a": 1, "b": {"a": 2}}', "[]", "{}", '[{"a": 1}, {"a": 1}]'])
def test_keys_of_different_objects_are_no_repeats(text: str) -> None:
    strictness.check(text)
