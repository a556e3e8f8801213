"""The reference is in step with the code."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from rota import scheduler
from rota.api import metrics, permits, problems
from rota.api.problems import FaceError, Internal, status_of
from rota.cli import ending
from rota.cli.root import rota
from rota.client import ClaimedItem, Work, WorkQueueClient
from rota.client import errors as client_errors
from rota.model import access, claims, errors
from rota.model.errors import RotaError
from rota.model.events import EVENT_OF, EventType
from rota.model.status import RULES, Status, Verb
from rota.queue import explain, explain_agents, explain_fleet, explain_reviews
from tests.docs.pages import DOCS, ROOT
from tools import make_reference

REFERENCE, HOWTO = DOCS / "reference", DOCS / "howto"


def rows(page: Path, *columns: str) -> list[list[str]]:
    """The table of a page with these columns, as cells without their backquotes."""
    head = "| " + " | ".join(columns) + " |\n"
    text = page.read_text()
    assert head in text, f"{page.name} has no table {head}"
    table = text.partition(head)[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines() if not line.startswith("|---")]
    cells = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in lines]
    return [[cell.strip().replace("`", "") for cell in line] for line in cells]


# made from the code


def test_what_is_made_from_the_code_is_what_the_code_says_today() -> None:
    assert make_reference.pages() == [REFERENCE / "cli.md", REFERENCE / "http.md"]
    stale = [page.name for page in make_reference.out_of_step()]
    assert stale == [], "run: python -m tools.make_reference"


def test_every_call_of_a_server_is_in_the_reference() -> None:
    """Also those that only a server with a fleet can carry out."""
    page = (REFERENCE / "http.md").read_text()
    for call in ("GET /work", "POST /hooks/github", "POST /signals", "POST /config/reload"):
        assert f"### `{call}`\n" in page


def test_every_command_has_its_help_in_the_reference() -> None:
    page = (REFERENCE / "cli.md").read_text()
    context = click.Context(rota)
    for name in rota.list_commands(context):
        command = rota.get_command(context, name)
        assert f"### rota {name}\n" in page
        for member in getattr(command, "commands", {}):
            assert f"#### rota {name} {member}\n" in page


def test_commands_that_the_pages_mention_exist() -> None:
    context = click.Context(rota)
    known = {*rota.list_commands(context), "up", "COMMAND"}
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for named in re.findall(r"`rota ([a-zA-Z][\w-]*)[` ]", page.read_text()):
            assert named in known, f"{page.name} mentions rota {named}"


# events


def test_every_event_type_is_described_with_its_arrow() -> None:
    described = {
        kind: arrow for kind, arrow, _ in rows(REFERENCE / "events.md", "type", "arrow", "when")
    }
    assert list(described) == [str(kind) for kind in EventType]
    for verb, rule in RULES.items():
        arrow = f"{', '.join(rule.sources)} → {rule.target}"
        assert described[EVENT_OF[verb]] == arrow
    moves = {str(kind) for kind in EVENT_OF.values()} | {"work.submitted"}
    assert {kind for kind, arrow in described.items() if arrow} == moves


# errors


def tree_of(root: type[RotaError]) -> list[type[RotaError]]:
    return [root, *(found for one in root.__subclasses__() for found in tree_of(one))]


def ledgers_own() -> list[type[RotaError]]:
    return [one for one in tree_of(RotaError) if one.__module__ == errors.__name__]


def faces_own() -> list[type[RotaError]]:
    kinds = [one for one in tree_of(FaceError) if one is not FaceError]
    return [one for one in kinds if one.__module__ == problems.__name__] + [Internal]


def exit_code(code: str, status: int) -> int:
    """As the command line ends when a server answers so."""
    kind = client_errors._class_of(code, status)
    return ending._EXIT_CODES.get(kind.code, ending.SERVER)


def test_every_error_code_is_described_with_its_status_and_exit_code() -> None:
    table = rows(REFERENCE / "errors.md", "code", "HTTP", "exit", "class", "means")
    described = {code: (int(http), int(leave), kind) for code, http, leave, kind, _ in table}
    expected = {}
    for kind in ledgers_own():
        status = status_of(kind(""))
        expected[kind.code] = (status, exit_code(kind.code, status), kind.__name__)
    for kind in faces_own():
        status = status_of(kind(""))
        expected[kind.code] = (status, exit_code(kind.code, status), "")
    assert described == expected


def test_errors_of_the_client_are_described() -> None:
    table = rows(REFERENCE / "errors.md", "code", "exit", "class", "means")
    described = {code: (int(leave), kind) for code, leave, kind, _ in table}
    kinds = [one for one in tree_of(RotaError) if one.__module__ == client_errors.__name__]
    expected = {one.code: (ending._EXIT_CODES.get(one.code, 6), one.__name__) for one in kinds}
    assert described == expected | {"usage": (ending.USAGE, "")}


def test_every_exit_code_is_described() -> None:
    described = {int(code) for code, _ in rows(REFERENCE / "cli.md", "code", "means")}
    assert described == {*range(9), ending.INTERRUPTED, ending.BROKEN_PIPE}


# environment


def test_every_environment_variable_is_described() -> None:
    page = REFERENCE / "configuration.md"
    described = {name for name, *_ in rows(page, "variable", "default", "is")}
    described |= {name for name, _ in rows(page, "variable", "is")}
    told = {
        name for cell, _ in rows(page, "variable of an agent", "is") for name in cell.split(", ")
    }
    used = set()
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tools").glob("*.py")]:
        text = file.read_text()
        used |= set(re.findall(r'env(?:iron)?(?:\.get\(|\[)"(\w+)"', text))
        used |= set(re.findall(r'"(\w+)" in os\.environ', text))
        used |= set(re.findall(r"\[env: (\w+)", text))
        used |= set(re.findall(r'switch\(env(?:iron)?, "(\w+)"', text))
        used |= set(re.findall(r'^[A-Z_]+ = "(ROTA_\w+)"', text, re.M))
    assert {"DATABASE_URL", "PORT", "ROTA_TOKEN", "ROTA_REQUIRE", "ROTA_RUN_ROOT"} <= used
    assert used <= described | told
    assert described <= used


# the rest


def test_the_status_machine_on_its_page_is_the_one_in_the_code() -> None:
    page = DOCS / "explanation/status-machine.md"
    table = rows(page, "verb", "from", "to", "needs", "scope")
    shown = {verb: (sources, target, scope) for verb, sources, target, _, scope in table}
    assert shown == {
        str(verb): (", ".join(rule.sources), str(rule.target), permits.SCOPE_OF[verb])
        for verb, rule in RULES.items()
    }
    for verb, _, _, needs, _ in table:
        assert (RULES[Verb(verb)].needs or "") in needs
    statuses = [status for status, *_ in rows(page, "status", "the item", "who has it")]
    assert statuses == [str(status) for status in Status]


def test_the_arrows_of_the_drawing_are_those_of_the_table() -> None:
    text = (DOCS / "explanation/status-machine.md").read_text()
    drawing = text.partition("```text\n")[2].partition("```")[0].replace("submit ──► ", "")
    arrows = set()
    for line in filter(None, drawing.splitlines()):
        parts = [part for part in re.split(r"\s*──(\w+)─*►\s*", line.strip()) if part]
        for sources, verb, target in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            arrows |= {(source, verb, target) for source in sources.split(", ")}
    assert arrows == {
        (str(source), str(verb), str(rule.target))
        for verb, rule in RULES.items()
        for source in rule.sources
    }


def test_every_scope_is_described() -> None:
    described = {scope for scope, _ in rows(HOWTO / "tokens-and-networks.md", "scope", "may")}
    assert described == access.PLAIN_SCOPES | {"agent:NAME"}


def test_every_reason_of_an_explanation_is_described() -> None:
    table = rows(HOWTO / "troubleshooting.md", "reason", "means", "what helps")
    described = {code for codes, *_ in table for code in codes.split(", ")}
    source = "".join(
        map(inspect.getsource, (explain, explain_agents, explain_fleet, explain_reviews))
    )
    codes = set(re.findall(r'Reason\(\s*"(\w+)"', source))
    assert described == codes


def test_every_reason_for_empty_hands_is_described() -> None:
    table = rows(HOWTO / "troubleshooting.md", "reason", "means")
    assert {reason for reason, _ in table} == set(claims.NothingClaimed)


def test_every_figure_for_prometheus_is_described() -> None:
    table = rows(REFERENCE / "metrics.md", "name", "type", "labels", "is")
    described = {name.removesuffix("_total") for name, *_ in table}
    assert described == set(re.findall(r'"(rota_\w+)"', inspect.getsource(metrics)))


@pytest.mark.parametrize("kind", [WorkQueueClient, Work, ClaimedItem])
def test_every_method_of_the_client_is_described(kind: type) -> None:
    page = (REFERENCE / "python-client.md").read_text()
    public = [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]
    missing = [name for name in public if not re.search(rf"`(?:\w+\.)?{name}[(`]", page)]
    assert missing == []


def test_what_is_written_of_a_call_is_what_it_takes() -> None:
    """A name may be told of several kinds, of which one is the client."""
    page = (REFERENCE / "python-client.md").read_text()
    wrong = {}
    for name, method in inspect.getmembers(WorkQueueClient, callable):
        told = [one for one in re.findall(rf"`{name}\(([^`]*)\)`", page) if "…" not in one]
        if told and not name.startswith("_") and _taken(method) not in map(_told, told):
            wrong[name] = (told, _taken(method))
    assert wrong == {}


def _told(text: str) -> list[str]:
    """The names of parameters, and a star before those that need theirs."""
    return [_short(part.strip().partition("=")[0]) for part in text.split(",") if part.strip()]


def _short(name: str) -> str:
    return "id" if name.endswith("_id") else name


def _taken(method: Callable[..., Any]) -> list[str]:
    names: list[str] = []
    for one in inspect.signature(method).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        if one.name != "self":
            names.append(f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name)
    return [_short(name) for name in names]


def test_everything_of_the_scheduler_is_described() -> None:
    page = (REFERENCE / "python-scheduler.md").read_text()
    assert [name for name in scheduler.__all__ if not re.search(rf"`{name}\b", page)] == []
