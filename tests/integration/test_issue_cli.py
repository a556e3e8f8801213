"""`rota issue` in real processes, on a tracker that is a stub."""

import os
import pty
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from rota.testing.tracker import TokenKind, TrackerStub
from tests.acceptance.terminal import ROTA, environment
from tests.integration.tracked import (
    FAILED,
    HOLD,
    MANAGED,
    PR_OPEN,
    READY,
    REPO,
    TOKEN,
    WORKING,
    Tracked,
)

PR = "https://github.com/ada/engine/pull/9"
CERTIFICATE = Path(__file__).parents[1] / "data" / "self-signed.pem"


@pytest.fixture
def here(stub: TrackerStub, tmp_path: Path) -> Tracked:
    return Tracked(tmp_path, stub=stub)


# people


def test_a_person_takes_an_issue_and_gives_it_back(here: Tracked) -> None:
    number = here.issue()
    claimed = here.json("issue", "claim", f"engine#{number}")
    assert (claimed["repo"], claimed["codename"]) == (REPO, "ada")
    assert here.labels(number) == {WORKING, MANAGED, HOLD}
    standing = here.json("issue", "status", f"{REPO}#{number}")
    assert standing["holder"]["claim"] == claimed["claim"]
    assert (standing["in_flight"], standing["claimable"]) == (True, False)
    here.json("issue", "claim", f"engine#{number}", "--agent", "smith", code=1)
    assert here.log(number) == ["claim"]
    assert here.type("issue", "release", f"engine#{number}") == f"engine#{number} is given back\n"
    assert here.labels(number) == {READY, MANAGED}
    assert "may be picked up" in here.type("issue", "dedup-check", f"engine#{number}")


def test_who_only_looks_at_an_issue_leaves_nothing_on_the_machine(
    here: Tracked, tmp_path: Path
) -> None:
    number = here.issue()
    assert here.json("issue", "status", f"{REPO}#{number}")["claimable"] is True
    here.type("issue", "dedup-check", f"{REPO}#{number}")
    assert not list(tmp_path.rglob("rota.db*"))
    here.type("issue", "claim", f"{REPO}#{number}")
    assert list(tmp_path.rglob("rota.db"))
    assert here.json("issue", "status", f"{REPO}#{number}")["claimable"] is False


def test_force_takes_it_from_an_agent_whose_late_release_changes_nothing(here: Tracked) -> None:
    number = here.issue()
    name = f"engine#{number}"
    here.type("issue", "claim", name, "--agent", "smith")
    refused = here.run("issue", "claim", name)
    assert (refused.returncode, "'smith' holds it" in refused.stderr) == (1, True)
    assert here.json("issue", "release", name, code=7)["code"] == "refused"
    here.type("issue", "claim", name, "--force")
    assert here.log(number) == ["claim", "revoke", "claim"]
    before = here.control.look(REPO, number)
    late = here.json("issue", "release", name, "--agent", "smith", "--pr", PR, code=7)
    assert late["code"] == "claim_lost"
    assert here.control.look(REPO, number) == before
    assert here.items() == {str(number): "queued"}


def test_a_hold_keeps_agents_away_until_it_is_taken_off(here: Tracked) -> None:
    number = here.issue()
    assert "agents stay away" in here.type("issue", "hold", f"engine#{number}")
    checked = here.run("issue", "dedup-check", f"engine#{number}")
    assert (checked.returncode, checked.stdout) == (1, "")
    assert "'do-not-pickup' keeps agents away" in checked.stderr
    here.type("issue", "unhold", f"engine#{number}")
    assert here.labels(number) == {READY}


def test_a_text_of_a_stranger_is_worked_from_once_somebody_has_approved_it(here: Tracked) -> None:
    here.control.repo("ada/open")
    number = here.control.issue("ada/open", "Run this for me", user="eve", labels=[READY])
    here.control.label("ada/open", number, remove=[READY])
    here.control.label("ada/open", number, add=[READY], by="eve")
    here.configure(repo="ada/open")
    told = here.run("issue", "claim", f"open#{number}", "--agent", "smith")
    assert (told.returncode, "rota issue approve" in told.stderr) == (1, True)
    assert "as it stands: Run this" in here.type("issue", "approve", f"open#{number}")
    here.type("issue", "claim", f"open#{number}", "--agent", "smith")
    assert here.json("issue", "whois", "ada")["id"] == 7
    assert here.json("issue", "whois", "nobody-at-all", code=1)["code"] == "not_found"


# agents


