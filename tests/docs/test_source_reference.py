"""The pages on sources and claims are in step with the code."""

import inspect
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import rota.claims
from rota.app import open_ledger
from rota.claims.comments import Kind, Marker, parse_comment
from rota.claims.labels import LIFECYCLE_LABELS, LabelSet
from rota.claims.pickup import Obstacle
from rota.claims.projection import FAILED_OUTCOMES, PARKED
from rota.claims.sweep import Deed
from rota.claims.timing import Times
from rota.cli import ending
from rota.cli.hooks import hook
from rota.cli.issue import issue
from rota.cli.labelstate import label_state
from rota.cli.sources import source
from rota.config import sources
from rota.config.fleet import FleetConfig, load, source_config
from rota.config.loading import load_fleet
from rota.config.sources import Forge
from rota.sources.assembly import make_tracker, open_desk
from rota.sources.desk import IssueDesk
from rota.sources.forge import ForgeWorkSource
from rota.sources.gitea.errors import GiteaAPIError, GiteaAuthError
from rota.sources.github import GitHubAPIError, GitHubAuthError
from rota.sources.mirror import Mirror
from rota.sources.operators import IssueStatus
from rota.sources.port import ClaimFailureReason, WorkResult
from rota.sources.registry import SourceContext
from rota.testing.tracker import TrackerStub
from rota.testing.tracker.handle import Control
from tests.docs.pages import DOCS, blocks, every_page, name_of
from tests.docs.test_reference import rows

KEYS = DOCS / "reference/sources.md"
LOG = DOCS / "reference/claim-log.md"
CLAIMS = DOCS / "explanation/claims-on-a-tracker.md"
OTHERS = DOCS / "howto/from-other-tools.md"

# configuration

SECTIONS: dict[str, type[BaseModel]] = {
    "github": sources.GitHubSource,
    "gitea": sources.GiteaSource,
    "labels": sources.Labels,
    "auth": sources.Auth,
    "times": sources.ClaimTimes,
    "markdown": sources.MarkdownSource,
    "queue": sources.QueueSource,
    "memory": sources.MemorySource,
}
# How the third column of a section is headed, where not "is".
HEADS = {"labels": "stands on an issue that"}


def keys_of(section: str) -> dict[str, str]:
    """The documented keys, and their defaults."""
    columns = (f"key of `{section}`", "default", HEADS.get(section, "is"))
    return {key: default for key, default, _ in rows(KEYS, *columns)}


def shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return f"{default:.15g}" if isinstance(default, float) else str(default)


def fits(field: FieldInfo, told: str) -> bool:
    if field.is_required():
        return told == "required"
    if field.default is None:
        return bool(told) and told != "required"  # what then holds is said in words
    if field.default == ():
        return told in ("none", "any")
    if isinstance(field.default, BaseModel):
        return told.startswith("see ")
    return told.partition(";")[0] == shown(field.default)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_a_source_is_described_with_its_default(section: str) -> None:
    model, told = SECTIONS[section].model_fields, keys_of(section)
    assert set(told) == set(model)
    wrong = {key: told[key] for key, field in model.items() if not fits(field, told[key])}
    assert wrong == {}


def test_a_wrong_default_would_be_noticed() -> None:
    field = sources.ClaimTimes.model_fields["settle"]
    assert fits(field, "10")
    assert not fits(field, "12")
    assert not fits(sources.GitHubSource.model_fields["repo"], "none")


def test_every_section_of_the_configuration_is_described() -> None:
    models = {
        kind
        for _, kind in inspect.getmembers(sources, inspect.isclass)
        if issubclass(kind, sources.Section)
    }
    # Those that have no keys of their own, and the one whose keys are another package's.
    others = {sources.Section, sources.Forge, sources.GiteaAuth, sources.OtherSource}
    assert models - others == set(SECTIONS.values())
    top = {key for key, *_ in rows(KEYS, "key", "default", "is")}
    assert top == set(FleetConfig.model_fields)


def test_the_variables_for_tokens_are_those_of_both_trackers() -> None:
    told = keys_of("auth")["token_env"]
    assert sources.Auth().token_env in told
    assert sources.GiteaAuth().token_env in told


def test_the_times_on_the_page_about_claims_are_the_defaults() -> None:
    units = {"s": 1, "h": 3600}
    table = rows(CLAIMS, "time", "key", "default", "hangs on it")
    told = {key: float(text.split()[0]) * units[text.split()[1]] for _, key, text, _ in table}
    defaults = sources.ClaimTimes().model_dump()
    assert told == defaults
    times = Times()
    assert {key: getattr(times, key) for key in defaults} == defaults
    trust = f"({times.grace:g} − {times.settle:g} − {times.margin:g} = {times.trust_in_a_poll:g} s)"
    assert trust in " ".join(CLAIMS.read_text().split())


