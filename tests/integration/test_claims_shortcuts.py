"""`rota.claims` as scripts use it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from rota import claims
from rota.claims import (
    CLAIM_COMMENT_PREFIX,
    LIFECYCLE_LABELS,
    RELEASE_COMMENT_PREFIX,
    claim_issue,
    find_stale_claims,
    force_release_stale_claim,
    is_repo_paused,
    issue_dedup_check,
    list_paused_repos,
    release_issue,
    set_repo_paused,
)
from rota.model.errors import InvalidInput, IssueNotFound, TrackerError
from rota.testing.tracker import TrackerStub
from tests.integration.tracked import FAILED, MANAGED, PR_OPEN, READY, REPO, WORKING, Tracked

RUN, OTHER = "20260501-194217-643a", "20260501-194217-ffff"
PR = "https://github.com/ada/engine/pull/42"
LUCIUS = {"codename": "lucius", "firing_id": RUN}


@pytest.fixture
def here(stub: TrackerStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracked:
    made = Tracked(tmp_path, stub=stub)
    monkeypatch.chdir(tmp_path)
    for name in ("DATABASE_URL", "ROTA_STATE_DIR", "ROTA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


# claim and release


def test_a_claim_stands_in_the_ledger_and_on_the_tracker(here: Tracked) -> None:
    number = here.issue()
    assert claim_issue(REPO, number, **LUCIUS)
    assert (here.items(), here.claims()) == ({str(number): "in_progress"}, ["lucius"])
    assert here.labels(number) == {WORKING, MANAGED}
    body = here.control.look(REPO, number)["comments"][0]["body"]
    assert body.startswith(f"{CLAIM_COMMENT_PREFIX}v=2 ")
    assert f"codename=lucius firing_id={RUN} " in body
    assert not claim_issue(REPO, number, codename="smith", firing_id=OTHER)
    assert here.log(number) == ["claim"]


def test_a_release_with_a_pull_request_finishes_the_issue(here: Tracked) -> None:
    number = here.issue()
    claim_issue("engine", number, **LUCIUS)
    assert release_issue("engine", number, **LUCIUS, transition_to="agent:pr-open", pr_url=PR)
    assert here.labels(number) == {PR_OPEN, MANAGED}
    assert here.marker(number)["pr"] == PR
    assert (here.items(), here.claims()) == ({str(number): "completed"}, [])
    assert here.control.look(REPO, number)["state"] == "open"


def test_a_release_to_pr_open_does_not_need_to_name_the_pull_request(here: Tracked) -> None:
    number = here.issue()
    claim_issue(REPO, number, **LUCIUS)
    assert release_issue(REPO, number, **LUCIUS, transition_to="agent:pr-open")
    assert here.labels(number) == {PR_OPEN, MANAGED}
    assert here.marker(number)["pr"] == "unnamed"
    assert here.control.look(REPO, number)["state"] == "open"
    assert (here.items(), here.claims()) == ({str(number): "completed"}, [])


def test_without_a_pull_request_the_issue_is_ready_again(here: Tracked) -> None:
    number = here.issue()
    claim_issue(REPO, number, **LUCIUS)
    assert release_issue(REPO, number, **LUCIUS)
    body = here.control.look(REPO, number)["comments"][1]["body"]
    assert body.startswith(RELEASE_COMMENT_PREFIX)
    assert here.marker(number)["outcome"] == "success"
    assert here.labels(number) == {READY, MANAGED}
    assert (here.items(), here.claims()) == ({str(number): "queued"}, [])


@pytest.mark.parametrize(
    ("how", "label", "status"),
    [
        ({"outcome": "failure"}, FAILED, "failed"),
        ({"outcome": "partial"}, FAILED, "blocked"),
        ({"outcome": "failure", "transition_to": "agent:implement"}, READY, "queued"),
        ({"outcome": "race-yielded-to=smith:f1"}, READY, "queued"),
        ({"transition_to": "agent:done"}, "agent:done", "completed"),
    ],
)
def test_outcomes_decide_what_becomes_of_it(
    here: Tracked, how: dict[str, str], label: str, status: str
) -> None:
    number = here.issue()
    claim_issue(REPO, number, **LUCIUS)
    assert release_issue(REPO, number, **LUCIUS, **how)
    assert here.labels(number) == {label, MANAGED}
    assert here.items() == {str(number): status}


def test_only_the_run_that_holds_it_releases_it(here: Tracked) -> None:
    number = here.issue()
    claim_issue(REPO, number, **LUCIUS)
    before = here.control.look(REPO, number)
    assert not release_issue(REPO, number, codename="lucius", firing_id=OTHER, pr_url=PR)
    assert not release_issue(REPO, number, codename="smith", firing_id=RUN)
    assert here.control.look(REPO, number) == before
    assert here.items() == {str(number): "in_progress"}
    assert release_issue(REPO, number, **LUCIUS)
    assert not release_issue(REPO, number, **LUCIUS)


def test_a_run_takes_one_issue_after_another(here: Tracked) -> None:
    first, second = here.issue(), here.issue()
    assert claim_issue(REPO, first, **LUCIUS)
    assert release_issue(REPO, first, **LUCIUS)
    assert claim_issue(REPO, second, **LUCIUS)
    assert release_issue(REPO, second, **LUCIUS, pr_url=PR)
    assert here.labels(second) == {PR_OPEN, MANAGED}


def test_wrong_input_is_refused_before_anything_is_taken(here: Tracked) -> None:
    number = here.issue()
    with pytest.raises(InvalidInput, match="codename: 'Lucius Fox' is not a name"):
        claim_issue(REPO, number, codename="Lucius Fox", firing_id=RUN)
    with pytest.raises(InvalidInput, match="firing_id"):
        claim_issue(REPO, number, codename="lucius", firing_id="two words")
    with pytest.raises(IssueNotFound):
        claim_issue(REPO, 99, **LUCIUS)
    assert (here.items(), here.log(number)) == ({}, [])
    claim_issue(REPO, number, **LUCIUS)
    for how in ({"transition_to": "agent:in-flight"}, {"pr_url": "42"}, {"outcome": "so so"}):
        with pytest.raises(InvalidInput):
            release_issue(REPO, number, **LUCIUS, **how)
    assert here.log(number) == ["claim"]


def test_a_tracker_that_fails_is_an_error_and_never_a_free_issue(here: Tracked) -> None:
    number = here.issue()
    here.control.fault("error_before", method="POST", path="/comments", status=503)
    answer: object
    try:
        answer = claim_issue(REPO, number, **LUCIUS)
    except TrackerError as error:
        answer = error
    assert answer is not True
    assert (here.items(), here.claims()) == ({str(number): "queued"}, [])


async def test_it_works_within_a_running_loop(here: Tracked) -> None:
    number = await asyncio.to_thread(here.issue)
    assert claim_issue(REPO, number, **LUCIUS)
    assert issue_dedup_check(REPO, number)["holder"]["codename"] == "lucius"


# look


def test_a_check_says_whether_and_why_not(here: Tracked) -> None:
    number = here.issue()
    assert issue_dedup_check(REPO, number)["claimable"]
    claim_issue(REPO, number, **LUCIUS)
    checked = issue_dedup_check("engine", number)
    assert (checked["claimable"], checked["reason"]) == (False, "already_claimed")
    assert (checked["in_flight"], checked["latest_claim"]["codename"]) == (True, "lucius")


def test_stale_claims_are_found_by_age_and_ended_only_through_the_protocol(here: Tracked) -> None:
    number = here.issue("Forgotten")
    here.forge_claim(number, "elsewhere", "lucius", created_at="2026-05-01T19:42:33Z")
    assert find_stale_claims(REPO, max_age_hours=10**7) == []
    (stale,) = find_stale_claims(REPO)
    assert stale.pop("age_hours") > 4
    assert stale == {"repo": REPO, "number": number, "title": "Forgotten"} | LUCIUS
    someone = {"released_codename": "smith", "released_firing_id": RUN}
    assert not force_release_stale_claim(REPO, number, sweep_id="daily", **someone)
    assert here.log(number) == ["claim"]
    ours = {"released_codename": "lucius", "released_firing_id": RUN}
    here.control.clock(advance=-60)  # longer ago than the grace
    assert not force_release_stale_claim(REPO, number, sweep_id="daily", **ours)
    assert here.log(number) == ["claim", "suspect"]
    assert here.marker(number)["by"] == "daily"
    here.control.clock(advance=60)
    assert force_release_stale_claim(REPO, number, sweep_id="daily", **ours)
    assert here.labels(number) == {READY, MANAGED}
    assert not force_release_stale_claim(REPO, number, sweep_id="daily")


def test_a_claim_that_was_asked_after_is_stale_until_somebody_answers(here: Tracked) -> None:
    here.configure(times={"grace": 300})
    number = here.issue("Forgotten")
    claim = here.forge_claim(number, "elsewhere", "lucius", created_at="2026-05-01T19:42:33Z")
    assert not force_release_stale_claim(REPO, number, sweep_id="daily")
    assert [one["number"] for one in find_stale_claims(REPO)] == [number]
    assert find_stale_claims(REPO, max_age_hours=10**7) == []
    assert [one["codename"] for one in here.json("issue", "stale")] == ["lucius"]
    swept = here.run("issue", "sweep")
    assert (swept.stdout, "still have time to answer" in swept.stderr) == ("", True)
    here.control.comment(REPO, number, f"<!-- agent-alive:v=2 claim={claim} -->", user="ada")
    assert find_stale_claims(REPO) == []


def test_a_claim_of_this_fleet_that_is_alive_is_not_ended_and_a_dead_one_at_once(
    here: Tracked,
) -> None:
    live, dead = here.issue(), here.issue()
    claim_issue(REPO, live, codename="lucius", firing_id=OTHER)
    here.forge_claim(dead, here.marker(live)["fleet"], "ghost")
    assert [one["number"] for one in find_stale_claims(REPO, max_age_hours=0)] == [dead]
    assert not force_release_stale_claim(REPO, live, sweep_id="daily")
    assert force_release_stale_claim(REPO, dead, sweep_id="daily")
    assert (here.log(live), here.log(dead)) == (["claim"], ["claim", "release"])


# the rest


def test_repositories_are_paused_in_the_state_directory(here: Tracked) -> None:
    number = here.issue()
    assert here.place / claims.PAUSED_REPOS_FILE == here.place / ".rota" / "paused-repos.json"
    assert set_repo_paused(REPO, True) == list_paused_repos() == [REPO]
    assert is_repo_paused("engine")
    assert not claim_issue(REPO, number, **LUCIUS)
    assert set_repo_paused("engine", False) == []
    assert claim_issue(REPO, number, **LUCIUS)


def test_the_names_that_scripts_rely_on_are_there() -> None:
    assert [name for name, _, _ in LIFECYCLE_LABELS] == [
        "agent:implement",
        "agent:in-flight",
        "agent:pr-open",
        "agent:done",
    ]
    for name in claims.__all__:
        assert getattr(claims, name) is not None
    with pytest.raises(AttributeError):
        claims.nothing_of_the_kind  # noqa: B018


def test_importing_it_costs_nothing() -> None:
    script = (
        "import sys; import rota.claims; from rota.claims import LIFECYCLE_LABELS\n"
        "print(*({'asyncio', 'httpx2', 'pydantic', 'rota.app'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
