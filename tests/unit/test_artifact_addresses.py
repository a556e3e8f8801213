"""Addresses that results may have."""

import pytest

from rota.model.errors import InvalidInput
from rota.queue.intake import check_url


@pytest.mark.parametrize(
    "url",
    [
        "https://x.org/a\n",
        "https://x.org/a\r\nb",
        "https://x.o\trg/a",
        "\nhttps://x.org/a",
        "https://x.org/\x1b[2J",
        "https://",
        "ftp://x.org",
        "x.org",
        "https://[x",
        "https://x.org:99999/",
        "https://x.org:0/",
        "https://x y.org/",
        "https://x.org/a b",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="artifact_url"):
        check_url(url)


@pytest.mark.parametrize(
    "url", ["https://x.org/a?b=c#d", "http://[::1]:8080/", "https://bücher.de/ä"]
)
def test_what_is_one_is_kept_as_it_is(url: str) -> None:
    assert check_url(url) == url