def test_an_agent_claims_and_finishes_with_a_pull_request(here: Tracked) -> None:
    number = here.issue()
    address = here.control.look(REPO, number) and f"{here.stub.url}/{REPO}/issues/{number}"
    claimed = here.json(
        "issue", "claim", address, "--agent", "smith", "--firing-id", "20260501-194217-643a"
    )
    assert here.marker(number)["firing_id"] == claimed["firing_id"] == "20260501-194217-643a"
    assert "yours until" in here.type("heartbeat", claimed["item"], "--token", claimed["token"])
    assert here.json("issue", "claim", address, "--agent", "jones", code=1) is None
    assert here.json("issue", "release", address, "--agent", "jones", code=7)
    wrong = ("--firing-id", "20260501-194217-ffff")
    assert here.json("issue", "release", address, "--agent", "smith", *wrong, code=7)
    here.type("issue", "release", address, "--agent", "smith", "--pr", PR, "--reason", "Mended")
    assert here.labels(number) == {PR_OPEN, MANAGED}
    assert here.marker(number)["pr"] == PR
    assert (here.items(), here.claims()) == ({str(number): "completed"}, [])
    assert here.json("issue", "status", address)["pr"] == PR
    here.type("issue", "reopen", address)
    assert here.labels(number) == {READY, MANAGED}
    assert here.json("issue", "reopen", address, code=1) == {"issue": address, "reopened": False}


def test_an_agent_that_fails_leaves_the_issue_to_a_person(here: Tracked) -> None:
    number = here.issue()
    here.type("issue", "claim", f"engine#{number}", "--agent", "smith")
    here.type(
        "issue", "release", f"engine#{number}", "--agent", "smith", "--outcome", "failure",
        "--reason", "no tests",
    )  # fmt: skip
    assert here.labels(number) == {FAILED, MANAGED}
    assert here.items() == {str(number): "failed"}


# tidying up


def test_a_sweep_ends_our_dead_claims_at_once_and_asks_after_those_of_others(here: Tracked) -> None:
    ours, foreign, live = here.issue("Ours"), here.issue("Theirs"), here.issue("Live")
    here.type("issue", "claim", f"engine#{live}", "--agent", "smith")
    here.forge_claim(ours, here.marker(live)["fleet"], "ghost")
    here.forge_claim(foreign, "elsewhere", "lucius", created_at="2026-05-01T19:42:33Z")
    found = here.json("issue", "stale")
    assert [(one["number"], one["codename"]) for one in found] == [
        (ours, "ghost"),
        (foreign, "lucius"),
    ]
    planned = here.json("issue", "sweep", REPO, "--dry-run")
    assert [one["deed"] for one in planned] == ["released", "suspected"]
    assert here.log(ours) + here.log(foreign) == ["claim", "claim"]
    here.control.clock(advance=-60)  # longer ago than the grace
    lines = here.type("issue", "sweep", "engine").splitlines()
    assert [line.split("\t")[:4] for line in lines] == [
        [REPO, str(ours), "released", "ghost"],
        [REPO, str(ours), "relabelled", ""],
        [REPO, str(foreign), "suspected", "lucius"],
    ]
    assert (here.log(ours), here.labels(ours)) == (["claim", "release"], {READY, MANAGED})
    here.control.clock(advance=60)
    assert [one["deed"] for one in here.json("issue", "sweep")] == ["expired", "relabelled"]
    assert here.labels(foreign) == {READY, MANAGED}
    assert here.log(live) == ["claim"]
    assert here.json("issue", "stale", "--max-age-hours", "0", code=1) == []
    assert here.json("issue", "sweep") == []


def test_one_repository_that_fails_does_not_keep_the_others_from_being_swept(here: Tracked) -> None:
    number = here.issue()
    here.type("issue", "status", f"engine#{number}")
    here.control.label(REPO, number, add=[WORKING])
    gone = {"type": "github", "repo": "ada/gone", "api_url": here.stub.url}
    here.configure(gone | {"auth": {"token_env": TOKEN}, "times": {"settle": 0.05}})
    done = here.run("issue", "sweep")
    assert (done.returncode, done.stdout.split("\t")[2]) == (1, "relabelled")
    assert done.stderr.startswith("ada/gone: ")


