"""A secret may be in a file that `NAME_FILE` names."""

from pathlib import Path

import pytest

from rota.config import Settings
from rota.model.errors import InvalidInput
from rota.runner.environment import inherited
from rota.runner.redaction import HIDDEN, Redactor
from rota.surroundings import MOST_BYTES, Surroundings

SECRET = "ghp_0123456789abcdef"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    return file


def test_a_variable_that_is_not_set_is_read_from_its_file_without_the_line_end(file: Path) -> None:
    assert Surroundings({"MY_TOKEN_FILE": str(file)}).get("MY_TOKEN") == SECRET


def test_a_variable_wins_over_its_file_unless_it_is_empty(file: Path) -> None:
    names = {"MY_TOKEN_FILE": str(file)}
    assert Surroundings({**names, "MY_TOKEN": "said"})["MY_TOKEN"] == "said"
    assert Surroundings({**names, "MY_TOKEN": ""})["MY_TOKEN"] == SECRET


def test_a_file_that_is_replaced_is_read_again(file: Path) -> None:
    environ = Surroundings({"MY_TOKEN_FILE": str(file)})
    assert environ["MY_TOKEN"] == SECRET
    file.write_text("another")
    assert environ["MY_TOKEN"] == "another"


def test_what_is_set_nowhere_is_missing_and_an_empty_variable_stays_empty() -> None:
    environ = Surroundings({"EMPTY": "", "NO_FILE": ""})
    assert "ABSENT" not in environ
    assert environ.get("ABSENT", "-") == "-"
    assert environ["EMPTY"] == ""
    assert environ.get("NO") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe\x00", "no UTF-8 text"),
        (b"x" * (MOST_BYTES + 1), "too long for a secret"),
    ],
)
def test_a_file_that_holds_no_secret_is_an_error_that_names_variable_and_file(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    environ = Surroundings({"MY_TOKEN_FILE": str(file)})
    with pytest.raises(InvalidInput, match=says) as raised:
        environ.get("MY_TOKEN")
    assert f"MY_TOKEN_FILE names {file}" in raised.value.message


def test_a_path_that_no_file_can_have_is_an_error_too() -> None:
    with pytest.raises(InvalidInput, match="no path"):
        Surroundings({"MY_TOKEN_FILE": "a\0b"}).get("MY_TOKEN")


def test_a_list_of_all_variables_has_those_of_files_that_can_be_read(file: Path) -> None:
    environ = Surroundings(
        {"MY_TOKEN_FILE": str(file), "SSL_CERT_FILE": "/nowhere", "_FILE": str(file), "A": "b"}
    )
    assert dict(environ) == {
        "MY_TOKEN_FILE": str(file),
        "SSL_CERT_FILE": "/nowhere",
        "_FILE": str(file),
        "A": "b",
        "MY_TOKEN": SECRET,
    }
    assert len(environ) == 5


def test_an_agent_gets_a_secret_from_a_file_only_where_it_is_named(file: Path) -> None:
    environ = Surroundings({"MY_TOKEN_FILE": str(file), "PATH": "/bin"})
    assert inherited(environ) == {"PATH": "/bin"}
    assert inherited(environ, ("MY_TOKEN",)) == {"PATH": "/bin", "MY_TOKEN": SECRET}


def test_a_secret_from_a_file_is_hidden_like_any_other(file: Path) -> None:
    redactor = Redactor(Surroundings({"MY_TOKEN_FILE": str(file)}))
    assert redactor.text(f"using {SECRET}") == f"using {HIDDEN}"


def test_the_address_of_the_database_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("postgresql://rota:secret@db/rota\n")
    environ = Surroundings({"DATABASE_URL_FILE": str(file)})
    assert Settings.from_environment(environ).database == "postgresql://rota:secret@db/rota"
