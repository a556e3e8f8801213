"""Where the viewer of a page is: what a cookie says, read as it was sent."""

from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.dashboard import rendering


def zone(cookie: str | None) -> str:
    headers = {} if cookie is None else {b"cookie": cookie.encode("latin-1")}
    call: Any = SimpleNamespace(headers=headers)
    return rendering.zone_of(call).key


@pytest.mark.parametrize(
    ("cookie", "found"),
    [
        (None, "UTC"),
        ("rota_zone=Europe%2FBerlin", "Europe/Berlin"),
        ("a=b; rota_zone=Europe/Berlin; c", "Europe/Berlin"),
        ("rota_zone=Etc%2FGMT%2B3", "Etc/GMT+3"),
        ("rota_zone=", "UTC"),
        ("rota_zone=Mars", "UTC"),
        ("rota_zone=../../etc/passwd", "UTC"),
        ("rota_zone=Europe", "UTC"),
        ("rota_zone=UTC%00", "UTC"),
        ("rota_zone=Europe/Berlin; rota_zone=Asia/Tokyo", "UTC"),
        ("\xff", "UTC"),
    ],
)
def test_the_zone_is_the_one_that_the_page_has_noted(cookie: str | None, found: str) -> None:
    assert zone(cookie) == found


def test_what_is_in_quotes_is_not_unquoted_which_would_take_the_square_of_its_length() -> None:
    assert zone('rota_zone="Europe\\057Berlin"') == "UTC"


def test_a_long_name_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def looked_for(name: str) -> ZoneInfo:
        asked.append(name)
        return ZoneInfo("UTC")

    monkeypatch.setattr(rendering, "ZoneInfo", looked_for)
    zone("rota_zone=" + "a" * 60_000)
    assert max(map(len, asked)) <= 100