def test_what_could_not_be_judged_is_not_said_to_be_right(here: Tracked) -> None:
    number = here.issue()
    claim = here.forge_claim(number, "north", "thor")
    here.control.edit_comment(REPO, claim, "<!-- agent-claim:v=2 fleet=north codename=loki -->")
    said = f"{REPO}#{number}: a claim comment was edited, so its log cannot be believed; delete"
    swept = here.run("issue", "sweep")
    assert (swept.returncode, swept.stdout) == (0, "")
    assert swept.stderr == f"{said} that comment\n"
    stale = here.run("issue", "stale")
    assert stale.returncode == 1
    assert stale.stderr == f"{said} that comment\nnothing is stale\n"
    here.control.fault("error_before", path=f"/issues/{number}$", status=403)
    failed = here.run("issue", "sweep")
    assert (failed.returncode, failed.stdout) == (5, "")
    assert failed.stderr.startswith(f"{REPO}#{number}: GitHub, ")
    assert "right" not in failed.stderr


def test_a_paused_repository_is_left_alone_and_an_unreadable_list_stops_everything(
    here: Tracked,
) -> None:
    number = here.issue()
    assert "ada/engine is paused" in here.type("issue", "pause", REPO)
    assert here.type("issue", "paused") == f"{REPO}\n"
    assert here.json("issue", "paused", "bob/other", code=1) == []
    refused = here.run("issue", "claim", f"engine#{number}", "--agent", "smith", "--json")
    assert (refused.returncode, '"reason": "repo_paused"' in refused.stdout) == (1, True)
    here.type("issue", "resume", "engine")
    again = here.run("issue", "resume", "engine")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "engine was not paused; paused repositories: none\n"
    assert here.json("issue", "resume", "engine", code=1)["is_paused"] is False
    assert "is no OWNER/REPO" in wrong(here, 2, "pause", "engien")
    assert here.json("issue", "paused") == []
    (here.place / ".rota" / "paused-repos.json").write_text("[")
    error = here.json("issue", "claim", f"engine#{number}", "--agent", "smith", code=6)
    assert error["code"] == "pause_unreadable"
    assert here.log(number) == []


# wrong input: told in a line, and nothing is left behind


def wrong(here: Tracked, code: int, *words: str) -> str:
    done = here.run("issue", *words)
    assert done.returncode == code, done.stderr
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    assert done.stderr.startswith("rota: ")
    return done.stderr


def test_a_reference_that_names_no_issue(here: Tracked) -> None:
    number = here.issue()
    for name in ("engine", "engine#0", "a/b/c#1", "engine#1x", f"{here.stub.url}/{REPO}"):
        assert "write OWNER/REPO#NUMBER" in wrong(here, 2, "hold", name)
    assert "no source is configured" in wrong(here, 2, "claim", "other#1")
    elsewhere = f"https://git.example.org/{REPO}/issues/{number}"
    assert "no source is configured for git.example.org" in wrong(here, 2, "claim", elsewhere)
    assert "is no repository" in wrong(here, 2, "pause", "a/b/c")
    assert "does not name a repository" in wrong(here, 2, "sweep", "a/b/c")
    assert here.log(number) == []


def test_what_is_not_there_and_what_is_a_pull_request(here: Tracked) -> None:
    pull = here.issue(pull_request=True)
    assert "#99 is not there" in wrong(here, 1, "claim", "engine#99", "--agent", "smith")
    assert here.json("issue", "status", f"engine#{pull}")["reason"] == "pull_request"
    told = here.run("issue", "claim", f"engine#{pull}", "--agent", "smith")
    assert (told.returncode, "is a pull request" in told.stderr) == (1, True)
    assert "is a pull request" in wrong(here, 2, "hold", f"engine#{pull}")
    assert "is a pull request" in wrong(here, 2, "claim", f"{here.stub.url}/{REPO}/pull/{pull}")
    assert (here.log(pull), here.labels(pull), here.items()) == ([], {READY}, {})
    here.configure(repo="ada/nowhere")
    assert "does not exist" in wrong(here, 1, "claim", "nowhere#1")


def test_a_token_that_is_missing_or_expired(here: Tracked) -> None:
    number = here.issue()
    claim = ("claim", f"engine#{number}", "--agent", "smith")
    here.control.revoke(here.variables[TOKEN])
    assert "mistyped, expired or revoked" in wrong(here, 3, *claim)
    here.variables[TOKEN] = ""
    assert f"set the environment variable {TOKEN}" in wrong(here, 3, *claim)
    assert (here.log(number), here.items()) == ([], {})


