"""What the environment says, and what it does not."""

import pytest

from rota.config import Settings
from rota.model.errors import InvalidInput


def test_an_empty_variable_is_as_good_as_not_set() -> None:
    settings = Settings.from_environment({"ROTA_HOST": "", "PORT": "", "ROTA_SIGNALS": ""})
    assert settings.chosen == frozenset()
    assert settings.listening("127.0.0.2", 9000).url == "http://127.0.0.2:9000"
    assert settings.signals


def test_a_variable_wins_over_the_file_and_an_option_over_both() -> None:
    settings = Settings.from_environment({"ROTA_HOST": "::1", "PORT": "81"}, port=82)
    assert settings.listening("127.0.0.1", 9000).url == "http://[::1]:82"


@pytest.mark.parametrize("word", ["off", "0", "false", "no", " No "])
def test_signals_are_switched_off_in_any_of_the_usual_words(word: str) -> None:
    assert not Settings.from_environment({"ROTA_SIGNALS": word}).signals


@pytest.mark.parametrize("word", ["on", "1", "TRUE", "yes"])
def test_an_option_switches_off_what_a_variable_switches_on(word: str) -> None:
    assert Settings.from_environment({"ROTA_SIGNALS": word}).signals
    assert not Settings.from_environment({"ROTA_SIGNALS": word}, signals=False).signals


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ROTA_SIGNALS: 'disabled' is not known; write on or"):
        Settings.from_environment({"ROTA_SIGNALS": "disabled"})


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "::1", "0:0:0:0:0:0:0:1"])
def test_this_machine_alone_is_reached_by_every_address_of_the_loopback(host: str) -> None:
    assert Settings.from_environment({}, host=host).on_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "rota.example.org", "128.0.0.1"])
def test_others_reach_every_other_address(host: str) -> None:
    assert not Settings.from_environment({}, host=host).on_loopback