def configurations() -> Iterator[Any]:
    """Every block that begins as a rota.yaml does."""
    for page in every_page():
        found = [one.text for one in blocks(page) if one.text.startswith("# rota.yaml\n")]
        for number, text in enumerate(found, 1):
            yield pytest.param(text, id=f"{name_of(page)}-{number}")


@pytest.mark.parametrize("text", list(configurations()))
def test_every_configuration_that_is_shown_can_be_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rota.yaml"
    path.write_text(text)
    assert load(path).sources or load_fleet(path, {}).fleet.agents


# labels and comments


def test_every_marker_is_shown_as_it_is_written() -> None:
    told = [parse_comment(line) for line in LOG.read_text().splitlines() if "<!-- agent-" in line]
    assert [marker.kind for marker in told if marker] == list(Kind)
    assert {kind for kind, *_ in rows(LOG, "marker", "says", "counts when its author is")} == set(
        Kind
    )
    described = {key for keys, _ in rows(LOG, "field", "is") for key in keys.split(", ")}
    assert {key for marker in told if marker for key in marker.fields} <= described


def test_labels_are_called_by_their_names() -> None:
    labels, ours = sources.Labels(), LabelSet()
    table = rows(LOG, "label", "in label-state", "means", "who sets it")
    assert [label for label, *_ in table] == [
        labels.done, labels.pr_open, labels.in_progress, labels.failed, labels.ready,
    ]  # fmt: skip
    theirs = {name for name, _, _ in LIFECYCLE_LABELS}
    assert {row[0] if row[1] == "the same" else row[1] for row in table} - {""} == theirs
    others = {label for label, *_ in rows(LOG, "label", "means", "who sets it")}
    assert others - {"those in exclude_labels"} == {ours.managed, ours.hold, *ours.excluded}


def test_every_outcome_with_a_label_of_its_own_is_described() -> None:
    table = rows(LOG, "outcome", "label afterwards", "said when")
    label_of = {outcome: label for names, label, _ in table for outcome in names.split(", ")}
    failed = {outcome for outcome, label in label_of.items() if label == sources.Labels().failed}
    assert failed == FAILED_OUTCOMES
    assert label_of[PARKED] == "none"


def test_every_reason_why_an_issue_is_left_is_described() -> None:
    assert {row[0] for row in rows(LOG, "reason", "means", "what helps")} == set(Obstacle)
    text = LOG.read_text()
    assert all(f"`{reason}`" in text for reason in ClaimFailureReason)


def test_every_deed_of_a_sweep_is_described() -> None:
    assert {deed for deed, _ in rows(LOG, "deed", "means")} == set(Deed)


def test_every_fact_about_an_issue_is_described() -> None:
    part = LOG.read_text().rpartition("## What `rota issue status --json`")[2]
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", part, re.M))))
    assert told == {field.name for field in fields(IssueStatus)}


# errors


def test_errors_of_trackers_are_described() -> None:
    table = rows(DOCS / "reference/errors.md", "code of a tracker", "exit code", "class", "means")
    described = {code: (int(leave), kind) for code, leave, kind, _ in table}
    kinds = (GitHubAPIError, GitHubAuthError, GiteaAPIError, GiteaAuthError)
    assert described == {
        kind.code: (ending.exit_code_for(kind("")), kind.__name__) for kind in kinds
    }


# commands and functions


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("rota issue", issue.commands),
        ("rota source", source.commands),
        ("rota hook", hook.commands),
        ("label-state", label_state.commands),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_commands_about_work_from_outside_that_pages_mention_exist(
    words: str, known: dict[str, Any]
) -> None:
    named = set()
    for page in every_page():
        # In code only, where they are to be typed.
        code = [block.text for block in blocks(page)] + re.findall(r"`[^`\n]+`", page.read_text())
        named |= set(re.findall(rf"\b{words} ([a-z][a-z-]*)", "\n".join(code)))
    assert named
    assert named <= set(known)


def test_what_scripts_of_label_state_use_is_all_here() -> None:
    text = OTHERS.read_text().partition("## From herdctl")[0]
    for name in rota.claims.__all__:
        assert f"`{name}" in text
    for told, name in re.findall(r"\| `((\w+)\([^`]*\))`(?: \||,)", text):
        given = inspect.signature(getattr(rota.claims, name)).parameters.values()
        plain = [str(one.replace(annotation=one.empty)).replace("'", '"') for one in given]
        keyword_only = [one.kind is one.KEYWORD_ONLY for one in given]
        if True in keyword_only:
            plain.insert(keyword_only.index(True), "*")
        assert told == f"{name}({', '.join(plain)})"


def test_what_the_stub_can_do_is_told_by_names_that_exist() -> None:
    table = rows(DOCS / "howto/write-a-source.md", "it can", "by")
    named = {name for _, by in table for name in re.findall(r"\w+", by.partition(";")[0])}
    assert len(named) > 10
    assert named <= set(dir(Control))