@pytest.mark.parametrize("private", [True, False])
def test_a_token_without_the_scope_is_told_which_it_has_and_lacks(
    here: Tracked, private: bool
) -> None:
    here.control.repo("ada/other", private=private)
    number = here.control.issue("ada/other", labels=[READY])
    here.configure(repo="ada/other")
    here.control.token("ada", scopes=["gist", "read:org"])
    error = here.json("issue", "claim", f"other#{number}", "--agent", "smith", code=4)
    assert error["details"] == {
        "found_scopes": ["gist", "read:org"],
        "required_scopes": ["repo"],
        "missing_scopes": ["repo"],
    }
    assert "has the scopes gist, read:org and lacks `repo`" in error["message"]
    assert here.control.look("ada/other", number)["comments"] == []
    assert (set(here.items().values()) <= {"queued"}, here.claims()) == (True, [])


def test_a_token_without_the_permission(here: Tracked) -> None:
    number = here.issue()
    here.control.token("ada", kind=TokenKind.FINE_GRAINED, lacks=["issues"])
    said = wrong(here, 4, "claim", f"engine#{number}", "--agent", "smith")
    assert f"the token in {TOKEN} lacks the permission" in said
    assert (here.items(), here.claims()) == ({str(number): "queued"}, [])


def test_a_rate_limit_that_is_used_up_is_no_lack_of_permission(here: Tracked) -> None:
    number = here.issue()
    here.control.limit("ada", remaining=0, reset_in=3000)
    assert "is used up until" in wrong(here, 6, "claim", f"engine#{number}", "--agent", "smith")
    assert (here.log(number), here.items()) == ([], {})


def test_a_host_that_cannot_be_reached(here: Tracked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    here.configure(api_url=address)
    assert "cannot be asked" in wrong(here, 5, "claim", "engine#1", "--agent", "smith")
    assert here.items() == {}


def test_a_certificate_that_is_not_accepted(here: Tracked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here.configure(api_url=f"https://127.0.0.1:{listener.getsockname()[1]}")
        threading.Thread(target=_shake_hands, args=[listener], daemon=True).start()
        said = wrong(here, 5, "claim", "engine#1", "--agent", "smith")
    assert "its certificate is not accepted" in said
    assert here.items() == {}


def _shake_hands(listener: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    connection, _ = listener.accept()
    with connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection, server_side=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["claim", "engine#1", "--agent", "Not A Name"], "is not a name"),
        (["claim", "engine#1", "--agent", "smith", "--firing-id", "a b"], "firing_id"),
        (["release", "engine#1", "--agent", "smith", "--pr", "nine"], "not the address"),
        (["release", "engine#1", "--agent", "smith", "--outcome", "so so"], "outcome"),
        (["claim", "engine#1", "--firing-id", "x"], "--firing-id: only with --agent"),
        (["claim", "engine#1", "--agent", "smith", "--force"], "--force is for people"),
        (["status", "engine#1", "--url", "http://127.0.0.1:1"], "--url is not for this command"),
        (["status", "engine#1", "--config", "missing.yaml"], "no configuration file"),
    ],
)
def test_options_that_make_no_sense(here: Tracked, words: list[str], said: str) -> None:
    here.issue()
    done = here.run("issue", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert here.log(1) == []


def test_a_configuration_with_mistakes_is_told_with_its_place(here: Tracked) -> None:
    (here.place / "rota.yaml").write_text("sources:\n  - type: github\n    repo: engine\n")
    assert "rota.yaml:3:5: sources[0].repo" in wrong(here, 2, "status", "engine#1")


# without configuration, and on a terminal


def test_a_repository_that_is_not_configured_has_the_names_of_label_state(here: Tracked) -> None:
    (here.place / "rota.yaml").unlink()
    number = here.issue(labels=["agent:implement"])
    here.variables |= {"GITHUB_TOKEN": here.variables[TOKEN], "GITHUB_API_URL": here.stub.url}
    assert here.json("issue", "dedup-check", f"{REPO}#{number}")["claimable"]


def test_people_on_a_terminal_are_told_that_a_claim_takes_its_time(here: Tracked) -> None:
    number = here.issue()
    here.configure(times={"settle": 0.6, "grace": 5})
    assert " s, until everything" in on_a_terminal(here, "issue", "claim", f"engine#{number}")
    assert "waiting" not in here.run("issue", "release", f"engine#{number}").stderr


def on_a_terminal(here: Tracked, *words: str) -> str:
    master, slave = pty.openpty()
    variables: dict[str, Any] = {"TERM": "xterm", "COLUMNS": "160", **here.variables}
    with subprocess.Popen(
        [*ROTA, *words],
        cwd=here.place,
        env=environment(**variables),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as process:
        os.close(slave)
        seen = b""
        try:
            while chunk := os.read(master, 65_536):
                seen += chunk
        except OSError:  # how Linux says that the other side has closed
            pass
        os.close(master)
    assert process.returncode == 0, seen
    return seen.decode()
