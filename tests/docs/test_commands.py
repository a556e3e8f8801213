"""What the documentation tells a reader to type does what it says."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.client import SyncWorkQueueClient
from tests.docs import console
from tests.docs.console import Expectation, Result, Step
from tests.docs.pages import DOCS, EXAMPLES, ROOT, blocks, every_page, name_of

README, TUTORIAL, POSTGRES = ROOT / "README.md", DOCS / "tutorial.md", DOCS / "howto/postgres.md"
PRINTED_DATABASE = "postgresql://rota@db.example.org/rota"
# Those of examples are run beside their files: tests/acceptance/test_examples.py.
PAGES = [page for page in every_page() if not page.is_relative_to(EXAMPLES)]
WITH_COMMANDS = [page for page in PAGES if console.steps_on(page)]


@pytest.mark.needs("curl")
@pytest.mark.parametrize("page", [one for one in WITH_COMMANDS if one != POSTGRES], ids=name_of)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    console.check(page, tmp_path)


def test_the_commands_on_postgresql_print_what_their_page_shows(
    tmp_path: Path, new_database: Callable[..., str]
) -> None:
    console.check(POSTGRES, tmp_path, {PRINTED_DATABASE: new_database()})


def test_readme_and_tutorial_have_commands_to_run() -> None:
    assert README in WITH_COMMANDS
    assert TUTORIAL in WITH_COMMANDS


def test_the_agent_of_the_tutorial_ends_by_ctrl_c_without_a_word(tmp_path: Path) -> None:
    (program,) = [one.text for one in blocks(TUTORIAL) if one.file == "agent.py"]
    with (
        console.server(tmp_path) as url,
        SyncWorkQueueClient(url) as client,
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=console.environment(tmp_path, ROTA_URL=url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as agent,
    ):
        more_than_a_pipe_holds = "x" * 200_000  # so it is interrupted in the loop's body
        item = client.work_add("greeting", "Say hello", payload={"to": more_than_a_pipe_holds})
        assert agent.stdout is not None
        assert agent.stdout.read(9) == b"greeting "
        agent.send_signal(signal.SIGINT)
        _, said = agent.communicate(timeout=30)
        assert (agent.returncode, said) == (0, b"")
        assert client.work_get(item["id"])["status"] == "queued"


# That the comparison can fail: each of these must be noticed.

ONE, OTHER = "01a1e161-fc8a-7000-8757-e4a264ad9d91", "01a1e161-fe3c-7000-a61a-2f3f721136d1"


def held(*pairs: tuple[str, str], status: int = 0) -> None:
    expectation = Expectation()
    for shown, printed in pairs:
        expectation.hold(Step("rota …", shown), Result(printed, status))


def test_what_is_shown_may_leave_out_and_stand_for_any_id_and_time() -> None:
    held(
        (f"{ONE} at 2026-11-15 22:59:18 +0000 (3s)", f"{OTHER} at 2027-01-02 03:04:05 +0000 (4m)"),
        (f"again {ONE}", f"again {OTHER}"),
        ("first\n…\nlast", "first\na\nb\nlast"),
        ('{"id":"…","status":"queued",…}', '{"id":"1","status":"queued","a":1}'),
    )


@pytest.mark.parametrize(
    "pairs",
    [
        [("completed", "failed")],
        [("one line", "one line\nand another")],
        [(ONE, ONE), (f"again {ONE}", f"again {OTHER}")],
        [(f"{ONE} {ONE}", f"{ONE} {OTHER}")],
        [("", "something")],
    ],
)
def test_another_output_is_noticed(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(AssertionError):
        held(*pairs)


def test_another_exit_code_is_noticed() -> None:
    with pytest.raises(AssertionError):
        held(("fine", "fine"), status=1)
    with pytest.raises(AssertionError):
        held(("rota: no", "rota: no"), status=0)