# requests

REPO = "ada/engine"
STEPS = ("poll, when nothing", "fetch,", "claim", "look,", "complete")


def answered(number: int) -> WorkResult:
    """By a pull request of its own: what is said twice is looked up once."""
    address = f"https://github.com/{REPO}/pull/9{number}"
    return WorkResult("success", "mended", artifacts=(address,))


@dataclass(frozen=True)
class Shop:
    control: Control
    desk: IssueDesk
    source: ForgeWorkSource
    mirror: Mirror
    counted: dict[str, str]

    async def count(self, step: str, doing: Any) -> Any:
        self.control.forget_requests()
        done = await doing
        made = self.control.requests()
        unchanged = sum(one["status"] == 304 for one in made)
        self.counted[step] = f"{len(made)} ({unchanged})"
        return done


@asynccontextmanager
async def shop(stub: TrackerStub, kind: str, mode: str, folder: Path) -> AsyncIterator[Shop]:
    control = stub.control
    control.reset()
    control.user("ada", id=7)
    control.user("bot", id=101)
    control.token("bot")
    control.repo(REPO, private=True, collaborators=["bot"])
    for title in ("first", "second", "third"):
        control.issue(REPO, title, labels=["ready"])
    settings = source_config(
        {"type": kind, "repo": REPO, "api_url": stub.url, "claim_mode": mode,
         "auth": {"token_env": "TOKEN"}, "times": {"settle": 0.01}}
    )  # fmt: skip
    assert isinstance(settings, Forge)
    async with open_ledger(str(folder / "rota.db")) as ledger:
        context = SourceContext(
            ledger=ledger, environ={"TOKEN": "token-bot"}, paused_repos=folder / "paused.json"
        )
        tracker = make_tracker(settings, context)
        try:
            desk = await open_desk(settings, context, tracker=tracker)

            async def at_desk() -> IssueDesk:
                return desk

            source = ForgeWorkSource(kind, "smith", at_desk)
            yield Shop(control, desk, source, Mirror(desk, ledger.outside), {})
        finally:
            await tracker.aclose()


async def work_on(shop: Shop, item: str) -> None:
    await shop.count("fetch,", shop.source.fetch_available_work())
    await shop.count("claim", shop.source.claim_work(item))
    number = int(item.rpartition("-")[2])
    await shop.count("complete", shop.source.complete_work(item, answered(number)))


async def look_at(shop: Shop, item: str) -> None:
    await shop.source.claim_work(item)
    held = await shop.desk.held(int(item.rpartition("-")[2]), "smith")
    await shop.desk.claims.look(held.grant)
    await shop.count("look,", shop.desk.claims.look(held.grant))


def written_on(control: Control, number: int) -> list[Marker]:
    found = (parse_comment(one["body"]) for one in control.look(REPO, number)["comments"])
    return [marker for marker in found if marker]


@pytest.mark.parametrize(
    ("column", "kind", "mode"),
    [(1, "github", "comments"), (2, "github", "strict"), (3, "github", "labels"),
     (4, "gitea", "comments")],
)  # fmt: skip
async def test_requests_are_as_many_as_the_page_says(
    stub: TrackerStub, tmp_path: Path, column: int, kind: str, mode: str
) -> None:
    columns = ("step", "comments", "strict", "labels", "comments on Gitea")
    table = rows(CLAIMS, *columns)
    told = {step: row[column] for row in table for step in STEPS if row[0].startswith(step)}
    async with shop(stub, kind, mode, tmp_path) as open_shop:
        await work_on(open_shop, f"{kind}-1")
        await work_on(open_shop, f"{kind}-2")
        await look_at(open_shop, f"{kind}-3")
        await open_shop.mirror.poll()
        await open_shop.count(STEPS[0], open_shop.mirror.poll())
        assert open_shop.counted == told


async def test_what_is_written_on_an_issue_has_the_fields_that_are_shown(
    stub: TrackerStub, tmp_path: Path
) -> None:
    told = {
        marker.kind: list(marker.fields)
        for line in LOG.read_text().splitlines()
        if (marker := parse_comment(line))
    }
    async with shop(stub, "github", "comments", tmp_path) as open_shop:
        await open_shop.source.claim_work("github-1")
        await open_shop.source.complete_work("github-1", answered(1))
        await open_shop.source.claim_work("github-2")
        await open_shop.source.release_work("github-2")
        written = written_on(open_shop.control, 1) + written_on(open_shop.control, 2)
    assert [marker.kind for marker in written] == [Kind.CLAIM, Kind.DONE, Kind.CLAIM, Kind.RELEASE]
    for marker in written:
        assert list(marker.fields) == told[marker.kind]
